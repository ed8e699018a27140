"""Tallies: the numbers of responses and their durations, by operation, method and status. Every request is counted.

A tally is one object with plain numbers, so that counting is cheap. Sums over several tallies are computed when the
metrics are read.
"""

from bisect import bisect_left
from collections.abc import Callable
from time import monotonic

from everbrook.server.exchange import Request, Response
from everbrook.server.methods import METHODS, OTHER, operation_of
from everbrook.server.observe.event_loop import LONG_SECS, LongTurns

BOUNDS_SECS = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)
SOON_SECS = BOUNDS_SECS[0]
REFUSED = 400


class Tally:
    """A histogram of the responses of one kind. `soon` counts those within the first bound, which are most.

    `later` counts the others by the first bound that they do not exceed. Its last count is for those beyond all bounds.
    """

    __slots__ = ("later", "method", "operation", "secs", "sent_bytes", "soon", "status")

    def __init__(self, operation: str, method: str, status: int) -> None:
        self.operation = operation
        self.method = method
        self.status = status
        self.soon = 0
        self.later = [0] * (len(BOUNDS_SECS) + 1)
        self.secs = 0.0
        self.sent_bytes = 0

    @property
    def count(self) -> int:
        return self.soon + sum(self.later)

    @property
    def counts(self) -> list[int]:
        return [self.soon, *self.later[1:]]


NO_TALLY = Tally("", "", 0)
"""Null object for requests that are not counted."""
NONE: dict[int, Tally] = {}


class Tallies:
    """All tallies of a server, and the number of refusals by their code."""

    def __init__(self, turns: LongTurns, clock: Callable[[], float] = monotonic) -> None:
        """`turns` records responses that took a long turn of the loop."""
        self.turns = turns
        self._clock = clock
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self._plain: dict[bytes | str, dict[int, Tally]] = {method: {} for method in METHODS}
        self.refusals: dict[str, int] = {}

    def add(self, request: Request, response: Response) -> Tally:
        """Count a response that was just written, or has begun."""
        status = response.status
        tally = self._plain.get(request.operation or request.method, NONE).get(status) or self._find(request, status)
        received = request.received
        secs = self._clock() - received if received else 0.0
        if secs <= SOON_SECS:
            tally.soon += 1
        else:
            tally.later[bisect_left(BOUNDS_SECS, secs)] += 1
            if secs >= LONG_SECS:
                # The wait for the disk is no work of the loop, so it can't make a turn long.
                began = request.parked_at or self._clock()
                if began - received >= LONG_SECS:
                    self.turns.answered(tally.operation, began - received)
        tally.secs += secs
        if response.body:
            tally.sent_bytes += len(response.body)
        if status >= REFUSED:
            self.refusals[response.code] = self.refusals.get(response.code, 0) + 1
        return tally

    def _find(self, request: Request, status: int) -> Tally:
        """Return the tally, created if it is new. Unknown methods share one: clients could invent any number."""
        method = request.method.decode() if request.method in METHODS else OTHER
        key = (operation_of(request), method, status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(*key)
        if not request.operation and method != OTHER:
            self._plain[request.method][status] = tally
        return tally

    def all(self) -> list[Tally]:
        return list(self._tallies.values())
