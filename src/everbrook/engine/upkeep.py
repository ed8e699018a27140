"""Upkeep: what time and earlier changes ask for. Streams expire, policies cut, and what is gone gives its space back.

The sweeps know the moments of the streams in memory; the patrol goes round those that are only in the storage.
"""

from collections.abc import Callable
from contextlib import suppress

from everbrook.engine.clock import Clock
from everbrook.engine.faults import Faults
from everbrook.engine.inspection import Watched
from everbrook.engine.reclaiming import Reclaimer
from everbrook.engine.stream import Stream
from everbrook.engine.sweep import Patrol, Sweep
from everbrook.engine.tuning import EngineTuning
from everbrook.protocol.change import Drop, Edit
from everbrook.protocol.commands import Expire, Trim
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.lifetime import deadline
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage


class Upkeep:
    """Watches streams, and has done to them what is due."""

    def __init__(
        self,
        storage: Storage,
        clock: Clock,
        tuning: EngineTuning,
        reclaimer: Reclaimer,
        execute: Callable[[Expire | Trim], None],
        when_durable: Callable[[Callable[[], None]], None],
        faults: Faults,
    ) -> None:
        """`when_durable` calls what it is given when what was executed is durable or has failed."""
        self._clock = clock
        self._reclaimer = reclaimer
        self._execute = execute
        self._trim_delay_ms = tuning.upkeep.trim_delay_ms
        self._expiry = Sweep(clock, tuning.sweep, self._expire, when_durable, faults)
        self._trimming = Sweep(clock, tuning.sweep, self._trim, when_durable, faults)
        self._patrol = Patrol(storage, clock, tuning.sweep, execute, faults)

    @property
    def expiring(self) -> Watched:
        """The streams that will expire."""
        return self._expiry.watched

    @property
    def trimming(self) -> Watched:
        """The streams to which policies will be applied."""
        return self._trimming.watched

    def watch(self, stream: Stream) -> None:
        """Watch a stream that has come into memory, and give back what an earlier time left of it."""
        self.watch_expiry(stream)
        self._reclaimer.tidy(stream)
        if stream.head.identity.retention:
            self._trim_soon(stream)

    def watch_expiry(self, stream: Stream, not_before: int = 0) -> None:
        """Look at a stream when its time will have run out."""
        end = deadline(stream.head.identity, stream.touched_at)
        if end is not None:
            self._expiry.watch(stream, max(end, not_before))

    def watch_again(self, stream: Stream, not_before: int) -> None:
        """Watch a stream to which what was due could not be done."""
        self.watch_expiry(stream, not_before)
        if stream.head.identity.retention:
            self._trimming.watch_by(stream, not_before)

    def forget(self, stream: Stream) -> None:
        """Stop watching a stream."""
        self._expiry.forget(stream)
        self._trimming.forget(stream)

    def follow(self, stream: Stream, edit: Edit, before: Head) -> None:
        """Do what follows from an edit that is durable now."""
        if isinstance(edit, Drop):
            self._reclaimer.dropped(before)
            return
        if edit.cut:
            self._reclaimer.cut(stream, before.kept)
        if edit.head.identity.retention:
            self._trim_soon(stream)

    def _expire(self, stream: Stream, now: int) -> None:
        """End a stream whose time has run out. One that slides does not while somebody is reading it."""
        identity = stream.head.identity
        if stream.followed and identity.slides:
            stream.touched_at = now
        end = deadline(identity, stream.touched_at)
        if end is not None and end > now:
            self._expiry.watch(stream, end)
        else:
            self._execute(Expire(identity.name, now))

    def _trim_soon(self, stream: Stream) -> None:
        self._trimming.watch_by(stream, self._clock.now() + self._trim_delay_ms)

    def _trim(self, stream: Stream, now: int) -> None:
        """Apply a stream's policy, and look at it again when its oldest message will be too old."""
        identity = stream.head.identity
        self._execute(Trim(identity.name, now))
        policy, earliest = identity.retention, stream.head.kept.earliest
        if policy and policy.max_age_secs is not None and earliest < stream.head.tail and not stream.ended:
            with suppress(StreamDamaged):
                too_old_at = stream.lineage.time_at(earliest) + policy.max_age_secs * 1000
                self._trimming.watch_by(stream, max(too_old_at, now + self._trim_delay_ms))

    def stop(self) -> None:
        """Watch nothing any more."""
        self._expiry.stop()
        self._trimming.stop()
        self._patrol.stop()
