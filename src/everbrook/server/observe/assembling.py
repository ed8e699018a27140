"""From settings to an observer. What is not asked for is neither made nor imported."""

from collections.abc import Callable

from everbrook.server.exchange import Request
from everbrook.server.observe.access_log import AccessLog
from everbrook.server.observe.audit import audit_of
from everbrook.server.observe.observer import Observer, Tracer
from everbrook.settings import RequestLog, Settings, SettingsError, TraceSettings


def address_of_peer(request: Request) -> str:
    """Give the address at the other end of the connection."""
    return request.peer.address


def observer_of(settings: Settings, address_of: Callable[[Request], str] = address_of_peer) -> Observer:
    """Make the observer that the settings mean. `address_of` says where a request comes from, proxies considered."""
    log = settings.log
    logs = [] if log.requests is RequestLog.OFF else [AccessLog(log.requests, log.slow_request_secs, address_of)]
    return Observer(
        audit_of(settings.audit, address_of), logs, _tracer_of(settings.traces), metered=settings.metrics.enabled
    )


def _tracer_of(settings: TraceSettings) -> Tracer | None:
    if not settings.endpoint:
        return None
    try:
        from everbrook.server.observe.traces import RequestTracer  # noqa: PLC0415
    except ImportError as error:
        needed = "needs OpenTelemetry, which is not installed: pip install 'everbrook[otel]'"
        raise SettingsError("traces.endpoint", f"{needed} ({error})") from error
    return RequestTracer(settings)
