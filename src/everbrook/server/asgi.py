"""The same application as an ASGI callable, to run under an ASGI server or to mount in FastAPI or Starlette.

    app = FastAPI(lifespan=streams.lifespan)        # streams = create_app()
    app.mount("/streams", streams)

A mounted application gets no lifespan events of its own, so its `lifespan` is offered for the outer one to use;
without it, everything starts with the first request.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, Unavailable
from everbrook.server.application import Application
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.exchange import Deferred, Request, Response
from everbrook.settings import Settings, load_settings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

MAX_QUEUED_BYTES = 256 * 1024
LAST_WORDS_SECS = 1.0

# What a path holds unescaped (RFC 3986 §3.3).
PATH_CHARACTERS = "/~!$&'()*+,;=:@"


def create_app(settings: Settings | None = None) -> "AsgiApplication":
    """Make an ASGI application. Without settings, they come from the files and the environment."""
    return AsgiApplication(load_settings() if settings is None else settings)


class AsgiApplication:
    """Speaks ASGI 3: `http` and `lifespan` scopes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._application: Application | None = None
        self._live: set[Deferred] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live_through(receive, send)
        else:
            # A web socket: decline it, which the client sees as a 403.
            await receive()
            await send({"type": "websocket.close"})

    @asynccontextmanager
    async def lifespan(self, _outer: object = None) -> AsyncIterator[None]:
        """Run the engine for as long as the context lasts."""
        self._start()
        try:
            yield
        finally:
            self._stop()

    def _start(self) -> Application:
        if self._application is None:
            self._application = assemble(self._settings, open_storage(self._settings))
        return self._application

    def _stop(self) -> None:
        application, self._application = self._application, None
        if application is None:
            return
        application.stop()
        for deferred in tuple(self._live):
            deferred.shut_down()
        application.engine.close()

    async def _live_through(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = self._start()
        try:
            request = await _read_request(scope, receive, self._settings.limits.max_append_bytes)
        except PayloadTooLarge as error:
            await _send_whole(send, application.refuse(error, dict(scope["headers"])), head_only=False)
            return
        if request is None:
            return
        head_only = request.method == b"HEAD"
        reply = application.handle(request)
        if isinstance(reply, Response):
            await _send_whole(send, await _settled(application, reply, request.headers), head_only=head_only)
            return
        self._live.add(reply)
        try:
            await AsgiExchange(reply, send, self._settings.server.slow_reader_timeout_secs).run(receive)
        finally:
            self._live.discard(reply)


async def _read_request(scope: Scope, receive: Receive, max_body_bytes: int) -> Request | None:
    """Read a whole request, or None if the client went away before it was whole."""
    headers: dict[bytes, bytes] = {}
    for name, sent in scope["headers"]:
        value = sent.strip(b" \t")
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    body = await _read_body(receive, max_body_bytes)
    if body is None:
        return None
    root = quote(scope.get("root_path", ""), safe=PATH_CHARACTERS).encode()
    path = scope.get("raw_path") or quote(scope["path"], safe=PATH_CHARACTERS).encode()
    return Request(
        method=scope["method"].encode(),
        path=path.removeprefix(root),
        query=scope["query_string"],
        headers=headers,
        body=body,
        scheme=scope.get("scheme", "http").encode(),
        root=root,
    )


async def _read_body(receive: Receive, max_body_bytes: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part = message.get("body", b"")
        size += len(part)
        if size > max_body_bytes:
            raise PayloadTooLarge(f"a body holds at most {max_body_bytes} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _settled(application: Application, response: Response, headers: dict[bytes, bytes]) -> Response:
    """Wait until what the response rests on is durable."""
    engine = application.engine
    if response.rests_on <= engine.durable_change:
        return response
    future: asyncio.Future[ProtocolError | None] = asyncio.get_running_loop().create_future()

    def settle(failure: Unavailable | None) -> None:
        if not future.cancelled():
            future.set_result(failure)

    engine.when_durable(response.rests_on, settle)
    failure = await future
    return application.refuse(failure, headers) if failure else response


async def _send_head(send: Send, response: Response, length: int | None) -> None:
    pairs = [tuple(line.split(b": ", 1)) for line in response.headers.split(b"\r\n") if line]
    headers = [(name.lower(), value) for name, value in pairs]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def _send_whole(send: Send, response: Response, *, head_only: bool) -> None:
    bodiless = response.status in {204, 304} or (head_only and not response.body)
    await _send_head(send, response, None if bodiless else len(response.body))
    await send({"type": "http.response.body", "body": b"" if head_only else response.body})


def _unframed(data: bytes) -> bytes:
    return data


class AsgiExchange:
    """The `Exchange` of one deferred answer: what is written is queued, and the request's task sends it."""

    def __init__(self, deferred: Deferred, send: Send, slow_reader_timeout_secs: float) -> None:
        self._deferred = deferred
        self._send = send
        self._slow_reader_timeout_secs = slow_reader_timeout_secs
        self._pieces: asyncio.Queue[Response | bytes | None] = asyncio.Queue()
        self._queued_bytes = 0
        self._stalled = False
        self._streaming = False
        self.frame: Callable[[bytes], bytes] = _unframed

    @property
    def congested(self) -> bool:
        """Whether more is queued than the server below takes off. Whoever is told so is called when it is over."""
        self._stalled = self._queued_bytes >= MAX_QUEUED_BYTES
        return self._stalled

    def respond(self, response: Response) -> None:
        """Answer with a whole response."""
        self._pieces.put_nowait(response)

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""
        self._streaming = True
        self._pieces.put_nowait(response)

    def write(self, framed: bytes) -> None:
        """Send a piece of the body."""
        self._queued_bytes += len(framed)
        self._pieces.put_nowait(framed)

    def finish(self) -> None:
        """End a streamed response."""
        self._pieces.put_nowait(None)

    async def run(self, receive: Receive) -> None:
        """Give the answer, or stop when the client goes."""
        self._deferred.start(self)
        sending = asyncio.ensure_future(self._send_pieces())
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The server below is stopping: let the reader have its last event and a proper end.
            self._deferred.shut_down()
            await asyncio.wait((sending,), timeout=LAST_WORDS_SECS)
            raise
        finally:
            self._deferred.cancel()
            leaving.cancel()
            sending.cancel()
        if sending.done():
            # A reader that took nothing for too long is left: ASGI has no other way to end its answer.
            with contextlib.suppress(TimeoutError):
                sending.result()

    async def _send_pieces(self) -> None:
        first = await self._pieces.get()
        assert isinstance(first, Response)  # noqa: S101 - an exchange begins with a response
        if not self._streaming:
            await _send_whole(self._send, first, head_only=False)
            return
        await _send_head(self._send, first, None)
        while (piece := await self._pieces.get()) is not None:
            assert isinstance(piece, bytes)  # noqa: S101 - the one response came first
            async with asyncio.timeout(self._slow_reader_timeout_secs):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            self._queued_bytes -= len(piece)
            if self._stalled and not self.congested:
                self._deferred.resume()
        await self._send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
