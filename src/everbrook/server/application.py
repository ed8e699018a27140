"""The application: which resource a request is for. Both transports call it."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from everbrook.engine.engine import Engine
from everbrook.engine.registry import require_writable
from everbrook.protocol.errors import MethodNotAllowed, ProtocolError, Unavailable, quoted
from everbrook.protocol.path import CONTROL_SEGMENT, STREAM_ROOT
from everbrook.server.bootstrap import BootstrapResource
from everbrook.server.buckets import BucketResource
from everbrook.server.control import CONTROL, Control
from everbrook.server.cors import METHODS, Cors
from everbrook.server.exchange import Gate, Reply, Request, Response, Upload
from everbrook.server.listing import ListingResource
from everbrook.server.location import Locator
from everbrook.server.problem import problem_response
from everbrook.server.routes import Resource, Route, find_route
from everbrook.server.snapshots import SnapshotResource
from everbrook.server.streams import StreamResource
from everbrook.settings import Settings

logger = logging.getLogger(__name__)

Method = Callable[[Request, bytes, Route], Reply]

READING = {b"GET", b"HEAD"}


class Application:
    """Turns requests into replies."""

    def __init__(self, engine: Engine, settings: Settings, gates: Sequence[Gate] = ()) -> None:
        """Take the gates that every request passes, in their order."""
        self.engine = engine
        self.settings = settings
        self._gates = tuple(gates)
        self._cors = Cors(settings.http.cors_origins)
        locator = Locator(settings.server.public_url)
        self._streams = StreamResource(engine, settings, locator).methods
        self._snapshots = SnapshotResource(engine, settings, locator.url)
        self.control = Control(engine, settings.webhooks, locator)
        self._methods = self._routed_methods(engine, locator)
        self._stopping = False

    def _routed_methods(self, engine: Engine, locator: Locator) -> dict[Resource, dict[bytes, Method]]:
        """Say which methods each resource knows, but for the streams themselves."""
        snapshots, buckets = self._snapshots, BucketResource(engine, locator, self.control.subscriptions.drop_root)
        bootstrap, listing = BootstrapResource(engine).read, ListingResource(engine).read
        return {
            Resource.SNAPSHOT: {b"GET": snapshots.latest, b"HEAD": snapshots.latest},
            Resource.SNAPSHOT_AT: {
                b"GET": snapshots.read,
                b"HEAD": snapshots.read,
                b"PUT": snapshots.publish,
                b"DELETE": snapshots.delete,
            },
            Resource.RETENTION: {b"PUT": snapshots.retain},
            Resource.BOOTSTRAP: {b"GET": bootstrap, b"HEAD": bootstrap},
            Resource.LISTING: {b"GET": listing, b"HEAD": listing},
            Resource.BUCKET: {
                b"GET": buckets.describe,
                b"HEAD": buckets.describe,
                b"PUT": buckets.create,
                b"DELETE": buckets.delete,
            },
            Resource.BUCKETS: {b"GET": buckets.list_all, b"HEAD": buckets.list_all},
        }

    def handle(self, request: Request) -> Reply:
        """Answer a request. Whatever goes wrong is an answer too."""
        common = self._cors.headers(request)
        try:
            for gate in self._gates:
                gate.admit(request)
            if not request.path.startswith(STREAM_ROOT) or CONTROL_SEGMENT in request.path:
                return self._handle_other(request, common)
            method = self._streams.get(request.method)
            return method(request, common) if method else self._options_or_refuse(request, METHODS)
        except ProtocolError as error:
            return problem_response(error, common, self.engine.last_change)
        except Exception:
            logger.exception("failed to answer %s %s", request.method.decode(), quoted(request.path))
            return self.failure(common)

    def receive(self, request: Request) -> Upload | None:
        """Give what takes the body of a request as it comes, or None if it is to come as a whole."""
        try:
            for gate in self._gates:
                gate.admit(request)
            route = find_route(request.path)
            if request.method != b"PUT" or route.resource is not Resource.SNAPSHOT_AT:
                return None
            require_writable(route.name)
            return self._snapshots.receive(request, self._cors.headers(request), route)
        except ProtocolError:
            raise
        except Exception:
            logger.exception("failed to receive %s", quoted(request.path))
            raise ProtocolError("the server failed to answer; its log says why") from None

    def refuse(self, error: ProtocolError, headers: dict[bytes, bytes]) -> Response:
        """Answer a request of which only these headers were read."""
        return problem_response(error, self._cors.headers(Request(b"", b"", b"", headers, b"")))

    def failure(self, common: bytes) -> Response:
        """Answer a request that met a fault of ours."""
        return problem_response(ProtocolError("the server failed to answer; its log says why"), common)

    def _handle_other(self, request: Request, common: bytes) -> Reply:
        if request.path in {b"/healthz", b"/readyz"}:
            return self._handle_probe(request, common)
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        route = find_route(request.path)
        if route.resource is Resource.STREAM:
            stream_method = self._streams.get(request.method)
            return stream_method(request, common) if stream_method else self._options_or_refuse(request, METHODS)
        if route.resource in CONTROL:
            return self._handle_control(request, common, route)
        if request.method not in READING:
            require_writable(route.name)
        methods = self._methods[route.resource]
        method = methods.get(request.method)
        return method(request, common, route) if method else self._options_or_refuse(request, b", ".join(methods))

    def _handle_control(self, request: Request, common: bytes, route: Route) -> Response:
        methods = CONTROL[route.resource]
        method = methods.get(request.method)
        if method is None:
            return self._options_or_refuse(request, b", ".join(methods))
        return self.control.handle(request, common, route, method)

    def _options_or_refuse(self, request: Request, methods: bytes) -> Response:
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        raise MethodNotAllowed(f"this resource does not know {quoted(request.method)}", ((b"Allow", methods),))

    def _handle_probe(self, request: Request, common: bytes) -> Response:
        if request.method not in {b"GET", b"HEAD"}:
            raise MethodNotAllowed("a probe knows GET and HEAD", ((b"Allow", b"GET, HEAD"),))
        if request.path == b"/readyz":
            self._require_ready()
        headers = common + b"Content-Type: text/plain\r\nCache-Control: no-store\r\n"
        return Response(200, headers, b"ok")

    def _require_ready(self) -> None:
        if self.engine.failure:
            raise self.engine.failure.with_traceback(None)
        if self._stopping:
            raise Unavailable("the server is stopping")

    async def begin(self) -> None:
        """Return when what the start itself wrote is durable: readers find it then."""
        durable = asyncio.get_running_loop().create_future()
        self.engine.when_durable(self.engine.last_change, durable.set_result)
        await durable

    def stop(self) -> None:
        """Tell those who ask that the server is about to go."""
        self._stopping = True

    async def close(self) -> None:
        """Let everything go. Nothing may be asked after it."""
        await self.control.close()
        self.engine.close()
