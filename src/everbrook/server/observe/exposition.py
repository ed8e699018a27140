"""The resource `/metrics`: all metrics in the text format of Prometheus, or as OpenMetrics for who asks for that."""

import asyncio
from collections.abc import Callable

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from everbrook.engine.engine import Engine
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.caching import NO_STORE
from everbrook.server.exchange import Request, Response
from everbrook.server.methods import READING, refuse_method
from everbrook.server.observe.collecting import ServerCollector
from everbrook.server.observe.loop_lag import LoopLag
from everbrook.server.observe.observer import Observer
from everbrook.settings import Settings


class MetricsResource:
    """Answers who asks for metrics."""

    def __init__(self, engine: Engine, subscriptions: Subscriptions, observer: Observer, settings: Settings) -> None:
        self._lag = LoopLag(asyncio.get_running_loop(), engine.faults)
        self._registry = CollectorRegistry()
        self._registry.register(ServerCollector(engine, subscriptions, observer, self._lag, settings))
        ProcessCollector(registry=self._registry)
        self._lag.start()

    def read(self, request: Request, common: bytes) -> Response:
        """Write all metrics as they are now."""
        if request.method not in READING:
            raise refuse_method(request.method, b"GET, HEAD")
        encode, content_type = _encoder_for(request.headers.get(b"accept", b"").decode("latin-1"))
        lines = b"%bContent-Type: %b\r\nCache-Control: %b\r\n" % (common, content_type.encode(), NO_STORE)
        return Response(200, lines, encode(self._registry))

    def stop(self) -> None:
        """Measure no more."""
        self._lag.stop()


def _encoder_for(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Choose a format. Who asks for a version that is no number gets what is given to who asks for nothing."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # it compares a word with a number
        return choose_encoder("")
