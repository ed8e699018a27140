"""Tallies: how many requests were answered in which way, and how long it took. Every request passes here.

They are plain numbers in one object for each operation, method and status. What costs something, as adding up over
statuses, is left to whoever reads them.
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
    """The answers of one kind. Most take no longer than the first bound: those have a number of their own, `soon`.

    The others are counted by the first bound that they do not exceed, the last count being of those beyond all bounds.
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
        """How many there were."""
        return self.soon + sum(self.later)

    @property
    def counts(self) -> list[int]:
        """How many took how long."""
        return [self.soon, *self.later[1:]]


NO_TALLY = Tally("", "", 0)
"""Where what nobody counts is counted."""
NONE: dict[int, Tally] = {}


class Tallies:
    """All tallies of a server, and how often each refusal was given."""

    def __init__(self, turns: LongTurns, clock: Callable[[], float] = monotonic) -> None:
        """Tell `turns` of answers that took long to be put together."""
        self.turns = turns
        self._clock = clock
        self._tallies: dict[tuple[str, str, int], Tally] = {}
        self._plain: dict[bytes | str, dict[int, Tally]] = {method: {} for method in METHODS}
        self.refusals: dict[str, int] = {}

    def add(self, request: Request, response: Response) -> Tally:
        """Count an answer that has just been handed to the transport, or begun."""
        status = response.status
        tally = self._plain.get(request.operation or request.method, NONE).get(status) or self._find(request, status)
        received = request.received
        secs = self._clock() - received if received else 0.0
        if secs <= SOON_SECS:
            tally.soon += 1
        else:
            tally.later[bisect_left(BOUNDS_SECS, secs)] += 1
            if secs >= LONG_SECS:
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
        """Find a tally, or begin one. A method that we do not know must not begin many: anybody could send it."""
        method = request.method.decode() if request.method in METHODS else OTHER
        key = (operation_of(request), method, status)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(*key)
        if not request.operation and method != OTHER:
            self._plain[request.method][status] = tally
        return tally

    def all(self) -> list[Tally]:
        """Give all of them."""
        return list(self._tallies.values())
