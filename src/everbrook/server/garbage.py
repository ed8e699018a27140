"""Garbage collection: full collections are paced, because the event loop stands still while all objects are visited.

Python begins a full collection whenever the number of objects has grown by a quarter, so again and again while streams
are created: 50 ms each time for 15,000 streams in memory. Reference counts free nearly everything at once, and
collections of young objects find most cycles. So a full collection waits until no request arrives, or for long.
"""

import gc
from collections.abc import Callable
from time import perf_counter

from everbrook.engine.faults import Callback, Faults

LOOK_SECS = 1.0
LEAST_PAUSE_SECS = 10.0
IDLE_RATIO, BUSY_RATIO = 1_000, 10_000
"""How many times as long as a full collection the pause after it is: so full collections take a thousandth of the time
of a server that is idle now and then, and a tenth of that of one that never is.
"""
MIDDLE = 2
"""Middle-aged objects are visited after every third collection of young ones, and not after every eleventh: in shorter
turns.
"""
NEVER = 2**31 - 1


class FullCollections:
    """Begins the full collections of this process, in place of Python itself, until `stop`."""

    def __init__(
        self,
        faults: Faults,
        is_idle: Callable[[], bool],
        collect: Callable[[], object] = gc.collect,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        """`is_idle` tells whether no requests arrive at the moment."""
        self._is_idle = is_idle
        self._collect = collect
        self._clock = clock
        self._took_secs = 0.0
        self._thresholds = young, _, _ = gc.get_threshold()
        # What is loaded by now stays, so it need not be visited again.
        collect()
        gc.freeze()
        self._ended_at = clock()
        gc.set_threshold(young, MIDDLE, NEVER)
        self._timer = faults.every(Callback.OTHER, LOOK_SECS, self._look)

    def _look(self) -> None:
        began = self._clock()
        ratio = IDLE_RATIO if self._is_idle() else BUSY_RATIO
        pause_secs = ratio * max(self._took_secs, LEAST_PAUSE_SECS / IDLE_RATIO)
        # The last count is 0 if no object has become old since the last full collection.
        if began - self._ended_at >= pause_secs and gc.get_count()[2]:
            self._collect()
            self._ended_at = self._clock()
            self._took_secs = self._ended_at - began

    def stop(self) -> None:
        """Leave full collections to Python again."""
        self._timer.cancel()
        gc.set_threshold(*self._thresholds)
