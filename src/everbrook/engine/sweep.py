"""Sweeps: look at each stream when its time has come.

Correctness does not rest on it for expiry, since every command checks the time itself; it makes dead streams and what
policies do not retain go away. A sweep knows the streams in memory; the patrol goes round those that are only in the
storage.
"""

import heapq
from collections.abc import Callable
from contextlib import suppress

from everbrook.engine.clock import Clock, Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.engine.inspection import Watched
from everbrook.engine.stream import Stream
from everbrook.engine.tuning import SweepTuning
from everbrook.protocol.commands import Expire, Trim
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.lifetime import deadline, last_touch
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage


class Sweep:
    """Watches moments, in slices so that a crowd of them does not hold up the loop.

    The next slice begins when the changes of the last one are durable. So few of them are in a group of changes, whose
    answers all wait for it.
    """

    def __init__(
        self,
        clock: Clock,
        tuning: SweepTuning,
        look_at: Callable[[Stream, int], None],
        when_durable: Callable[[Callable[[], None]], None],
        faults: Faults,
    ) -> None:
        """Call `look_at` with a stream and the time when its moment has come. It is not watched any more then.

        `when_durable` calls what it is given when the changes of `look_at` are durable or have failed.
        """
        self._clock = clock
        self._slice_streams = tuning.slice_streams
        self._slice_pause_secs = tuning.slice_pause_secs
        self._retry_secs = tuning.retry_secs
        self._look_at = look_at
        self._when_durable = when_durable
        self._waiting = False
        self._faults = faults
        self._heap: list[tuple[int, int]] = []
        self._watched: dict[int, tuple[int, Stream]] = {}
        self._timer: Timer | None = None
        self._timer_at = 0

    @property
    def watched(self) -> Watched:
        """The streams that are watched at the moment."""
        next_at = self._heap[0][0] if self._heap else None
        return Watched(streams=len(self._watched), entries=len(self._heap), next_at=next_at, waiting=self._waiting)

    def watch(self, stream: Stream, moment: int) -> None:
        """Look at a stream when a moment has come, instead of when it was to be looked at before."""
        incarnation = stream.head.identity.incarnation
        known = self._watched.get(incarnation)
        self._watched[incarnation] = (moment, stream)
        if known is None or known[0] != moment:
            heapq.heappush(self._heap, (moment, incarnation))
            self._tidy()
        self._set_timer()

    def watch_by(self, stream: Stream, moment: int) -> None:
        """Look at a stream when a moment has come, unless it is looked at before."""
        known = self._watched.get(stream.head.identity.incarnation)
        if known is None or known[0] > moment:
            self.watch(stream, moment)

    def forget(self, stream: Stream) -> None:
        """Stop watching a stream."""
        if self._watched.pop(stream.head.identity.incarnation, None):
            self._tidy()

    def _tidy(self) -> None:
        """Clear the heap of places where nobody is looked at any more, when they outnumber the others."""
        if len(self._heap) > 2 * len(self._watched) + self._slice_streams:
            self._heap = sorted((moment, incarnation) for incarnation, (moment, _) in self._watched.items())

    def _set_timer(self, pause_secs: float = 0.0) -> None:
        if not self._heap or self._waiting:
            return
        moment = self._heap[0][0]
        if self._timer and self._timer_at <= moment:
            return
        if self._timer:
            self._timer.cancel()
        delay = max(pause_secs, (moment - self._clock.now()) / 1000)
        self._timer_at = moment
        self._timer = self._faults.later(Callback.TIMER, delay, self._sweep, failed=self._go_on)

    def _sweep(self) -> None:
        self._timer = None
        self._waiting = True
        now = self._clock.now()
        for _ in range(self._slice_streams):
            if not self._heap or self._heap[0][0] > now:
                break
            moment, incarnation = heapq.heappop(self._heap)
            watched = self._watched.get(incarnation)
            if watched and watched[0] == moment:
                del self._watched[incarnation]
                # What it misses the patrol finds, or the next command.
                self._faults.run(Callback.TIMER, self._look_at, watched[1], now)
        self._when_durable(self._end_slice)

    def _end_slice(self) -> None:
        self._waiting = False
        self._set_timer(self._slice_pause_secs)

    def _go_on(self) -> None:
        """Sweep again after a while: the last time failed."""
        self._timer, self._waiting = None, False
        self._set_timer(self._retry_secs)

    def stop(self) -> None:
        """Look at nothing any more."""
        if self._timer:
            self._timer.cancel()
        self._heap.clear()
        self._watched.clear()


class Patrol:
    """Goes round the stored streams that time acts on, a slice at a time, for those that nobody has asked for."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        tuning: SweepTuning,
        execute: Callable[[Expire | Trim], None],
        faults: Faults,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._tuning = tuning
        self._execute = execute
        self._faults = faults
        self._started_at = clock.now()
        self._after = 0
        self._first_round = True
        self._timer = faults.every(Callback.TIMER, self._pause_secs, self._look) if storage.blocking else None

    def _pause_secs(self) -> float:
        return self._tuning.patrol_pause_secs if self._after else self._tuning.patrol_secs

    def _look(self) -> None:
        # If the storage raises, the next round begins after a pause.
        after, self._after = self._after, 0
        heads = self._storage.mortal(after, self._tuning.slice_streams)
        self._first_round = self._first_round and bool(heads)
        self._after = heads[-1].identity.incarnation if heads else 0
        now = self._clock.now()
        for head in heads:
            self._faults.run(Callback.TIMER, self._look_at, head, now)

    def _look_at(self, head: Head, now: int) -> None:
        identity = head.identity
        end = deadline(identity, last_touch(head.written_at, self._started_at, now))
        if end is not None and end <= now:
            self._execute(Expire(identity.name, now))
        elif head.kept.earliest < head.tail and (self._aged(head, now) or self._uncut(head)):
            self._execute(Trim(identity.name, now))

    def _aged(self, head: Head, now: int) -> bool:
        """Tell whether the oldest message of a stream is, or may be, too old."""
        retention, earliest = head.identity.retention, head.kept.earliest
        if retention is None or retention.max_age_secs is None:
            return False
        if earliest < head.identity.first_own_offset:
            # It is the source's, and found when the stream is loaded.
            return True
        with suppress(StreamDamaged):
            appended_at = self._storage.time_at(head.identity.incarnation, earliest)
            return appended_at + retention.max_age_secs * 1000 <= now
        return False

    def _uncut(self, head: Head) -> bool:
        """Tell whether a policy may not have been applied to the last that was written, before an earlier end."""
        return self._first_round and head.identity.retention is not None and head.written_at < self._started_at

    def stop(self) -> None:
        """Look no more."""
        if self._timer:
            self._timer.cancel()
