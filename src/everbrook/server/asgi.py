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
from time import monotonic
from typing import Any, Self
from urllib.parse import quote

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, TooManyRequests, Unavailable
from everbrook.server.application import Application
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.auth.proxies import NAMING
from everbrook.server.exchange import (
    NOBODY,
    STREAMED_PATH,
    Deferred,
    Peer,
    Reply,
    Request,
    Response,
    Upload,
    may_be_large,
)
from everbrook.server.limits.holdings import NO_PLACE
from everbrook.server.observe.observer import Answered
from everbrook.server.observe.survey import TransportSurvey
from everbrook.server.observe.tallies import NO_TALLY, Tally
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
        self._live: dict[Deferred, Request] = {}

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
        await self._start().begin()
        try:
            yield
        finally:
            await self._stop()

    def _start(self) -> Application:
        if self._application is None:
            self._application = assemble(self._settings, open_storage(self._settings))
            self._application.observer.transport = self
        return self._application

    async def _stop(self) -> None:
        application, self._application = self._application, None
        if application is None:
            return
        application.stop()
        for deferred in tuple(self._live):
            deferred.shut_down()
        await application.close()

    async def _live_through(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        application = self._start()
        request = _read_head(scope)
        reply = await self._reply(application, request, scope, receive)
        if reply is None:
            return
        answered = application.observer.answered
        if isinstance(reply, Response):
            settled = await _settled(application, reply, request)
            await _send_whole(send, settled, head_only=request.method == b"HEAD")
            if answered is not None:
                answered(request, settled)
            return
        try:
            place = NO_PLACE if reply.brief else application.holdings.begin_reading(request)
        except TooManyRequests as error:
            refusal = application.refuse(error, request.headers, request)
            await _send_whole(send, refusal, head_only=False)
            if answered is not None:
                answered(request, refusal)
            return
        self._live[reply] = request
        try:
            await AsgiExchange(reply, request, send, self._settings.server.slow_reader_timeout_secs, answered).run(
                receive
            )
        finally:
            del self._live[reply]
            application.holdings.end_reading(place)

    async def _reply(self, application: Application, request: Request, scope: Scope, receive: Receive) -> Reply | None:
        """Read the body and give the reply, or None if the client went away before the request was whole."""
        upload: Upload | None = None
        try:
            if (request.method == b"PUT" and STREAMED_PATH in request.path) or (
                application.judges_heads and may_be_large(request.headers)
            ):
                upload = application.receive(request)
            if upload is None:
                return await self._read_and_handle(application, request, receive)
            return await _stream_body(request, receive, upload)
        except ProtocolError as error:
            return _refusal(application, error, request, scope)

    async def _read_and_handle(self, application: Application, request: Request, receive: Receive) -> Reply | None:
        body = BodyReader(request, receive, self._settings.limits.max_append_bytes)
        pieces = [piece async for piece in body]
        if not body.whole:
            return None
        request.body = b"".join(pieces)
        request.received = monotonic()
        return application.handle(request)

    def survey(self) -> TransportSurvey:
        """Tell of the answers that are being given. The connections are those of the server below."""
        survey = TransportSurvey()
        survey.note_answers(self._live.items())
        return survey


def _refusal(application: Application, error: ProtocolError, request: Request, scope: Scope) -> Response:
    """Answer a request whose body is not read to its end."""
    response = application.refuse(error, request.headers, request)
    if not isinstance(error, PayloadTooLarge):
        response.rests_on = application.engine.last_change
    if b"expect" in request.headers and scope.get("http_version") == "1.1":
        # The client may never send the body that it was not asked for.
        response.headers += b"Connection: close\r\n"
    return response


def _read_head(scope: Scope) -> Request:
    """Give the request without its body."""
    headers: dict[bytes, bytes] = {}
    for name, sent in scope["headers"]:
        value = sent.strip(b" \t")
        headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value
    root = quote(scope.get("root_path", ""), safe=PATH_CHARACTERS).encode()
    path = scope.get("raw_path") or quote(scope["path"], safe=PATH_CHARACTERS).encode()
    return Request(
        method=scope["method"].encode(),
        path=path.removeprefix(root),
        query=scope["query_string"],
        headers=headers,
        body=b"",
        scheme=scope.get("scheme", "http").encode(),
        root=root,
        peer=_read_peer(scope, headers),
    )


def _read_peer(scope: Scope, headers: dict[bytes, bytes]) -> Peer:
    """Give who is at the other end.

    Some servers put the address that a header names in the place of the connection's (uvicorn does so by default), so
    one that such a header has may be anybody's word.
    """
    if not scope.get("client"):
        return NOBODY
    address: str = scope["client"][0]
    told = any(address.encode() in headers[name] for name in NAMING if name in headers)
    return Peer(address, told=told)


class BodyReader:
    """Gives the pieces of a body as they come. It is `whole` unless the client went away in the middle."""

    def __init__(self, request: Request, receive: Receive, max_bytes: int) -> None:
        """Refuse a body that says itself that it is too large."""
        self._receive = receive
        self._max_bytes = max_bytes
        self._size = 0
        self.whole = False
        length = request.headers.get(b"content-length", b"")
        self._check(int(length) if length.isdigit() else 0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        message = {} if self.whole else await self._receive()
        if self.whole or message["type"] == "http.disconnect":
            raise StopAsyncIteration
        piece: bytes = message.get("body", b"")
        self._size += len(piece)
        self._check(self._size)
        self.whole = not message.get("more_body", False)
        return piece

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise PayloadTooLarge(f"the body holds at most {self._max_bytes} bytes")


async def _stream_body(request: Request, receive: Receive, upload: Upload) -> Reply | None:
    """Pass the body on as it comes, no faster than it is taken."""
    relieved = asyncio.Event()
    upload.on_relief = relieved.set
    try:
        body = BodyReader(request, receive, upload.max_bytes)
        async for piece in body:
            if piece:
                upload.write(piece)
            if upload.congested:
                relieved.clear()
                await relieved.wait()
    except BaseException:
        upload.cancel()
        raise
    if body.whole:
        return upload.finish()
    upload.cancel()
    return None


async def _settled(application: Application, response: Response, request: Request) -> Response:
    """Wait until what the response rests on is durable."""
    engine = application.engine
    if response.rests_on <= engine.durable_change:
        return response
    request.parked_at = monotonic()
    future: asyncio.Future[ProtocolError | None] = asyncio.get_running_loop().create_future()

    def settle(failure: Unavailable | None) -> None:
        if not future.cancelled():
            future.set_result(failure)

    engine.when_durable(response.rests_on, settle)
    failure = await future
    return application.refuse(failure, request.headers, request) if failure else response


async def _send_head(send: Send, response: Response, length: int | None) -> None:
    pairs = [tuple(line.split(b": ", 1)) for line in response.headers.split(b"\r\n") if line]
    headers = [(name.lower(), value) for name, value in pairs]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})


async def _send_whole(send: Send, response: Response, *, head_only: bool) -> None:
    length = len(response.body) if response.length is None else response.length
    bodiless = response.status in {204, 304} or (head_only and not response.body and response.length is None)
    await _send_head(send, response, None if bodiless else length)
    await send({"type": "http.response.body", "body": b"" if head_only else response.body})


def _unframed(data: bytes) -> bytes:
    return data


class ResponseAborted(Exception):
    """A streamed response ended before it was whole. ASGI has no other way to say so than to fail."""


class AsgiExchange:
    """The `Exchange` of one deferred answer: what is written is queued, and the request's task sends it."""

    def __init__(
        self,
        deferred: Deferred,
        request: Request,
        send: Send,
        slow_reader_timeout_secs: float,
        answered: Answered | None,
    ) -> None:
        """Answer by `send`, and tell `answered` of it; a whole answer to HEAD goes without its body."""
        self._deferred = deferred
        self._send = send
        self._slow_reader_timeout_secs = slow_reader_timeout_secs
        self._request = request
        self._head_only = request.method == b"HEAD"
        self._answered = answered
        self._pieces: asyncio.Queue[Response | ResponseAborted | bytes | None] = asyncio.Queue()
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

    def abort(self) -> None:
        """End a streamed response so that the client sees that it is not whole."""
        self._pieces.put_nowait(ResponseAborted("the response could not be completed"))

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
            await _send_whole(self._send, first, head_only=self._head_only)
            self._count(first)
            return
        await _send_head(self._send, first, first.length)
        tally = self._count(first)
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, ResponseAborted):
                raise piece
            assert isinstance(piece, bytes)  # noqa: S101 - the one response came first
            async with asyncio.timeout(self._slow_reader_timeout_secs):
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            self._queued_bytes -= len(piece)
            tally.sent_bytes += len(piece)
            if self._stalled and not self.congested:
                self._deferred.resume()
        await self._send({"type": "http.response.body", "body": b""})

    def _count(self, response: Response) -> Tally:
        return self._answered(self._request, response) if self._answered is not None else NO_TALLY


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
