"""Sends a long page in parts: each part is read from the storage when the client has taken the one before.

The size, entity tag and next offset are known at the start, because bytes at an offset never change. The bytes may be
removed meanwhile, by deletion or by retention, which does not wait for slow readers. Then the connection is closed
early, so that the client sees that the response is incomplete.
"""

import asyncio
import logging
from functools import partial

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.stream import Stream
from everbrook.protocol.errors import ProtocolError
from everbrook.protocol.messages import unpack_part, unpacked_bytes
from everbrook.protocol.read import Page
from everbrook.server.exchange import Exchange, Response
from everbrook.server.resources.compression import CODERS, Coder, encoded_lines

logger = logging.getLogger(__name__)


class LongPage:
    """A response whose page is too long to be buffered as a whole."""

    brief = True

    def __init__(self, engine: Engine, stream: Stream, page: Page, headers: bytes, coding: bytes | None) -> None:
        """Prepare the response, compressed by `coding` if that makes it smaller. Raise `StreamDamaged` at damage."""
        self._engine = engine
        self._stream = stream
        self._page = page
        self._headers = headers
        self._coder = CODERS[coding]() if coding else None
        self._coding = coding
        self._offset = page.start
        self._exchange: Exchange | None = None
        self._began = False
        self._under_way = False
        # Damage at the start of the page is a refusal; damage later in it ends the page before the damage.
        self._part = self._read()

    def _read(self) -> bytes:
        """Read the next part of the body."""
        page, start = self._page, self._offset
        self._offset = min(start + self._engine.tuning.feed.part_bytes, page.end)
        stored = self._engine.readers.read_part(self._stream, start, self._offset)
        identity = page.head.identity
        return unpack_part(identity, stored, first=start == page.start, last=self._offset == page.end)

    def start(self, exchange: Exchange) -> None:
        """Send the first part."""
        self._exchange = exchange
        self._send(self._part)
        self._part = b""

    def resume(self) -> None:
        """Send the next part after other connections had their turn, if the socket buffer has space."""
        if self._exchange is not None and not self._under_way and not self._exchange.congested:
            self._under_way = True
            self._engine.faults.soon(Callback.RESPONSE, self._send_next, failed=self._break_off)

    def _send_next(self) -> None:
        self._under_way = False
        if self._exchange is None:
            return
        try:
            part = self._read()
        except Exception as error:
            # The stream was deleted, cut or found to be damaged meanwhile.
            if not isinstance(error, (ProtocolError, OSError, KeyError)):
                logger.exception("a page could not be read and was broken off")
            self._break_off()
        else:
            self._send(part)

    def _send(self, part: bytes) -> None:
        if self._coder is None:
            self._write(part)
            return
        self._under_way = True
        packing = asyncio.get_running_loop().run_in_executor(None, self._pack, self._coder, part)
        take = partial(self._take, part)
        packing.add_done_callback(self._engine.faults.guarded(Callback.RESPONSE, take, self._break_off))

    def _pack(self, coder: Coder, part: bytes) -> bytes:
        """Compress a part, in a thread."""
        packed = coder.part(part)
        return packed + coder.end() if self._offset == self._page.end else packed

    def _take(self, part: bytes, packing: asyncio.Future[bytes]) -> None:
        """Send a compressed part. If the first part does not become smaller, all parts are sent uncompressed."""
        self._under_way = False
        if self._exchange is None:
            return
        packed = packing.result()
        if not self._began and len(packed) >= len(part):
            self._coder, packed = None, part
        self._write(packed)

    def _write(self, part: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if not self._began:
            self._began = True
            exchange.begin(self._head())
        exchange.write(exchange.frame(part))
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

    def _break_off(self) -> None:
        exchange = self._exchange
        self.cancel()
        if exchange is not None:
            exchange.abort()

    def cancel(self) -> None:
        """Stop reading."""
        self._exchange = None

    def shut_down(self) -> None:
        """Do nothing: the response ends soon by itself."""
