"""Delays of the event loop: how late its timers run, and which turns take long.

Each long turn is logged with its cause, and counted. Requests need no extra measurement: the tallies know how long a
response took, and report a long one here. The overload control records the processor time of the loop periodically,
which shows whether the loop worked during that time. Callbacks of the engine and the server are timed one by one. Under
ASGI there is no overload control, so the processor time of each request is measured.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from time import monotonic

from everbrook.engine.clock import Scheduler, Timer
from everbrook.engine.faults import Callback, Faults, Periodic
from everbrook.engine.stats import Histogram
from everbrook.server.observe.counters import BACKGROUND, Counters

logger = logging.getLogger(__name__)

LONG_SECS = 0.05


INTERVAL_SECS = 0.25
BOUNDS_SECS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LongTurns:
    """Receives reports of long operations, and finds out whether they were long turns of the loop."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._noted_at = 0.0
        self.worked: Callable[[], float | None] = lambda: None
        """Returns the processor time of the loop since the last beat of the overload control, if it is known."""

    def answered(self, operation: str, secs: float) -> None:
        """Report a response that was ready `secs` after its request. It may have waited for a part of that time."""
        self._note(operation, operation, secs, self.worked() or 0.0)

    def handled(self, operation: str, worked_secs: float) -> None:
        """Report the processor time of a request, under ASGI."""
        if worked_secs >= LONG_SECS:
            self._note(operation, operation, worked_secs, worked_secs)

    def called(self, secs: float, callback: Callable[..., object], *args: object) -> None:
        """Report a callback that took `secs`. While the server is idle its processor time is unknown, and all of `secs`
        counts.
        """
        worked_secs = self.worked()
        self._note(BACKGROUND, _name_of(callback, args), secs, secs if worked_secs is None else worked_secs)

    def _note(self, label: str, cause: str, secs: float, worked_secs: float) -> None:
        now = monotonic()
        # A long turn that was noted after this time began is the same turn: the later responses have waited for it.
        if worked_secs < LONG_SECS or self._noted_at >= now - secs:
            return
        self._noted_at = now
        self._counters.add("long_turns", label)
        logger.warning("a turn of the event loop took %.0f ms: %s", min(worked_secs, secs) * 1000, cause)


def _name_of(callback: Callable[..., object], args: tuple[object, ...]) -> str:
    """Return the name of a callback. A guard or a timer is named after the function that it calls, an argument."""
    if isinstance(callback, partial):
        return _name_of(callback.func, callback.args)
    if isinstance(getattr(callback, "__self__", None), Faults | Periodic):
        return next((_name_of(each, ()) for each in args if callable(each)), "")
    return getattr(callback, "__qualname__", repr(callback))


class TimedScheduler:
    """A scheduler that times the callbacks of the event loop."""

    def __init__(self, loop: Scheduler, turns: LongTurns) -> None:
        self._turns = turns
        self._soon = loop.call_soon
        self._later = loop.call_later
        self._from_thread = loop.call_soon_threadsafe

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after the present one."""
        return self._soon(self._call, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after `delay` seconds."""
        return self._later(delay, self._call, callback, *args)

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback soon, from another thread."""
        return self._from_thread(self._call, callback, *args)

    def _call(self, callback: Callable[..., object], *args: object) -> None:
        began = monotonic()
        callback(*args)
        secs = monotonic() - began
        if secs >= LONG_SECS:
            self._turns.called(secs, callback, *args)


class LoopLag:
    """Measures a few times a second how late a timer runs. Every request waits at least as long."""

    def __init__(self, loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
        self._loop = loop
        self._faults = faults
        self._timer: Timer | None = None
        self._due = 0.0
        self.last_secs = 0.0
        self.seen = Histogram(BOUNDS_SECS)

    def start(self) -> None:
        self._wait()
        self._timer = self._faults.every(Callback.METRICS, INTERVAL_SECS, self._look, self._wait)

    def _wait(self) -> None:
        self._due = self._loop.time() + INTERVAL_SECS

    def _look(self) -> None:
        self.last_secs = max(0.0, self._loop.time() - self._due)
        self.seen.observe(self.last_secs)
        self._wait()

    def stop(self) -> None:
        if self._timer:
            self._timer.cancel()
