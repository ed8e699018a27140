"""Traces by OpenTelemetry: a span for each request, one within it for its wait to be durable, and one for a webhook.

A span is made when its response is sent, from times that are recorded anyway, and is exported in the background. A
request with a W3C `traceparent` continues that trace. No request waits for a collector: while it is unreachable, traces
are lost.
"""

from threading import Thread
from time import time_ns

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from everbrook.server.exchange import Request, Response
from everbrook.server.methods import operation_of
from everbrook.server.observe.access_log import printable, request_id
from everbrook.settings import TraceSettings

FAILED = 500
NANOS = 1_000_000_000
# How long a stopping server waits for the last export.
LAST_EXPORT_SECS = 1.0
EXPORT_TIMEOUT_SECS = 5.0

_propagator = TraceContextTextMapPropagator()


class RequestTracer:
    """Makes the spans of responses and webhooks."""

    def __init__(self, settings: TraceSettings) -> None:
        """Send to the endpoint of the settings. Headers come from OTEL_EXPORTER_OTLP_HEADERS, if there are any."""
        exporter = OTLPSpanExporter(endpoint=settings.endpoint, timeout=EXPORT_TIMEOUT_SECS)
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=Resource.create({SERVICE_NAME: settings.service_name}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("everbrook")

    def answered(self, request: Request, response: Response, secs: float) -> None:
        """Make the spans of a response. The span of a streamed response ends when its head is sent."""
        end = time_ns()
        operation, method = operation_of(request), request.method.decode("ascii", "replace")
        span = self._tracer.start_span(
            f"{method} {operation}", _context_of(request), SpanKind.SERVER, start_time=end - int(secs * NANOS)
        )
        if span.is_recording():
            span.set_attributes(
                {
                    "http.request.method": method,
                    "http.response.status_code": response.status,
                    "url.path": printable(request.path),
                    "client.address": request.peer.address,
                    "everbrook.operation": operation,
                    "everbrook.request_id": request_id(request),
                }
            )
            self._tell_wait(span, request, end - int(secs * NANOS), end)
            if response.status >= FAILED:
                span.set_status(Status(StatusCode.ERROR, response.code))
        span.end(end)

    def _tell_wait(self, within: Span, request: Request, start: int, end: int) -> None:
        """Make the span of the time for which a response waited for the disk."""
        if request.parked_at:
            parked = start + int((request.parked_at - request.received) * NANOS)
            self._tracer.start_span("commit wait", set_span_in_context(within), start_time=parked).end(end)

    def delivered(self, subscription: str, *, accepted: bool, secs: float) -> None:
        """Make the span of a webhook."""
        end = time_ns()
        span = self._tracer.start_span("webhook delivery", None, SpanKind.CLIENT, start_time=end - int(secs * NANOS))
        span.set_attributes({"everbrook.subscription": subscription, "everbrook.accepted": accepted})
        if not accepted:
            span.set_status(Status(StatusCode.ERROR, "the receiver did not accept it"))
        span.end(end)

    def close(self) -> None:
        """Export the remaining spans within a bounded time.

        The library finishes an export that has begun, which takes long if the collector does not respond. So a daemon
        thread does that, which does not keep the process alive.
        """
        last = Thread(target=self._provider.shutdown, name="last traces", daemon=True)
        last.start()
        last.join(LAST_EXPORT_SECS)


def _context_of(request: Request) -> Context | None:
    parent = request.headers.get(b"traceparent")
    if parent is None:
        return None
    carrier = {"traceparent": parent.decode("latin-1")}
    state = request.headers.get(b"tracestate")
    return _propagator.extract(carrier if state is None else {**carrier, "tracestate": state.decode("latin-1")})
