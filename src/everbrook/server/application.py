"""The application: passes each request to the resource that handles it. Both transports call it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, TooManyRequests, Unavailable, quoted
from everbrook.protocol.path import CONTROL_SEGMENT, STREAM_ROOT
from everbrook.server.auth.credentials import Authenticator
from everbrook.server.auth.proxies import Proxies
from everbrook.server.cors import METHODS, ORIGIN, Cors, Origins
from everbrook.server.exchange import (
    FAULT,
    JUDGED_BYTES,
    STREAMED_PATH,
    Gate,
    Prepared,
    Reply,
    Request,
    Response,
    Upload,
    problem_response,
)
from everbrook.server.limits.concurrency import ConcurrencyLimits
from everbrook.server.limits.rates import RateGate
from everbrook.server.location import Locator, StreamRoots
from everbrook.server.methods import (
    CONTROL,
    READING,
    REPORTS,
    SUBSCRIPTIONS,
    find_operation,
    handlers_of,
    operation_at,
    operation_elsewhere,
    refuse_method,
)
from everbrook.server.observe.access_log import REQUEST_ID, id_line, request_id
from everbrook.server.observe.observer import Observer, observer_of
from everbrook.server.resources.backups import BackupResource
from everbrook.server.resources.bootstrap import BootstrapResource
from everbrook.server.resources.buckets import BucketResource, QuotaResource
from everbrook.server.resources.control import ControlResources, Handler
from everbrook.server.resources.listing import ListingResource
from everbrook.server.resources.registry import require_writable
from everbrook.server.resources.snapshots import Publication, SnapshotResource
from everbrook.server.resources.streams import ProducerResource, StreamResource
from everbrook.server.routes import (
    BACKUPS,
    METRICS,
    OF_STREAMS,
    PAGE,
    PROBES,
    READINESS,
    Resource,
    Route,
    find_route,
    is_at,
)
from everbrook.server.tuning import DEFAULT_TUNING, ServerTuning
from everbrook.server.ui.pages import Pages
from everbrook.settings import Settings
from everbrook.storage.manifest import StoreError

if TYPE_CHECKING:
    from everbrook.server.observe.metrics import MetricsResource

logger = logging.getLogger(__name__)

FAILED = 500
VARY = b"Vary: Authorization\r\n"
"""A header of private responses: the cache of a browser must not serve them to the next person who signs in."""


class Application:
    """Turns requests into replies."""

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        gates: Sequence[Gate] = (),
        concurrency: ConcurrencyLimits | None = None,
        authenticator: Authenticator | None = None,
        observer: Observer | None = None,
        tuning: ServerTuning = DEFAULT_TUNING,
    ) -> None:
        """Every request passes the gates, in their order. There is an authenticator if there is a policy.

        The observer records every response. Transports take their part of `tuning` from the application.
        """
        self.engine = engine
        self.settings = settings
        self.tuning = tuning
        self._gates = tuple(gates)
        self._rates = tuple(gate for gate in gates if isinstance(gate, RateGate))
        self.concurrency = concurrency or ConcurrencyLimits(settings.limits, Proxies())
        self.authenticator = authenticator
        self.judges_heads = bool(self._gates)
        self.observer = observer or observer_of(settings)
        self.on_reload: list[Callable[[], object]] = [*authenticator.reloads] if authenticator else []
        self.on_reload.append(self.observer.reopen)
        self._names_requests = self.observer.names_requests
        self._cors = Cors(settings.http.cors_origins)
        self._private_lines = (self._cors.for_any or b"") + VARY
        self._origins = Origins(
            settings.http.cors_origins, settings.server.public_url, guarded=authenticator is not None
        )
        self.roots = StreamRoots(settings.server)
        locator = Locator(settings.server.public_url, self.roots)
        streams = StreamResource(engine, settings, locator, self.roots, tuning)
        self._stream_resource = streams
        self._streams = handlers_of(streams, Resource.STREAM)
        self._snapshots = SnapshotResource(engine, settings, locator.url)
        self.control = ControlResources(engine, settings.webhooks, locator, self.observer.delivered)
        self._metrics = self._metrics_of(settings)
        self._pages = Pages(settings.ui.connect_origins) if settings.ui.enabled else None
        self.backups = BackupResource(engine)
        self._handlers = self._find_handlers(locator)
        self._stopping = False

    def _metrics_of(self, settings: Settings) -> "MetricsResource | None":
        if not settings.metrics.enabled:
            return None
        from everbrook.server.observe.metrics import MetricsResource

        return MetricsResource(self.engine, self.control.subscriptions, self.observer, settings)

    def _find_handlers(self, locator: Locator) -> dict[Resource, dict[bytes, Handler]]:
        """Return the method handlers of each resource except streams, which `handle` looks up directly."""
        engine, snapshots = self.engine, self._snapshots
        buckets = BucketResource(engine, locator, self.control.subscriptions, self.concurrency)
        owners = {
            Resource.SNAPSHOT: snapshots,
            Resource.SNAPSHOT_AT: snapshots,
            Resource.RETENTION: snapshots,
            Resource.BOOTSTRAP: BootstrapResource(engine),
            Resource.PRODUCERS: ProducerResource(engine),
            Resource.LISTING: ListingResource(engine),
            Resource.BUCKET: buckets,
            Resource.BUCKETS: buckets,
            Resource.QUOTA: QuotaResource(engine),
        }
        handlers = {resource: handlers_of(owner, resource) for resource, owner in owners.items()}
        return handlers | {resource: self.control.handlers(resource) for resource in CONTROL}

    def handle(self, request: Request) -> Reply:
        """Handle a request. Every failure becomes a response too.

        A request for a stream takes the short way: it is routed here, and its common headers are the same bytes for
        all requests unless ids or origins are configured.
        """
        common = self._cors.for_any
        if common is None or self._names_requests or REQUEST_ID in request.headers:
            common = self._common(request)
        try:
            # A server without gates does not pay for them: most of its requests skip this.
            if self._gates or ORIGIN in request.headers:
                common = self._admit(request, common)
            if request.prepared is not None:
                return request.prepared(request, common)
            if not request.path.startswith(STREAM_ROOT) or CONTROL_SEGMENT in request.path:
                return self._handle_other(request, common)
            method = self._streams.get(request.method)
            return method(request, common) if method else self._options_or_refuse(request, METHODS)
        except ProtocolError as error:
            # A refusal may be due to a change that is not durable yet. If that change is lost, the refusal must not
            # have been sent.
            return self._refusal(error, request, common, self.engine.last_change)
        except Exception:
            named = {"request_id": request_id(request)}
            logger.exception("failed to handle %s %s", request.method.decode(), quoted(request.path), extra=named)
            return self._refusal(ProtocolError(FAULT), request, common)

    def prepare(self, request: Request) -> Prepared | None:
        """Find the short way of handling requests with the head of this one. The gates admit each of them as before."""
        if not request.path.startswith(STREAM_ROOT) or CONTROL_SEGMENT in request.path:
            return None
        if self._names_requests and request.method != b"POST":
            # Each response has an id of its own, so none of them could be used again.
            return None
        try:
            return self._stream_resource.prepare(request)
        except ProtocolError:
            # The request is refused in full, each time.
            return None

    def _admit(self, request: Request, common: bytes) -> bytes:
        """Pass a request through all gates. Return the header lines that its response begins with."""
        for gate in self._gates:
            gate.admit(request)
        self._origins.admit(request)
        if not request.private:
            return common
        # One object for most private responses, so that what was prepared for it is found by its identity.
        return self._private_lines if common is self._cors.for_any else common + VARY

    def _common(self, request: Request) -> bytes:
        """Return the header lines of every response, with the request's id if that is logged or was sent."""
        common = self._cors.headers(request)
        if self._names_requests or REQUEST_ID in request.headers:
            return common + id_line(request)
        return common

    def _refusal(self, error: ProtocolError, request: Request, common: bytes, rests_on: int = 0) -> Response:
        """Render a refusal. If the server is at fault, it contains the request's id, by which the log is searched."""
        request.operation = request.operation or find_operation(request)
        if error.status < FAILED:
            return problem_response(error, common, rests_on)
        return problem_response(error, common, rests_on, request_id(request))

    def receive(self, request: Request) -> Upload | None:
        """Return the upload that processes the body of a request while it arrives, or None if the body is buffered.

        If there are gates (`judges_heads`), the transport calls this for every large body: none is read from a client
        that has no identity or exceeds its rates. It always calls this for large requests about subscriptions.
        """
        try:
            common = self._admit(request, self._common(request))
            request.admitted = True
            self._judge(request)
            if request.method != b"PUT" or STREAMED_PATH not in request.path:
                return None
            route = find_route(request.path)
            if route.resource is not Resource.SNAPSHOT_AT:
                return None
            request.operation = operation_at(route.resource, request.method)
            require_writable(route.name)
            return self._counted(request, self._snapshots.receive(request, common, route))
        except ProtocolError:
            raise
        except Exception:
            logger.exception("failed to receive %s", quoted(request.path), extra={"request_id": request_id(request)})
            raise ProtocolError(FAULT) from None

    def _counted(self, request: Request, publication: Publication) -> Publication:
        """Count the bytes of a body against the rate limits while they arrive."""

        def count(sent_bytes: int) -> None:
            for rate in self._rates:
                rate.count(request, sent_bytes)

        publication.on_bytes = count
        return publication

    def _judge(self, request: Request) -> None:
        """Refuse a large report without a token, and any large body from a client without an identity."""
        if SUBSCRIPTIONS in request.path:
            route = find_route(request.path)
            if route.resource in REPORTS:
                self.control.require_token(request, route)
        elif request.rights is not None and request.identity is None:
            raise PayloadTooLarge(f"a request without credentials may have a body of at most {JUDGED_BYTES} bytes here")

    def refuse(self, error: ProtocolError, headers: dict[bytes, bytes], request: Request | None = None) -> Response:
        """Render the refusal of a request, of which perhaps only the headers are known."""
        request = request or Request(b"", b"", b"", headers, b"")
        return self._refusal(error, request, self._common(request))

    def charge(self, request: Request) -> TooManyRequests | None:
        """Count a request of which only the address is known. Return the refusal if the address exceeds its rate."""
        try:
            for rate in self._rates:
                rate.admit(request)
        except TooManyRequests as error:
            return error
        return None

    def _handle_other(self, request: Request, common: bytes) -> Reply:
        request.operation = operation_elsewhere(request)
        if request.path in PROBES:
            return self._handle_probe(request, common)
        if self._metrics and request.path == METRICS:
            return self._metrics.read(request, common)
        if self._pages and is_at(request.path, PAGE):
            return self._pages.answer(request)
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        if is_at(request.path, BACKUPS):
            return self.backups.handle(request, common)
        return self._handle_routed(request, common, find_route(request.path))

    def _handle_routed(self, request: Request, common: bytes, route: Route) -> Reply:
        request.operation = operation_at(route.resource, request.method)
        if route.resource is Resource.STREAM:
            handle_stream = self._streams.get(request.method)
            return handle_stream(request, common) if handle_stream else self._options_or_refuse(request, METHODS)
        if request.method not in READING and route.resource in OF_STREAMS:
            require_writable(route.name)
        handlers = self._handlers[route.resource]
        handle = handlers.get(request.method)
        return handle(request, common, route) if handle else self._options_or_refuse(request, b", ".join(handlers))

    def _options_or_refuse(self, request: Request, methods: bytes) -> Response:
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        raise refuse_method(request.method, methods)

    def _handle_probe(self, request: Request, common: bytes) -> Response:
        if request.method not in READING:
            raise refuse_method(request.method, b"GET, HEAD")
        if request.path == READINESS and (unready := self._unready()):
            # This refusal rests on no change: otherwise it would wait for the failure that it reports.
            return self._refusal(unready, request, common)
        headers = common + b"Content-Type: text/plain\r\nCache-Control: no-store\r\n"
        damaged = self.engine.damaged_streams if request.path == READINESS else 0
        return Response(200, headers, b"degraded: %d damaged streams" % damaged if damaged else b"ok")

    def _unready(self) -> Unavailable | None:
        """Return why the server should get no requests now, or None if it is ready."""
        if self.engine.failure:
            return self.engine.failure
        if self._stopping:
            return Unavailable("the server is stopping")
        if stalled_secs := self.engine.stalled_secs:
            return Unavailable(f"changes wait, and none has become durable for {stalled_secs:.1f} s")
        return None

    async def begin(self) -> None:
        """Wait until the changes that the start itself made are durable, so that readers find them.

        Raise `StoreError` if another server may be using the store.
        """
        durable = asyncio.get_running_loop().create_future()
        self.engine.when_durable(self.engine.last_change, durable.set_result)
        await durable
        if self.authenticator:
            await self.authenticator.begin()
        if lost := self.engine.verify_ownership():
            raise StoreError(lost)

    def stop(self) -> None:
        """Report the server as not ready, so that load balancers send no more requests."""
        self._stopping = True

    async def close(self) -> None:
        """Close everything, the engine last: what is closed before it may still make changes."""
        await self.control.close()
        if self._metrics:
            self._metrics.stop()
        # The last export of traces may wait for a network, so a thread does it.
        await asyncio.get_running_loop().run_in_executor(None, self.observer.close)
        if self.authenticator:
            await self.authenticator.close()
        self.backups.close()
        # The engine is last, because the parts above may still make changes.
        self.engine.close()
