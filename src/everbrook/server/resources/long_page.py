"""Sends a long page in parts: each part is read from the storage when the client has taken the one before.

The size, entity tag and next offset are known at the start, because bytes at an offset never change. The bytes may be
removed meanwhile, by deletion or by retention, which does not wait for slow readers. Then the connection is closed
early, so that the client sees that the response is incomplete.
"""

import asyncio
from functools import partial

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.stream import Stream
from everbrook.protocol.messages import unpack_part, unpacked_bytes
from everbrook.protocol.read import Page
from everbrook.server.exchange import Exchange, Response
from everbrook.server.pending import Streamed
from everbrook.server.resources.compression import CODERS, Coder, encoded_lines


class LongPage(Streamed):
    """An answer whose body is a page that is too long to be held as a whole."""

    def __init__(self, engine: Engine, stream: Stream, page: Page, headers: bytes, coding: bytes | None) -> None:
        """Answer with a page, compressed by a `coding` if it shrinks. `StreamDamaged` says that it can't begin."""
        super().__init__(engine.faults)
        self._engine = engine
        self._stream = stream
        self._page = page
        self._headers = headers
        self._coder = CODERS[coding]() if coding else None
        self._coding = coding
        self._offset = page.start
        self._began = False
        # Damage that is found here is a refusal, or ends the page before it.
        self._first = self.next_piece()

    def next_piece(self) -> bytes:
        page, start = self._page, self._offset
        self._offset = min(start + self._engine.tuning.feed.part_bytes, page.end)
        stored = self._engine.readers.read_part(self._stream, start, self._offset)
        identity = page.head.identity
        return unpack_part(identity, stored, first=start == page.start, last=self._offset == page.end)

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.send(self._first)
        self._first = b""

    def send(self, piece: bytes) -> None:
        """Send a piece, compressed in a thread if the client asked for that."""
        if self._coder is None:
            self._write(piece)
            return
        self.under_way = True
        compressing = asyncio.get_running_loop().run_in_executor(None, self._compress, self._coder, piece)
        take = partial(self._take, piece)
        compressing.add_done_callback(self._engine.faults.guarded(Callback.RESPONSE, take, self.abort))

    def _compress(self, coder: Coder, piece: bytes) -> bytes:
        compressed = coder.part(piece)
        return compressed + coder.end() if self._offset == self._page.end else compressed

    def _take(self, piece: bytes, compressing: asyncio.Future[bytes]) -> None:
        """Send a compressed piece. If the first one does not shrink, all of them are sent as they are."""
        self.under_way = False
        if self.exchange is None:
            return
        compressed = compressing.result()
        if not self._began and len(compressed) >= len(piece):
            self._coder, compressed = None, piece
        self._write(compressed)

    def _write(self, piece: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            return
        if not self._began:
            self._began = True
            exchange.begin(self._head())
        exchange.write(exchange.frame(piece))
        if self._offset < self._page.end:
            self.resume()
        else:
            self.cancel()
            exchange.finish()

    def _head(self) -> Response:
        page = self._page
        if self._coder is not None and self._coding is not None:
            return Response(200, encoded_lines(self._headers, self._coding))
        length = unpacked_bytes(page.head.identity, page.end - page.start)
        return Response(200, self._headers, length=length)
