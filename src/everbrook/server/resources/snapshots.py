"""The snapshots of a stream: publishing, finding, reading and deleting them, and setting what is retained (002 §2).

A snapshot is published in two steps: its bytes go to a blob while they arrive, then one change refers to the blob. So a
crash or a refusal in between leaves no partial snapshot.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import unquote_to_bytes

from msgspec.structs import replace

from everbrook.engine.blobs import Upload
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stream import Stream
from everbrook.protocol.commands import DeleteSnapshot, PublishSnapshot, Retain
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE, parse_media_type
from everbrook.protocol.errors import (
    DigestMismatch,
    InvalidHeader,
    InvalidOffset,
    ProtocolError,
    SnapshotNotFound,
    StreamDamaged,
    Unavailable,
    quoted,
)
from everbrook.protocol.lifetime import format_incarnation
from everbrook.protocol.offset import Sentinel, parse_offset
from everbrook.protocol.read import NO_CACHE, NO_STORE, PRIVATE_NO_CACHE, matches
from everbrook.protocol.retention import (
    find_snapshot,
    format_digest,
    format_snapshot_etag,
    parse_created_at,
    parse_digest,
    parse_history,
)
from everbrook.protocol.state import Head, Snapshot
from everbrook.server.auth.signed_urls import carried
from everbrook.server.deferred import settle
from everbrook.server.exchange import Deferred, Exchange, Reply, Request, Response, problem_response
from everbrook.server.methods import require_unpacked
from everbrook.server.resources.headers import NO_STORE_LINE, UP_TO_DATE, no_content, with_incarnation
from everbrook.server.routes import Route
from everbrook.settings import Settings
from everbrook.storage.api import BlobReader

Locate = Callable[[Request, bytes], bytes]


logger = logging.getLogger(__name__)
PIECE_BYTES = 256 * 1024


class Publication(Deferred):
    """Receives a snapshot as the `Upload` of a request, and is the deferred response to the request."""

    def __init__(
        self,
        engine: Engine,
        upload: Upload,
        command: PublishSnapshot,
        digest: bytes | None,
        incarnation: bytes | None,
        common: bytes,
        max_bytes: int,
    ) -> None:
        """Publish by `command`, if the body has the announced SHA-256 and the stream the expected incarnation."""
        self._engine = engine
        self._upload = upload
        self._command = command
        self._digest = digest
        self._incarnation = incarnation
        self._common = common
        self.max_bytes = max_bytes
        self.on_bytes: Callable[[int], None] = lambda _: None

    # While the body arrives

    @property
    def congested(self) -> bool:
        """Whether the disk is slower than the client."""
        return self._upload.congested

    @property
    def on_relief(self) -> Callable[[], None]:
        """The function to call when the disk has caught up."""
        return self._upload.on_relief or (lambda: None)

    @on_relief.setter
    def on_relief(self, relieve: Callable[[], None]) -> None:
        self._upload.on_relief = relieve

    def write(self, data: bytes) -> None:
        """Process the next bytes, or raise the refusal of the body. The rate limits count them in any case."""
        self.on_bytes(len(data))
        self._upload.write(data)

    def finish(self) -> "Publication":
        """Return the response, which is sent when the snapshot is stored."""
        return self

    # When the body is complete

    def start(self, exchange: Exchange) -> None:
        """Wait until the blob is durable."""
        self.exchange = exchange
        self._upload.finish(self._publish, self.abort)

    def _publish(self, failure: ProtocolError | None) -> None:
        """Publish the blob, unless the client is gone."""
        if self.exchange is None:
            return
        try:
            response = self._published(failure)
        except ProtocolError as error:
            self._upload.cancel()
            response = problem_response(error, self._common)
        response.rests_on = self._engine.last_change
        settle(self, self._engine, response, lambda failure: problem_response(failure, self._common))

    def _published(self, failure: ProtocolError | None) -> Response:
        if failure:
            raise failure
        digest = self._upload.digest
        # The digest is checked before the change, because a published snapshot may replace the messages before it.
        if self._digest not in {None, digest}:
            sent, stored = format_digest(self._digest or b"").decode(), format_digest(digest).decode()
            raise DigestMismatch(f"Content-Digest says {sent}, but the body that arrived has {stored}")
        if self._incarnation is not None:
            self._engine.require_incarnation(self._command.name, self._incarnation)
        # The upload may have taken long, so the decision uses the present time.
        command = replace(self._command, now=self._engine.clock.now())
        head = self._engine.publish(self._upload, command).head
        return Response(
            204, self._common + _published_lines(head, format_incarnation(head.identity, self._engine.epoch))
        )

    def cancel(self) -> None:
        """Remove the blob, if it is not published yet."""
        super().cancel()
        self._upload.cancel()


def _published_lines(head: Head, incarnation: bytes) -> bytes:
    snapshot = find_snapshot(head, None)
    return (
        b"%bStream-Incarnation: %b\r\nStream-Snapshot-Offset: %016d\r\nStream-Earliest-Offset: %016d\r\n"
        b"Content-Digest: %b\r\nETag: %b\r\n"
    ) % (
        NO_STORE_LINE,
        incarnation,
        snapshot.offset,
        head.kept.earliest,
        format_digest(snapshot.digest),
        format_snapshot_etag(snapshot),
    )


class Download(Deferred):
    """A response whose body is a blob: read in a thread, piece by piece, no faster than the client takes it.

    The head is sent with the first piece, so that a blob that can't be read can still be refused.
    """

    def __init__(self, reader: BlobReader, response: Response, common: bytes, faults: Faults) -> None:
        """Send the head `response`, then as many bytes as it announces."""
        self._reader = reader
        self._response = response
        self._common = common
        self._faults = faults
        self._left_bytes = response.length or 0
        self._began = False
        self._reading = False
        self._closed = False

    def start(self, exchange: Exchange) -> None:
        """Read the first piece."""
        self.exchange = exchange
        self.resume()

    def resume(self) -> None:
        """Read the next piece, unless the client is congested."""
        if self.exchange is not None and not self._reading and not self.exchange.congested:
            self._reading = True
            reading = asyncio.get_running_loop().run_in_executor(None, self._read)
            failed = self.exchange.abort
            reading.add_done_callback(self._faults.guarded(Callback.RESPONSE, self._take, failed))

    def _read(self) -> bytes:
        """Read a piece, in a thread. The reader may return it in smaller parts."""
        size = min(PIECE_BYTES, self._left_bytes)
        parts: list[bytes] = []
        while size:
            part = self._reader.read(size)
            if not part:
                raise StreamDamaged("the snapshot of the stream is shorter than its recorded size")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _take(self, reading: asyncio.Future[bytes]) -> None:
        self._reading = False
        error = reading.exception()
        if self.exchange is None:
            self._close()
        elif error:
            self._fail(self.exchange, error)
        else:
            self._send(self.exchange, reading.result())

    def _send(self, exchange: Exchange, piece: bytes) -> None:
        if not self._began:
            self._began = True
            exchange.begin(self._response)
        self._left_bytes -= len(piece)
        exchange.write(exchange.frame(piece))
        if self._left_bytes:
            self.resume()
        else:
            self.cancel()
            exchange.finish()

    def _fail(self, exchange: Exchange, error: BaseException) -> None:
        """Refuse the request, or abort the response if it has begun."""
        logger.error("a snapshot could not be read: %s", error)
        self.cancel()
        if self._began:
            exchange.abort()
        else:
            refusal = error if isinstance(error, ProtocolError) else StreamDamaged("the snapshot can't be read")
            exchange.respond(problem_response(refusal, self._common))

    def cancel(self) -> None:
        """Release the blob. If a thread is reading it, `_take` closes it afterwards."""
        super().cancel()
        if not self._reading:
            self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._reader.close()


class SnapshotResource:
    """The snapshots of a stream, and its earliest retained offset."""

    def __init__(self, engine: Engine, settings: Settings, location: Locate) -> None:
        self._engine = engine
        self._max_bytes = settings.limits.max_snapshot_bytes
        self._location = location

    def receive(self, request: Request, common: bytes, route: Route) -> Publication:
        """PUT …/snapshot/{offset}, before its body (002 §2.2)."""
        headers = request.headers
        require_unpacked(headers)
        content_type = headers.get(b"content-type") or DEFAULT_CONTENT_TYPE
        parse_media_type(content_type)
        command = PublishSnapshot(
            name=route.name,
            now=self._engine.clock.now(),
            offset=_parse_issued(route.argument),
            content_type=content_type,
            keep_history=parse_history(headers.get(b"stream-snapshot-history")),
            expected_etag=_parse_precondition(headers),
            created_at=parse_created_at(headers.get(b"stream-created-at-ms")),
            adds_only=request.rights is not None and not request.rights.may_delete(request, route.name),
        )
        digest = parse_digest(headers.get(b"content-digest"))
        upload = self._engine.begin_snapshot(command, _declared_bytes(headers))
        incarnation = headers.get(b"stream-incarnation")
        return Publication(self._engine, upload, command, digest, incarnation, common, self._max_bytes)

    def publish(self, request: Request, common: bytes, route: Route) -> Reply:
        """PUT …/snapshot/{offset}, with its body."""
        publication = self.receive(request, common, route)
        publication.write(request.body)
        return publication.finish()

    def latest(self, request: Request, common: bytes, route: Route) -> Response:
        """GET …/snapshot (002 §2.3)."""
        head = self._engine.readers.find(route.name, self._engine.clock.now()).committed
        common = with_incarnation(request, common, head.identity, self._engine.epoch)
        snapshot = find_snapshot(head, None)
        location = self._location(request, b"%b/%016d" % (request.path, snapshot.offset)) + carried(request)
        lines = b"%bLocation: %b\r\nStream-Snapshot-Offset: %016d\r\nCache-Control: %b\r\n"
        return Response(307, lines % (common, location, snapshot.offset, NO_STORE))

    def read(self, request: Request, common: bytes, route: Route) -> Reply:
        """GET …/snapshot/{offset} (002 §2.5)."""
        offset, now = _parse_named(route.argument), self._engine.clock.now()
        to_head = request.method == b"HEAD"
        # A HEAD is no use of the stream, so it must not renew its TTL.
        stream = self._engine.readers.find(route.name, now) if to_head else self._engine.readers.open(route.name, now)
        snapshot = find_snapshot(stream.committed, offset)
        common = with_incarnation(request, common, stream.committed.identity, self._engine.epoch)
        lines = common + _lines(stream.committed, snapshot, PRIVATE_NO_CACHE if request.private else NO_CACHE)
        if_none_match = request.headers.get(b"if-none-match")
        if if_none_match is not None and matches(if_none_match, format_snapshot_etag(snapshot)):
            return Response(304, lines)
        response = Response(200, lines, length=snapshot.size)
        if to_head or not snapshot.size:
            return response
        return Download(self._open(stream, snapshot), response, common, self._engine.faults)

    def _open(self, stream: Stream, snapshot: Snapshot) -> BlobReader:
        try:
            return self._engine.readers.open_blob(stream, snapshot)
        except OSError as error:
            raise Unavailable(f"the snapshot can't be read now: {error}") from error

    def delete(self, request: Request, common: bytes, route: Route) -> Response:
        """DELETE …/snapshot/{offset} (002 §2.6)."""
        offset = _parse_named(route.argument)
        head = self._cut(request, DeleteSnapshot(route.name, self._engine.clock.now(), offset))
        common = with_incarnation(request, common, head.identity, self._engine.epoch)
        return no_content(common, self._engine.last_change)

    def retain(self, request: Request, common: bytes, route: Route) -> Response:
        """PUT …/retention/{offset}."""
        offset = _parse_issued(route.argument)
        head = self._cut(request, Retain(route.name, self._engine.clock.now(), offset))
        common = with_incarnation(request, common, head.identity, self._engine.epoch)
        lines = b"%b%bStream-Earliest-Offset: %016d\r\n" % (common, NO_STORE_LINE, head.kept.earliest)
        return Response(204, lines, b"", self._engine.last_change)

    def _cut(self, request: Request, command: DeleteSnapshot | Retain) -> Head:
        if b"stream-incarnation" in request.headers:
            self._engine.require_incarnation(command.name, request.headers[b"stream-incarnation"])
        return self._engine.execute(command).head


def _lines(head: Head, snapshot: Snapshot, kept: bytes) -> bytes:
    return (
        b"Content-Type: %b\r\nStream-Snapshot-Offset: %016d\r\nStream-Next-Offset: %016d\r\n%b"
        b"Content-Digest: %b\r\nETag: %b\r\nCache-Control: %b\r\n"
    ) % (
        snapshot.content_type,
        snapshot.offset,
        snapshot.offset,
        UP_TO_DATE if snapshot.offset == head.tail else b"",
        format_digest(snapshot.digest),
        format_snapshot_etag(snapshot),
        kept,
    )


def _declared_bytes(headers: dict[bytes, bytes]) -> int:
    """Return the declared length of the body, or 0 if there is none: then the size is checked while it arrives."""
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


def _parse_issued(segment: bytes) -> int:
    """Read the segment of a URL that says where a stream shall begin (002 §2.2, §5)."""
    offset = parse_offset(unquote_to_bytes(segment))
    if isinstance(offset, Sentinel):
        raise InvalidOffset(f"the offset must be one that this server issued, got {quoted(segment)}")
    return offset


def _parse_named(segment: bytes) -> int:
    """Read the segment of a URL that names a snapshot. For `-1`, `now` and invalid offsets there is none (404)."""
    with suppress(InvalidOffset):
        offset = parse_offset(unquote_to_bytes(segment))
        if not isinstance(offset, Sentinel):
            return offset
    raise SnapshotNotFound(f"a snapshot is named by an offset that this server issued, got {quoted(segment)}")


def _parse_precondition(headers: dict[bytes, bytes]) -> bytes | None:
    """Read which snapshot to replace: the one of `If-Match`, or none with `If-None-Match: *` (RFC 9110 §13)."""
    if_match, if_none_match = headers.get(b"if-match"), headers.get(b"if-none-match")
    if if_none_match is not None and (if_none_match != b"*" or if_match is not None):
        raise InvalidHeader(f"If-None-Match must be *, without If-Match, got {quoted(if_none_match)}")
    if if_match is not None and if_match != b"*" and (b'"' not in if_match or b"," in if_match):
        raise InvalidHeader(f"If-Match must be the entity tag of one snapshot, or *, got {quoted(if_match)}")
    return b"" if if_none_match is not None else if_match
