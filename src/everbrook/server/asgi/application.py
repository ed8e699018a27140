"""One application for an ASGI server: what it calls, and what it is answered with.

Everything starts with the lifespan of the server, or with the first request where there is none, and ends once.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic, thread_time

from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, TooManyRequests
from everbrook.server.application import Application
from everbrook.server.asgi.body import BodyReader, stream_body
from everbrook.server.asgi.exchange import AsgiExchange
from everbrook.server.asgi.interface import Receive, Scope, Send
from everbrook.server.asgi.scope import read_head
from everbrook.server.asgi.sending import send_whole, settled
from everbrook.server.assembly import assemble, open_storage
from everbrook.server.bodies import SUBSCRIPTIONS, max_body_bytes
from everbrook.server.exchange import (
    JUDGED_BYTES,
    STREAMED_PATH,
    Deferred,
    Reply,
    Request,
    Response,
    Upload,
    may_be_large,
)
from everbrook.server.limits.holdings import NO_PLACE
from everbrook.server.location import require_host
from everbrook.server.observe.operations import operation_of
from everbrook.server.observe.survey import TransportSurvey
from everbrook.server.tuning import DEFAULT_TUNING, ServerTuning
from everbrook.settings import Settings
from everbrook.storage.api import Storage


class AsgiApplication:
    """Speaks ASGI 3: `http` and `lifespan` scopes."""

    def __init__(
        self,
        settings: Settings,
        open_storage: Callable[[Settings], Storage] = open_storage,
        tuning: ServerTuning = DEFAULT_TUNING,
    ) -> None:
        """Open the storage by `open_storage` at each start: with a lifespan, or with the first request after one."""
        self._settings = settings
        self._open_storage = open_storage
        self._tuning = tuning
        self.application: Application | None = None
        """The running application: None before it starts, and after it has stopped."""
        self.exchanges: dict[Deferred, AsgiExchange] = {}
        """The exchanges whose deferred answers are under way."""

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
        if self.application is None:
            self.application = assemble(self._settings, self._open_storage(self._settings), self._tuning)
            self.application.observer.transport = self
        return self.application

    async def _stop(self) -> None:
        application, self.application = self.application, None
        if application is None:
            return
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
            place = NO_PLACE if reply.brief else application.holdings.begin_reading(request)
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
            application.holdings.end_reading(place)

    async def _reply(self, application: Application, request: Request, scope: Scope, receive: Receive) -> Reply | None:
        """Read the body and give the reply, or None if the client went away before the request was whole."""
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
            # A head of HTTP/2 need not say that a body follows, nor how large it is.
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
        """Tell of the answers that are being given. The connections are those of the server below."""
        survey = TransportSurvey()
        survey.note_answers((deferred, exchange.request) for deferred, exchange in self.exchanges.items())
        return survey


def _is_judged(application: Application, request: Request) -> bool:
    """Tell whether more than a little of a request's body is taken only if its head is welcome."""
    return application.judges_heads or SUBSCRIPTIONS in request.path


def _refusal(application: Application, error: ProtocolError, request: Request, scope: Scope) -> Response:
    """Answer a request whose body is not read to its end."""
    response = application.refuse(error, request.headers, request)
    if not isinstance(error, PayloadTooLarge):
        response.rests_on = application.engine.last_change
    if b"expect" in request.headers and scope.get("http_version") == "1.1":
        # The client may never send the body that it was not asked for.
        response.headers += b"Connection: close\r\n"
    return response
