"""Expiry: removes expired streams and messages that a policy does not retain, and reclaims their space.

Requests do not depend on it, because every command checks the time itself. `Deadlines` has the deadlines of the streams
in memory. `DeadlineScan` visits the streams that are only in the storage.
"""

import heapq
from collections.abc import Callable, Iterable
from contextlib import suppress

from everbrook.engine.clock import Clock, Timer
from everbrook.engine.faults import Callback
from everbrook.engine.reclaim import Reclaimer
from everbrook.engine.stats import Watched
from everbrook.engine.stream import Stream
from everbrook.engine.tuning import ExpiryTuning
from everbrook.engine.turns import Turns
from everbrook.protocol.commands import Expire, Trim
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.lifetime import deadline, last_touch
from everbrook.protocol.state import Drop, Edit, Head
from everbrook.storage.api import Storage


class Deadlines:
    """A priority queue of streams by their deadlines.

    It is processed in slices, so that many streams that are due at once do not block the event loop. Only two slices
    have pending changes: all responses of a group of changes wait for the whole group, so a group must not contain
    many expiries.
    """

    def __init__(
        self,
        clock: Clock,
        tuning: ExpiryTuning,
        look_at: Callable[[Stream, int], None],
        when_durable: Callable[[int, Callable[[], None]], None],
        turns: Turns,
    ) -> None:
        """Call `look_at` with a stream and the time when the stream is due. From then on it is not watched any more.

        `when_durable` makes a call when all changes but a number of the newest ones are durable or have failed.
        """
        self._clock = clock
        self._slice_streams = tuning.slice_streams
        self._retry_secs = tuning.slice_retry_secs
        self._look_at = look_at
        self._when_durable = when_durable
        self._turns = turns
        self._faults = turns.faults
        self._slices = 0
        self._waits = False
        """Whether a slice waits for its turn, or for its changes to become durable."""
        self._heap: list[tuple[int, int]] = []
        self._watched: dict[int, tuple[int, Stream]] = {}
        self._timer: Timer | None = None
        self._timer_at = 0

    @property
    def watched(self) -> Watched:
        """Statistics of the watched streams."""
        next_at = self._heap[0][0] if self._heap else None
        return Watched(streams=len(self._watched), entries=len(self._heap), next_at=next_at, slices=self._slices)

    def watch(self, stream: Stream, moment: int) -> None:
        """Look at a stream at `moment`, and not at the moment that was set before."""
        incarnation = stream.head.identity.incarnation
        known = self._watched.get(incarnation)
        self._watched[incarnation] = (moment, stream)
        if known is None or known[0] != moment:
            # The earlier entry stays in the heap and becomes stale, because to find it would be a linear search.
            heapq.heappush(self._heap, (moment, incarnation))
            self._tidy()
        self._set_timer()

    def watch_by(self, stream: Stream, moment: int) -> None:
        """Look at a stream at `moment`, unless it is looked at before."""
        known = self._watched.get(stream.head.identity.incarnation)
        if known is None or known[0] > moment:
            self.watch(stream, moment)

    def forget(self, stream: Stream) -> None:
        """Stop watching a stream."""
        if self._watched.pop(stream.head.identity.incarnation, None):
            self._tidy()

    def _tidy(self) -> None:
        """Remove stale entries from the heap when they outnumber the others."""
        if len(self._heap) > 2 * len(self._watched) + self._slice_streams:
            self._heap = sorted((moment, incarnation) for incarnation, (moment, _) in self._watched.items())

    def _set_timer(self, pause_secs: float = 0.0) -> None:
        if not self._heap or self._waits:
            return
        moment = self._heap[0][0]
        if self._timer and self._timer_at <= moment:
            return
        if self._timer:
            self._timer.cancel()
        delay = max(pause_secs, (moment - self._clock.now()) / 1000)
        self._timer_at = moment
        self._timer = self._faults.later(Callback.TIMER, delay, self._wait_for_turn, failed=self._go_on)

    def _wait_for_turn(self) -> None:
        self._timer = None
        self._waits = True
        self._turns.wait_as_server(Callback.TIMER, self._run_slice, self._go_on)

    def _run_slice(self) -> None:
        self._slices += 1
        now = self._clock.now()
        for _ in range(self._slice_streams):
            if not self._heap or self._heap[0][0] > now:
                break
            moment, incarnation = heapq.heappop(self._heap)
            watched = self._watched.get(incarnation)
            # Any other entry is stale: its stream was forgotten, or is watched for another moment by now.
            if watched and watched[0] == moment:
                del self._watched[incarnation]
                # After a fault the stream is not lost: `DeadlineScan`, or the next command, finds it expired.
                self._faults.run(Callback.TIMER, self._look_at, watched[1], now)
        self._when_durable(self._slice_streams, self._end_slice)

    def _end_slice(self) -> None:
        self._waits = False
        if self._heap and self._heap[0][0] <= self._clock.now():
            self._wait_for_turn()
        else:
            self._set_timer()

    def _go_on(self) -> None:
        """Run the next slice after a pause, because the last one failed."""
        self._timer = None
        self._waits = False
        self._set_timer(self._retry_secs)

    def stop(self) -> None:
        """Stop watching all streams."""
        if self._timer:
            self._timer.cancel()
        self._heap.clear()
        self._watched.clear()


class DeadlineScan:
    """Visits the stored streams with a deadline, a slice at a time. Most of them are not in memory."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        tuning: ExpiryTuning,
        execute: Callable[[Expire | Trim], None],
        turns: Turns,
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._tuning = tuning
        self._execute = execute
        self._turns = turns
        self._faults = turns.faults
        self._started_at = clock.now()
        self._after = 0
        self._first_round = True
        self._stopped = False
        self._timer: Timer | None = None
        if storage.blocking:
            self._set_timer()

    def _set_timer(self) -> None:
        pause_secs = self._tuning.scan_pause_secs if self._after else self._tuning.scan_secs
        self._timer = self._faults.later(Callback.TIMER, pause_secs, self._wait_for_turn, failed=self._set_timer)

    def _wait_for_turn(self) -> None:
        self._timer = None
        self._turns.wait_as_server(Callback.TIMER, self._look, self._set_timer)

    def _look(self) -> None:
        if self._stopped:
            return
        # Reset first: if the storage raises, the next round begins at the first stream, after the long pause.
        after, self._after = self._after, 0
        heads = self._storage.mortal(after, self._tuning.slice_streams)
        self._first_round = self._first_round and bool(heads)
        self._after = heads[-1].identity.incarnation if heads else 0
        now = self._clock.now()
        for head in heads:
            self._faults.run(Callback.TIMER, self._look_at, head, now)
        self._set_timer()

    def _look_at(self, head: Head, now: int) -> None:
        identity = head.identity
        end = deadline(identity, last_touch(head.written_at, self._started_at, now))
        if end is not None and end <= now:
            self._execute(Expire(identity.name, now))
        elif head.kept.earliest < head.tail and (self._aged(head, now) or self._uncut(head)):
            self._execute(Trim(identity.name, now))

    def _aged(self, head: Head, now: int) -> bool:
        """Return whether the oldest message of a stream is too old, or may be."""
        retention, earliest = head.identity.retention, head.kept.earliest
        if retention is None or retention.max_age_secs is None:
            return False
        if earliest < head.identity.first_own_offset:
            # The oldest message is in the source. Only the lineage of the loaded stream can tell its age.
            return True
        with suppress(StreamDamaged):
            appended_at = self._storage.index_at(head.identity.incarnation, earliest).time_at(earliest)
            return appended_at + retention.max_age_secs * 1000 <= now
        return False

    def _uncut(self, head: Head) -> bool:
        """Return whether an earlier run may have ended before it applied the policy to the last writes."""
        return self._first_round and head.identity.retention is not None and head.written_at < self._started_at

    def stop(self) -> None:
        """Stop the scan."""
        self._stopped = True
        if self._timer:
            self._timer.cancel()


class Expiry:
    """Expires streams, applies retention policies, and reclaims the space of removed bytes."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        tuning: ExpiryTuning,
        reclaimer: Reclaimer,
        execute: Callable[[Expire | Trim], None],
        when_durable: Callable[[int, Callable[[], None]], None],
        turns: Turns,
    ) -> None:
        """`when_durable` makes a call when all changes but a number of the newest ones are durable or have failed."""
        self._clock = clock
        self._reclaimer = reclaimer
        self._execute = execute
        self._trim_delay_ms = tuning.trim_delay_ms
        self._retry_ms = tuning.retry_ms
        self._expiring = Deadlines(clock, tuning, self._expire, when_durable, turns)
        self._trimming = Deadlines(clock, tuning, self._trim, when_durable, turns)
        self._scan = DeadlineScan(storage, clock, tuning, execute, turns)

    @property
    def expiring(self) -> Watched:
        """The streams that will expire."""
        return self._expiring.watched

    @property
    def trimming(self) -> Watched:
        """The streams to which policies will be applied."""
        return self._trimming.watched

    def watch(self, stream: Stream) -> None:
        """Watch a stream that was created or loaded, and reclaim the space that an earlier run left to it."""
        self._watch_expiry(stream)
        self._reclaimer.tidy(stream)
        if stream.head.identity.retention:
            self._trim_soon(stream)

    def _watch_expiry(self, stream: Stream, not_before: int = 0) -> None:
        """Watch a stream until it expires."""
        end = deadline(stream.head.identity, stream.touched_at)
        if end is not None:
            self._expiring.watch(stream, max(end, not_before))

    def watch_again(self, streams: Iterable[Stream]) -> None:
        """Watch streams again whose expiry or trim was refused for want of room."""
        # Not before a pause, because on a full disk the next attempt would be refused too.
        not_before = self._clock.now() + self._retry_ms
        for stream in streams:
            self._watch_again(stream, not_before)

    def _watch_again(self, stream: Stream, not_before: int) -> None:
        self._watch_expiry(stream, not_before)
        if stream.head.identity.retention:
            self._trimming.watch_by(stream, not_before)

    def forget(self, stream: Stream) -> None:
        """Stop watching a stream."""
        self._expiring.forget(stream)
        self._trimming.forget(stream)

    def follow(self, stream: Stream, edit: Edit, before: Head) -> None:
        """Reclaim the space that a durable edit has freed, and apply the policy to the messages that it has added."""
        if isinstance(edit, Drop):
            self._reclaimer.dropped(before)
            return
        if edit.cut:
            self._reclaimer.cut(stream, before.kept)
        if edit.head.identity.retention:
            self._trim_soon(stream)

    def _expire(self, stream: Stream, now: int) -> None:
        """Expire a stream. A live reader at the tail renews a sliding TTL."""
        identity = stream.head.identity
        if stream.followed and identity.slides:
            # A waiting reader counts as a use, but `touched_at` is not set until the reader leaves (§5.1).
            stream.touched_at = now
        end = deadline(identity, stream.touched_at)
        if end is not None and end > now:
            self._expiring.watch(stream, end)
        else:
            self._execute(Expire(identity.name, now))

    def _trim_soon(self, stream: Stream) -> None:
        self._trimming.watch_by(stream, self._clock.now() + self._trim_delay_ms)

    def _trim(self, stream: Stream, now: int) -> None:
        """Apply the policy of a stream, and watch the stream until its oldest message is too old."""
        identity = stream.head.identity
        self._execute(Trim(identity.name, now))
        policy, earliest = identity.retention, stream.head.kept.earliest
        if policy and policy.max_age_secs is not None and earliest < stream.head.tail and not stream.ended:
            with suppress(StreamDamaged):
                too_old_at = stream.lineage.time_at(earliest) + policy.max_age_secs * 1000
                self._trimming.watch_by(stream, max(too_old_at, now + self._trim_delay_ms))

    def stop(self) -> None:
        """Stop watching all streams."""
        self._expiring.stop()
        self._trimming.stop()
        self._scan.stop()
