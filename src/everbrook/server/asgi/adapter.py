"""The ASGI transport: adapts the application to the calls of an ASGI server.

The application starts with the lifespan of the server, or with the first request if there is no lifespan, and is closed
once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic, thread_time
from typing import Self
from urllib.parse import quote

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, TooManyRequests
from everbrook.server.application import Application
from everbrook.server.asgi.response import AsgiExchange, Receive, Scope, Send, send_whole, settled
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.auth.policy import require_rights
from everbrook.server.auth.proxies import NAMING
from everbrook.server.exchange import (
    JUDGED_BYTES,
    STREAMED_PATH,
    UNKNOWN_PEER,
    Deferred,
    Peer,
    Reply,
    Request,
    Response,
    Upload,
    may_be_large,
)
from everbrook.server.limits.concurrency import NO_PLACE
from everbrook.server.location import require_host
from everbrook.server.methods import SUBSCRIPTIONS, max_body_bytes, operation_of
from everbrook.server.observe.observer import TransportSurvey
from everbrook.server.tuning import DEFAULT_TUNING, ServerTuning
from everbrook.settings import Settings
from everbrook.storage.api import Storage

# What a path holds unescaped (RFC 3986 §3.3).
PATH_CHARACTERS = "/~!$&'()*+,;=:@"


class AsgiApplication:
    """Speaks ASGI 3: `http` and `lifespan` scopes."""

    def __init__(
        self,
        settings: Settings,
        open_storage: Callable[[Settings], Storage] = open_storage,
        tuning: ServerTuning = DEFAULT_TUNING,
    ) -> None:
        """`open_storage` is called at each start: by a lifespan, or by the first request without one."""
        self._settings = settings
        self._open_storage = open_storage
        self._tuning = tuning
        self.application: Application | None = None
        """The running application: None before it starts, and after it has stopped."""
        self.exchanges: dict[Deferred, AsgiExchange] = {}
        """The exchanges of deferred responses that are under way."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live_through(receive, send)
        else:
            # A web socket is declined, which the client sees as a 403.
            await receive()
            await send({"type": "websocket.close"})

    @asynccontextmanager
    async def lifespan(self, _outer: object = None) -> AsyncIterator[None]:
        """Run the application while the context lasts."""
        await self._start().begin()
        try:
            yield
        finally:
            await self._stop()

    def _start(self) -> Application:
        if self.application is None:
            self.application = assemble(self._settings, self._open_storage(self._settings), self._tuning)
            self.application.observer.transport = self
        return self.application

    async def _stop(self) -> None:
        application, self.application = self.application, None
        if application is None:
            return
        # Readiness first, so that no new requests come; then live reads end; then everything is closed.
        application.stop()
        for deferred in tuple(self.exchanges):
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
        request = read_head(scope)
        request.path = application.roots.inward(request.path)
        reply = await self._reply(application, request, scope, receive)
        if reply is None:
            return
        answered = application.observer.answered
        if isinstance(reply, Response):
            response = await settled(application, reply, request)
            await send_whole(send, response, head_only=request.method == b"HEAD")
            if answered is not None:
                answered(request, response)
            return
        try:
            place = NO_PLACE if reply.brief else application.concurrency.begin_reading(request)
        except TooManyRequests as error:
            refusal = application.refuse(error, request.headers, request)
            await send_whole(send, refusal, head_only=False)
            if answered is not None:
                answered(request, refusal)
            return
        timeout_secs, tuning = self._settings.server.slow_reader_timeout_secs, self._tuning.exchange
        exchange = AsgiExchange(reply, request, send, timeout_secs, answered, tuning)
        self.exchanges[reply] = exchange
        try:
            await exchange.run(receive)
        finally:
            del self.exchanges[reply]
            application.concurrency.end_reading(place)

    async def _reply(self, application: Application, request: Request, scope: Scope, receive: Receive) -> Reply | None:
        """Read the body and return the reply, or None if the client left before the request was complete."""
        upload: Upload | None = None
        try:
            require_host(request.headers.get(b"host", b""))
            if (request.method == b"PUT" and STREAMED_PATH in request.path) or (
                _is_judged(application, request) and may_be_large(request.headers)
            ):
                upload = application.receive(request)
            if upload is None:
                return await self._read_and_handle(application, request, receive)
            return await stream_body(request, receive, upload)
        except ProtocolError as error:
            return _refusal(application, error, request, scope)

    async def _read_and_handle(self, application: Application, request: Request, receive: Receive) -> Reply | None:
        body = BodyReader(request, receive, max_body_bytes(request.path, self._settings.limits.max_append_bytes))
        pieces: list[bytes] = []
        async for piece in body:
            pieces.append(piece)
            # In HTTP/2 a head need not announce a body or its length, so the gates may see a large body only now.
            if body.size > JUDGED_BYTES and not request.admitted and _is_judged(application, request):
                application.receive(request)
        if not body.whole:
            return None
        request.body = b"".join(pieces)
        request.received, began = monotonic(), thread_time()
        reply = application.handle(request)
        application.observer.turns.handled(operation_of(request), thread_time() - began)
        return reply

    def survey(self) -> TransportSurvey:
        """Count the responses that are under way. The connections belong to the ASGI server."""
        survey = TransportSurvey()
        survey.note_answers((deferred, exchange.request) for deferred, exchange in self.exchanges.items())
        return survey


def _is_judged(application: Application, request: Request) -> bool:
    """Tell whether the gates must admit the head of a request before a large body is read."""
    return application.judges_heads or SUBSCRIPTIONS in request.path


def _refusal(application: Application, error: ProtocolError, request: Request, scope: Scope) -> Response:
    """Return the refusal of a request whose body is not read to its end."""
    response = application.refuse(error, request.headers, request)
    if not isinstance(error, PayloadTooLarge):
        response.rests_on = application.engine.last_change
    if b"expect" in request.headers and scope.get("http_version") == "1.1":
        # The client may wait for `100 Continue` and never send the body, so the connection can't be used further.
        response.headers += b"Connection: close\r\n"
    return response


def read_head(scope: Scope) -> Request:
    """Read the head of a request from its scope."""
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
    """Read the other end of the connection.

    Some ASGI servers replace its address by the one in a header (uvicorn does so by default). So the client may have
    chosen an address that is in such a header.
    """
    if not scope.get("client"):
        return UNKNOWN_PEER
    address: str = scope["client"][0]
    told = any(address.encode() in headers[name] for name in NAMING if name in headers)
    return Peer(address, told=told)


class BodyReader:
    """The pieces of a body as they arrive. `size` counts the bytes so far; `whole` says that all have arrived."""

    def __init__(self, request: Request, receive: Receive, max_bytes: int) -> None:
        """Refuse a body whose declared length is too large."""
        self._receive = receive
        self._max_bytes = max_bytes
        self.size = 0
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
        self.size += len(piece)
        self._check(self.size)
        self.whole = not message.get("more_body", False)
        return piece

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise PayloadTooLarge(f"the body holds at most {self._max_bytes} bytes")


async def stream_body(request: Request, receive: Receive, upload: Upload) -> Reply | None:
    """Pass the body to the upload while it arrives, no faster than it is stored (back-pressure)."""
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
        if body.whole:
            require_rights(request)
    # A cancellation by the ASGI server must release the upload too: it holds a file or memory.
    except BaseException:
        upload.cancel()
        raise
    if body.whole:
        return upload.finish()
    upload.cancel()
    return None
