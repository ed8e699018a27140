"""The lag of the event loop: how much later than it should a timer runs. Every request waits at least as long."""

import asyncio

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.stats import Histogram

INTERVAL_SECS = 0.25
BOUNDS_SECS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopLag:
    """Looks a few times a second."""

    def __init__(self, loop: asyncio.AbstractEventLoop, faults: Faults) -> None:
        self._loop = loop
        self._faults = faults
        self._timer: Timer | None = None
        self._due = 0.0
        self.last_secs = 0.0
        self.seen = Histogram(BOUNDS_SECS)

    def start(self) -> None:
        """Begin to look."""
        self._wait()
        self._timer = self._faults.every(Callback.METRICS, INTERVAL_SECS, self._look, self._wait)

    def _wait(self) -> None:
        self._due = self._loop.time() + INTERVAL_SECS

    def _look(self) -> None:
        self.last_secs = max(0.0, self._loop.time() - self._due)
        self.seen.observe(self.last_secs)
        self._wait()

    def stop(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()
