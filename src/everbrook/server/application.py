"""The application: which resource a request is for. Both transports call it."""

import logging

from everbrook.engine.engine import Engine
from everbrook.protocol.errors import MethodNotAllowed, NotFound, ProtocolError, Unavailable, quoted
from everbrook.protocol.path import STREAM_ROOT
from everbrook.server.cors import METHODS, Cors
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.problem import problem_response
from everbrook.server.streams import StreamResource
from everbrook.settings import Settings

logger = logging.getLogger(__name__)


class Application:
    """Turns requests into replies."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self.engine = engine
        self.settings = settings
        self._cors = Cors(settings.http.cors_origins)
        self._methods = StreamResource(engine, settings).methods
        self._stopping = False

    def handle(self, request: Request) -> Reply:
        """Answer a request. Whatever goes wrong is an answer too."""
        common = self._cors.headers(request)
        try:
            if not request.path.startswith(STREAM_ROOT):
                return self._handle_other(request, common)
            method = self._methods.get(request.method)
            return method(request, common) if method else self._options_or_refuse(request)
        except ProtocolError as error:
            return problem_response(error, common, self.engine.last_change)
        except Exception:
            logger.exception("failed to answer %s %s", request.method.decode(), quoted(request.path))
            return self.failure(common)

    def refuse(self, error: ProtocolError, headers: dict[bytes, bytes]) -> Response:
        """Answer a request of which only these headers were read."""
        return problem_response(error, self._cors.headers(Request(b"", b"", b"", headers, b"")))

    def failure(self, common: bytes) -> Response:
        """Answer a request that met a fault of ours."""
        return problem_response(ProtocolError("the server failed to answer; its log says why"), common)

    def _handle_other(self, request: Request, common: bytes) -> Response:
        if request.path in {b"/healthz", b"/readyz"}:
            return self._handle_probe(request, common)
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        raise NotFound(f"there is nothing at {quoted(request.path)}; streams are below {STREAM_ROOT.decode()}")

    def _options_or_refuse(self, request: Request) -> Response:
        if request.method == b"OPTIONS":
            return self._cors.preflight(request)
        raise MethodNotAllowed(f"a stream does not know {quoted(request.method)}", ((b"Allow", METHODS),))

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

    def stop(self) -> None:
        """Tell those who ask that the server is about to go."""
        self._stopping = True
