"""The bootstrap resource: a multipart response of a snapshot and every message after it, at one moment (002 §3)."""

import secrets

from everbrook.engine.engine import Engine
from everbrook.engine.stream import Stream
from everbrook.protocol import multipart
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE
from everbrook.protocol.errors import InvalidQuery, StreamDamaged, StreamNotFound
from everbrook.protocol.query import parse_parameters
from everbrook.protocol.read import NO_STORE, page_from
from everbrook.protocol.state import Head, Snapshot
from everbrook.server.deferred import Streamed
from everbrook.server.exchange import Exchange, Reply, Request, Response
from everbrook.server.resources.headers import CLOSED, with_incarnation
from everbrook.server.routes import Route
from everbrook.storage.api import BlobReader

BLOB_PIECE_BYTES = 256 * 1024
MIN_PIECE_BYTES, FIRST_PIECE_BYTES, MAX_PIECE_BYTES = 4 * 1024, 16 * 1024, 256 * 1024
MAX_PIECE_MESSAGES = 2048


class BootstrapResource:
    """The bootstrap of a stream."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._readers = engine.readers

    def read(self, request: Request, common: bytes, route: Route) -> Reply:
        """GET (002 §3.1)."""
        if parse_parameters(request.query, {b"live"}):
            raise InvalidQuery("a bootstrap can't be live: follow the stream itself from its Stream-Next-Offset")
        stream = self._readers.open(route.name, self._engine.clock.now())
        # The boundary is random, so that no message can contain it.
        boundary = b"everbrook-%b" % secrets.token_hex(16).encode()
        common = with_incarnation(request, common, stream.committed.identity, self._engine.epoch)
        response = Response(200, common + _lines(stream.committed, boundary))
        return response if request.method == b"HEAD" else Bootstrap(self._engine, stream, response, boundary)


def _lines(head: Head, boundary: bytes) -> bytes:
    snapshot = head.kept.snapshot
    return (
        b"Content-Type: %b\r\nStream-Snapshot-Offset: %b\r\nStream-Next-Offset: %016d\r\n"
        b"Stream-Up-To-Date: true\r\n%bCache-Control: %b\r\n"
    ) % (
        multipart.content_type(boundary),
        b"%016d" % snapshot.offset if snapshot else b"-1",
        head.tail,
        CLOSED if head.closed else b"",
        NO_STORE,
    )


class Bootstrap(Streamed):
    """A bootstrap that is sent piece by piece. The reclaimer keeps the bytes of the stream until it ends."""

    def __init__(self, engine: Engine, stream: Stream, response: Response, boundary: bytes) -> None:
        super().__init__(engine.faults)
        self._engine = engine
        self._readers = engine.readers
        self._stream = stream
        # The bootstrap is the state of this moment. Later appends follow in a read from `Stream-Next-Offset`.
        self._head = stream.committed
        self._response = response
        self._boundary = boundary
        self._message_head = multipart.next_part_head(boundary, self._head.identity.content_type)
        snapshot = self._head.kept.snapshot
        self._offset = snapshot.offset if snapshot else self._head.kept.earliest
        self._blob = self._open(snapshot)
        self._blob_bytes = snapshot.size if snapshot else 0
        self._piece_bytes = FIRST_PIECE_BYTES
        self._held = True
        # Retention may cut the stream while a slow client reads, so its bytes must stay until the end.
        engine.reclaimer.hold(stream)

    def _open(self, snapshot: Snapshot | None) -> BlobReader | None:
        return self._readers.open_blob(self._stream, snapshot) if snapshot and snapshot.size else None

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        exchange.begin(self._response)
        snapshot = self._head.kept.snapshot
        content_type = snapshot.content_type if snapshot else DEFAULT_CONTENT_TYPE
        exchange.write(exchange.frame(multipart.part_head(self._boundary, content_type)))
        self.resume()

    def send(self, piece: bytes) -> None:
        """Send a piece. An empty piece means that the body is complete."""
        exchange = self.exchange
        if exchange is None:
            return
        if piece:
            exchange.write(exchange.frame(piece))
            self.resume()
        else:
            self.cancel()
            exchange.write(exchange.frame(multipart.closing(self._boundary)))
            exchange.finish()

    def next_piece(self) -> bytes:
        if self._blob:
            piece = self._blob.read(BLOB_PIECE_BYTES)
            self._blob_bytes -= len(piece)
            if piece:
                return piece
            if self._blob_bytes:
                raise StreamDamaged("the snapshot of the stream is shorter than its recorded size")
            self._blob.close()
            self._blob = None
        if self._offset == self._head.tail:
            return b""
        self._require_stream()
        page = page_from(self._head, self._stream.lineage, self._offset, self._piece_bytes)
        self._offset = page.end
        ends = self._readers.messages(self._stream, page).ends
        # The costs are per part, not per byte: a piece of tiny messages would make a long turn of the loop.
        self._set_pace(len(ends))
        stored = self._readers.read(self._stream, page)
        return multipart.parts(self._head.identity, self._message_head, page.start, ends, stored)

    def _set_pace(self, messages: int) -> None:
        """Adapt the size of a piece to that of the messages: each one becomes a part, and many parts take long."""
        if messages > MAX_PIECE_MESSAGES:
            self._piece_bytes = max(MIN_PIECE_BYTES, self._piece_bytes // 2)
        elif messages < MAX_PIECE_MESSAGES // 4:
            self._piece_bytes = min(MAX_PIECE_BYTES, self._piece_bytes * 2)

    def _require_stream(self) -> None:
        """Raise if the stream was deleted. A soft-deleted stream is read to its end: its forks need its bytes."""
        self._stream = self._readers.current(self._stream)
        if isinstance(self._stream.ended, StreamNotFound):
            raise self._stream.ended.with_traceback(None)

    def cancel(self) -> None:
        super().cancel()
        if self._blob:
            self._blob.close()
            self._blob = None
        # The end of the body and the loss of the connection may both cancel.
        if self._held:
            self._held = False
            self._engine.reclaimer.release(self._stream)
