"""A blob on its way to a client: read in a thread, piece by piece, no faster than the client takes it."""

import asyncio
import logging

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import ProtocolError, StreamDamaged
from everbrook.server.exchange import Exchange, Response
from everbrook.server.problem import problem_response
from everbrook.storage.api import BlobReader

logger = logging.getLogger(__name__)

PIECE_BYTES = 256 * 1024


class Download:
    """An answer whose body is a blob. It begins with the first piece, so that one that can't be read is a refusal."""

    brief = True

    def __init__(self, reader: BlobReader, response: Response, common: bytes, faults: Faults) -> None:
        """Send the head `response`, and then as much as it says."""
        self._reader = reader
        self._response = response
        self._common = common
        self._faults = faults
        self._left_bytes = response.length or 0
        self._exchange: Exchange | None = None
        self._began = False
        self._reading = False
        self._closed = False

    def start(self, exchange: Exchange) -> None:
        """Read the first piece."""
        self._exchange = exchange
        self.resume()

    def resume(self) -> None:
        """Read the next piece, if there is room for it."""
        if self._exchange is not None and not self._reading and not self._exchange.congested:
            self._reading = True
            reading = asyncio.get_running_loop().run_in_executor(None, self._read)
            failed = self._exchange.abort
            reading.add_done_callback(self._faults.guarded(Callback.RESPONSE, self._take, failed))

    def _read(self) -> bytes:
        """Read a piece, in a thread. The reader may give it in smaller ones."""
        size = min(PIECE_BYTES, self._left_bytes)
        parts: list[bytes] = []
        while size:
            part = self._reader.read(size)
            if not part:
                raise StreamDamaged("the snapshot of the stream is shorter than it was")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _take(self, reading: asyncio.Future[bytes]) -> None:
        self._reading = False
        error = reading.exception()
        if self._exchange is None:
            self._close()
        elif error:
            self._fail(self._exchange, error)
        else:
            self._send(self._exchange, reading.result())

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
        """Say that the blob can't be read, or break off."""
        logger.error("a snapshot could not be read: %s", error)
        self.cancel()
        if self._began:
            exchange.abort()
        else:
            refusal = error if isinstance(error, ProtocolError) else StreamDamaged("the snapshot can't be read")
            exchange.respond(problem_response(refusal, self._common))

    def cancel(self) -> None:
        """Let go of the blob, as soon as nobody is reading it."""
        self._exchange = None
        if not self._reading:
            self._close()

    def _close(self) -> None:
        if not self._closed:
            self._closed = True
            self._reader.close()

    def shut_down(self) -> None:
        """The answer comes soon by itself."""
