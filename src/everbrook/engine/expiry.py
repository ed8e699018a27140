"""Expiry: gives back the space of streams whose time has run out.

Correctness does not rest on it, since every command checks the time itself; it only makes dead streams go away. The
sweep knows the deadlines of the streams in memory; the patrol goes round those that are only in the storage.
"""

import heapq
from collections.abc import Callable

from everbrook.engine.clock import Clock, Scheduler, Timer
from everbrook.engine.stream import Stream
from everbrook.protocol.lifetime import deadline
from everbrook.storage.api import Storage

SLICE = 256
SLICE_PAUSE_SECS = 0.0005
PATROL_SECS = 10.0
PATROL_PAUSE_SECS = 0.05


class ExpirySweep:
    """Watches deadlines, in slices so that a crowd of them does not hold up the loop.

    A stream is looked at when its deadline was last known to be; if it was touched since, it is looked at again later.
    """

    def __init__(self, scheduler: Scheduler, clock: Clock, expire: Callable[[Stream, int], None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._expire = expire
        self._heap: list[tuple[int, int]] = []
        self._watched: dict[int, tuple[int, Stream]] = {}
        self._timer: Timer | None = None
        self._timer_at = 0

    def watch(self, stream: Stream, end: int) -> None:
        """Look at a stream when its deadline has come, instead of when it was to be looked at before."""
        incarnation = stream.head.identity.incarnation
        known = self._watched.get(incarnation)
        self._watched[incarnation] = (end, stream)
        if known is None or known[0] != end:
            heapq.heappush(self._heap, (end, incarnation))
            self._tidy()
        self._set_timer()

    def forget(self, stream: Stream) -> None:
        """Stop watching a stream."""
        if self._watched.pop(stream.head.identity.incarnation, None):
            self._tidy()

    def _tidy(self) -> None:
        """Clear the heap of places where nobody is looked at any more, when they outnumber the others."""
        if len(self._heap) > 2 * len(self._watched) + SLICE:
            self._heap = sorted((end, incarnation) for incarnation, (end, _) in self._watched.items())

    def _set_timer(self, pause_secs: float = 0.0) -> None:
        if not self._heap:
            return
        end = self._heap[0][0]
        if self._timer and self._timer_at <= end:
            return
        if self._timer:
            self._timer.cancel()
        delay = max(pause_secs, (end - self._clock.now()) / 1000)
        self._timer_at = end
        self._timer = self._scheduler.call_later(delay, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = self._clock.now()
        for _ in range(SLICE):
            if not self._heap or self._heap[0][0] > now:
                break
            end, incarnation = heapq.heappop(self._heap)
            watched = self._watched.get(incarnation)
            if watched and watched[0] == end:
                del self._watched[incarnation]
                self._look_at(watched[1], now)
        self._set_timer(SLICE_PAUSE_SECS)

    def _look_at(self, stream: Stream, now: int) -> None:
        end = deadline(stream.head.identity, stream.touched_at)
        if end is not None and end > now:
            self.watch(stream, end)
        else:
            self._expire(stream, now)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._timer:
            self._timer.cancel()
        self._heap.clear()
        self._watched.clear()


class ExpiryPatrol:
    """Goes round the stored streams that can expire, a slice at a time, for those that nobody has asked for."""

    def __init__(
        self, storage: Storage, scheduler: Scheduler, clock: Clock, expire: Callable[[bytes, int], None]
    ) -> None:
        self._storage = storage
        self._scheduler = scheduler
        self._clock = clock
        self._expire = expire
        self._started_at = clock.now()
        self._after = 0
        self._timer = scheduler.call_later(PATROL_SECS, self._look) if storage.blocking else None

    def _look(self) -> None:
        now = self._clock.now()
        heads = self._storage.mortal(self._after, SLICE)
        for head in heads:
            end = deadline(head.identity, max(head.written_at, self._started_at))
            if end is not None and end <= now:
                self._expire(head.identity.name, now)
        self._after = heads[-1].identity.incarnation if heads else 0
        pause_secs = PATROL_PAUSE_SECS if heads else PATROL_SECS
        self._timer = self._scheduler.call_later(pause_secs, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()
