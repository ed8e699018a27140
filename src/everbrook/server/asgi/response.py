"""ASGI messages of responses: complete ones, sent when their change is durable, and streamed ones.

The pieces of a streamed response wait in a queue of bounded size. If the client reads nothing for too long, the
response ends.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, MutableMapping
from time import monotonic
from typing import Any

from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.server.application import Application
from everbrook.server.exchange import Deferred, Request, Response
from everbrook.server.observe.observer import Answered
from everbrook.server.observe.tallies import NO_TALLY, Tally
from everbrook.server.tuning import ExchangeTuning

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def settled(application: Application, response: Response, request: Request) -> Response:
    """Wait until the change that a response rests on is durable. Return the response, or a refusal if that failed."""
    engine = application.engine
    if response.rests_on <= engine.durable_change:
        return response
    request.parked_at = monotonic()
    future: asyncio.Future[ProtocolError | None] = asyncio.get_running_loop().create_future()

    def settle(failure: Unavailable | None) -> None:
        # The ASGI server may have cancelled the request while it waited for the disk.
        if not future.cancelled():
            future.set_result(failure)

    engine.when_durable(response.rests_on, settle)
    failure = await future
    return application.refuse(failure, request.headers, request) if failure else response


async def send_head(send: Send, response: Response, length: int | None) -> None:
    pairs = [tuple(line.split(b": ", 1)) for line in response.headers.split(b"\r\n") if line]
    headers = [(name.lower(), value) for name, value in pairs]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def send_whole(send: Send, response: Response, *, head_only: bool) -> None:
    length = len(response.body) if response.length is None else response.length
    bodiless = response.status in {204, 304} or (head_only and not response.body and response.length is None)
    await send_head(send, response, None if bodiless else length)
    await send({"type": "http.response.body", "body": b"" if head_only else response.body})


def _unframed(data: bytes) -> bytes:
    return data


class ResponseAborted(Exception):
    """A streamed response ended before it was complete. An exception is the only way to tell that to an ASGI server."""


class AsgiExchange:
    """The `Exchange` of one deferred response: what is written is queued, and the task of the request sends it."""

    def __init__(
        self,
        deferred: Deferred,
        request: Request,
        send: Send,
        slow_reader_timeout_secs: float,
        answered: Answered | None,
        tuning: ExchangeTuning,
    ) -> None:
        """Send the response by `send`, and report it to `answered`. A response to HEAD has no body."""
        self._deferred = deferred
        self._send = send
        self._slow_reader_timeout_secs = slow_reader_timeout_secs
        self.request = request
        self._head_only = request.method == b"HEAD"
        self._answered = answered
        self._pieces: asyncio.Queue[Response | ResponseAborted | bytes | None] = asyncio.Queue()
        self._max_queued_bytes = tuning.max_queued_bytes
        self._last_words_secs = tuning.last_words_secs
        self.queued_bytes = 0
        self._stalled = False
        self._streaming = False
        self.frame: Callable[[bytes], bytes] = _unframed

    @property
    def congested(self) -> bool:
        """Whether the ASGI server takes pieces too slowly. If so, `resume` is called afterwards."""
        self._stalled = self.queued_bytes >= self._max_queued_bytes
        return self._stalled

    def respond(self, response: Response) -> None:
        self._pieces.put_nowait(response)

    def begin(self, response: Response) -> None:
        self._streaming = True
        self._pieces.put_nowait(response)

    def write(self, framed: bytes) -> None:
        self.queued_bytes += len(framed)
        self._pieces.put_nowait(framed)

    def finish(self) -> None:
        self._pieces.put_nowait(None)

    def abort(self) -> None:
        self._pieces.put_nowait(ResponseAborted("the response could not be completed"))

    async def run(self, receive: Receive) -> None:
        """Send the response, or stop when the client leaves."""
        self._deferred.start(self)
        sending = asyncio.ensure_future(self._send_pieces())
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The ASGI server is stopping. The reader still gets its last event and an orderly end.
            self._deferred.shut_down()
            await asyncio.wait((sending,), timeout=self._last_words_secs)
            raise
        finally:
            self._deferred.cancel()
            leaving.cancel()
            sending.cancel()
        if sending.done():
            # A timeout means that the client read nothing for too long. The task just ends: ASGI can't abort.
            with contextlib.suppress(TimeoutError):
                sending.result()

    async def _send_pieces(self) -> None:
        first = await self._pieces.get()
        assert isinstance(first, Response)  # noqa: S101 - an exchange begins with a response
        if not self._streaming:
            await send_whole(self._send, first, head_only=self._head_only)
            self._count(first)
            return
        await send_head(self._send, first, first.length)
        tally = self._count(first)
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, ResponseAborted):
                raise piece
            assert isinstance(piece, bytes)  # noqa: S101 - the one response came first
            async with asyncio.timeout(self._slow_reader_timeout_secs):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            self.queued_bytes -= len(piece)
            tally.sent_bytes += len(piece)
            if self._stalled and not self.congested:
                self._deferred.resume()
        await self._send({"type": "http.response.body", "body": b""})

    def _count(self, response: Response) -> Tally:
        return self._answered(self.request, response) if self._answered is not None else NO_TALLY


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
