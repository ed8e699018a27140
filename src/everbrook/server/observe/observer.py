"""The observer: records every response and every webhook in metrics, logs and traces.

If only the metrics are on, a response costs a few additions. The other listeners must not fail a request, so their
errors are logged.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from time import monotonic
from typing import Protocol

from msgspec import Struct

from everbrook.engine.stats import Histogram
from everbrook.protocol.path import BUCKET_ROOT
from everbrook.server.exchange import Deferred, Request, Response
from everbrook.server.methods import LIVE, operation_of
from everbrook.server.observe.access_log import AccessLog
from everbrook.server.observe.audit import Audit, audit_of
from everbrook.server.observe.counters import Counters
from everbrook.server.observe.event_loop import LongTurns
from everbrook.server.observe.tallies import BOUNDS_SECS, Tallies, Tally
from everbrook.server.resources.live import EventStream
from everbrook.settings import RequestLog, Settings, SettingsError, TraceSettings

logger = logging.getLogger(__name__)

Answered = Callable[[Request, Response], Tally]


class Watcher(Protocol):
    """A listener for responses."""

    def answered(self, request: Request, response: Response, secs: float, /) -> None:
        """Record a response that was sent, or a streamed one that has begun."""


class Tracer(Watcher, Protocol):
    """A listener that follows requests over several services."""

    def delivered(self, subscription: str, *, accepted: bool, secs: float) -> None:
        """Record a webhook that was sent."""

    def close(self) -> None:
        """Send the remaining spans. This may take a while, so it must not run on the event loop."""


class Observer:
    """Passes events to its listeners. `answered` is None if there are none for responses."""

    def __init__(
        self,
        audit: Audit,
        watchers: Sequence[Watcher] = (),
        tracer: Tracer | None = None,
        *,
        metered: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """The watchers, the audit log and the tracer get every response.

        `clock` must be the clock by which the transports record when a request was received.
        """
        self.audit = audit
        self.counters = Counters()
        self.turns = LongTurns(self.counters)
        self.tallies = Tallies(self.turns, clock)
        self._clock = clock
        self.deliveries = {True: 0, False: 0}
        self.delivery_secs = Histogram(BOUNDS_SECS)
        self.transport: Transport = NOTHING
        self._tracer = tracer
        self._watchers = tuple(watchers)
        if audit.writes:
            self._watchers += (audit,)
        if tracer:
            self._watchers += (tracer,)
        # The path of a response is chosen once: without listeners it costs one call, without metrics none.
        self.answered: Answered | None = None
        if self._watchers:
            self.answered = self._pass_on
        elif metered:
            self.answered = self.tallies.add

    @property
    def names_requests(self) -> bool:
        """Whether every response has the id of its request, because it is in a log or trace."""
        return bool(self._watchers)

    def _pass_on(self, request: Request, response: Response) -> Tally:
        # The response is counted first, so that a listener that fails can't hide it from the metrics.
        tally = self.tallies.add(request, response)
        secs = self._clock() - request.received if request.received else 0.0
        for watcher in self._watchers:
            try:
                watcher.answered(request, response, secs)
            except Exception:
                logger.exception("a response could not be logged or traced")
        return tally

    def delivered(self, subscription: str, *, accepted: bool, secs: float) -> None:
        """Record a webhook that was sent: whether its receiver accepted it, and how long that took."""
        self.deliveries[accepted] += 1
        self.delivery_secs.observe(secs)
        if self._tracer:
            self._tracer.delivered(subscription, accepted=accepted, secs=secs)

    def reloaded(self, problem: str = "") -> None:
        """Record a reload, or why it failed."""
        outcome = "failed" if problem else "ok"
        self.counters.add("reloads", outcome)
        self.audit.note("reloaded", outcome=outcome, detail=problem)

    def reopen(self) -> None:
        self.audit.reopen()

    def close(self) -> None:
        """Write the remaining records. This may wait for a network, so it must not run on the event loop."""
        self.audit.close()
        if self._tracer:
            self._tracer.close()


class TransportSurvey(Struct):
    """A snapshot of the connections of a server, and how many were accepted. It is made on demand only."""

    open: int = 0
    accepted: int = 0
    readers: dict[tuple[str, str], int] = {}
    """Live readers, by operation and surface."""
    congested: int = 0
    behind: int = 0
    max_behind_bytes: int = 0
    buffered_bytes: int = 0

    def note_answers(self, answers: Iterable[tuple[Deferred, Request]]) -> None:
        """Count the live reads among the responses that are under way, and those that fell behind."""
        self.readers = dict.fromkeys(product(sorted(LIVE), ("base", "bucket")), 0)
        for deferred, request in answers:
            operation = operation_of(request)
            if operation in LIVE:
                self.readers[operation, "bucket" if request.path.startswith(BUCKET_ROOT) else "base"] += 1
            if isinstance(deferred, EventStream) and (behind_bytes := deferred.behind_bytes):
                self.behind += 1
                self.max_behind_bytes = max(self.max_behind_bytes, behind_bytes)


class Transport(Protocol):
    """A transport, which has connections."""

    def survey(self) -> TransportSurvey:
        """Count the connections and what is under way on them."""


class _Nothing:
    def survey(self) -> TransportSurvey:
        survey = TransportSurvey()
        survey.note_answers(())
        return survey


NOTHING = _Nothing()
"""Null object for the time before there is a transport."""


def address_of_peer(request: Request) -> str:
    return request.peer.address


def observer_of(settings: Settings, address_of: Callable[[Request], str] = address_of_peer) -> Observer:
    """Make the observer of the settings. `address_of` returns the address of a request's client, behind proxies too.

    Parts that are not configured are neither made nor imported.
    """
    log = settings.log
    logs = [] if log.requests is RequestLog.OFF else [AccessLog(log.requests, log.slow_request_secs, address_of)]
    return Observer(
        audit_of(settings.audit, address_of), logs, _tracer_of(settings.traces), metered=settings.metrics.enabled
    )


def _tracer_of(settings: TraceSettings) -> Tracer | None:
    if not settings.endpoint:
        return None
    try:
        from everbrook.server.observe.traces import RequestTracer
    except ImportError as error:
        needed = "needs OpenTelemetry, which is not installed: pip install 'everbrook[otel]'"
        raise SettingsError("traces.endpoint", f"{needed} ({error})") from error
    return RequestTracer(settings)
