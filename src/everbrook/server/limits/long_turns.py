"""Long turns of the event loop: each is logged with what ran in it, and counted.

Nothing is measured for it on the way of a request. How long an answer took is known where answers are counted, and only
one that took long is looked at here: how much of that time the thread of the loop has worked is asked of the overload
control, which notes it with each beat. What the loop runs by itself is timed callback by callback. Under ASGI there is
no beat, and the work on each request is measured.
"""

import logging
from collections.abc import Callable
from functools import partial
from time import monotonic

from everbrook.engine.clock import Scheduler, Timer
from everbrook.engine.faults import Faults, Periodic
from everbrook.server.observe.counters import BACKGROUND, Counters

logger = logging.getLogger(__name__)

LONG_SECS = 0.05


class LongTurns:
    """Hears of what took long, and finds out whether that was a turn of the loop."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._noted_at = 0.0
        self.worked: Callable[[], float | None] = lambda: None
        """Tells for how many seconds the thread of the loop has worked since the last beat, where that is known."""

    def answered(self, operation: str, secs: float) -> None:
        """Hear of an answer that was there so long after its request had come. It may have waited for something."""
        self._note(operation, operation, secs, self.worked() or 0.0)

    def handled(self, operation: str, worked_secs: float) -> None:
        """Hear for how long the thread has worked on a request, where there is no beat: under another server's loop."""
        if worked_secs >= LONG_SECS:
            self._note(operation, operation, worked_secs, worked_secs)

    def called(self, secs: float, callback: Callable[..., object], *args: object) -> None:
        """Hear of a callback that took so long. While the server is idle nobody knows how much of that was work."""
        worked_secs = self.worked()
        self._note(BACKGROUND, _name_of(callback, args), secs, secs if worked_secs is None else worked_secs)

    def _note(self, label: str, cause: str, secs: float, worked_secs: float) -> None:
        now = monotonic()
        # What was noted after this began was noted in the same turn: the answers behind it have waited for it.
        if worked_secs < LONG_SECS or self._noted_at >= now - secs:
            return
        self._noted_at = now
        self._counters.add("long_turns", label)
        logger.warning("a turn of the event loop took %.0f ms: %s", min(worked_secs, secs) * 1000, cause)


def _name_of(callback: Callable[..., object], args: tuple[object, ...]) -> str:
    """Name what was called. A guard or a timer is not what took long: what it calls is an argument of it."""
    if isinstance(callback, partial):
        return _name_of(callback.func, callback.args)
    if isinstance(getattr(callback, "__self__", None), Faults | Periodic):
        return next((_name_of(each, ()) for each in args if callable(each)), "")
    return getattr(callback, "__qualname__", repr(callback))


class TimedScheduler:
    """The event loop, with its callbacks timed."""

    def __init__(self, loop: Scheduler, turns: LongTurns) -> None:
        self._turns = turns
        self._soon = loop.call_soon
        self._later = loop.call_later
        self._from_thread = loop.call_soon_threadsafe

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after what is running now."""
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
