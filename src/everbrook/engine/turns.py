"""Fair scheduling of long work: one slice in a turn of the event loop, from one bucket after the other (round robin).

If every task ran a slice in every turn, a turn would last as long as all slices together, and a tenant could delay the
others with requests over many connections. The base surface counts as one bucket, the server's own work as another.

While changes are pending, slices rest. A commit needs the loop three times, and its thread needs the interpreter's
lock. A thread that waits for this lock demands it after a millisecond, but begins to wait anew whenever the loop
releases it and takes it again, as each read of LMDB does: beside slices, commits waited 20 ms and more for the lock.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from everbrook.engine.clock import Clock, Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.path import bucket_of

WORK_SECS, REST_SECS = 0.002, 0.004
"""While changes are pending, slices work for so long, and then rest for so long or until the next group is durable."""
SERVER = b""
"""Stands for the server's own work. No bucket has this id."""


class Slice(Struct, frozen=True):
    """A slice that waits for its turn."""

    kind: Callback
    call: Callable[[], object]
    failed: Callable[[], object]


class Turns:
    """A round-robin queue of slices by bucket."""

    def __init__(self, faults: Faults, clock: Clock) -> None:
        self.faults = faults
        self._clock = clock
        self.when_group_ends: Callable[[Callable[[], None]], bool] = lambda _: False
        """Calls its argument when the group under way is durable or has failed. False: no changes are pending."""
        self.waiting: dict[bytes | None, deque[Slice]] = {}
        self._scheduled = False
        self._worked_secs = self._ended_at = 0.0
        self._resting = False
        self._registered = False
        """Whether `_end_group` will be called. It outlasts a rest that ended by time."""
        self._timer: Timer | None = None

    def wait(
        self,
        name: bytes,
        call: Callable[[], object],
        failed: Callable[[], object],
        kind: Callback = Callback.RESPONSE,
    ) -> None:
        """Call `call` when it is the turn of the bucket of `name`. `failed` is called after an exception."""
        self._wait(bucket_of(name), Slice(kind, call, failed))

    def wait_as_server(self, kind: Callback, call: Callable[[], object], failed: Callable[[], object]) -> None:
        """Call `call` when it is the turn of the server's own work. `failed` is called after an exception."""
        self._wait(SERVER, Slice(kind, call, failed))

    def _wait(self, bucket_id: bytes | None, work: Slice) -> None:
        self.waiting.setdefault(bucket_id, deque()).append(work)
        self._schedule()

    def _schedule(self) -> None:
        if self.waiting and not self._scheduled and not self._resting:
            self._scheduled = True
            self.faults.soon(Callback.RESPONSE, self._take, failed=self._schedule_next)

    def _schedule_next(self) -> None:
        self._scheduled = False
        self._schedule()

    def _take(self) -> None:
        """Run a slice of the bucket that has waited longest."""
        began = self._clock.elapsed()
        if began - self._ended_at >= REST_SECS:
            # There was nothing to do for as long as a rest.
            self._worked_secs = 0.0
        if self._worked_secs >= WORK_SECS and self._rest():
            return
        bucket_id = next(iter(self.waiting))
        waiting = self.waiting.pop(bucket_id)
        work = waiting.popleft()
        if waiting:
            # To the end of the queue: the dictionary is in the order in which buckets have waited.
            self.waiting[bucket_id] = waiting
        # Scheduled before the call: an exception in it must not stop the queue.
        self._schedule_next()
        if self.faults.run(work.kind, work.call):
            work.failed()
        self._ended_at = self._clock.elapsed()
        self._worked_secs += self._ended_at - began

    def _rest(self) -> bool:
        """Leave the loop to the pending changes. Returns False if there are none."""
        if not self._registered:
            self._registered = self.when_group_ends(self._end_group)
        if not self._registered:
            return False
        self._scheduled, self._resting = False, True
        self._timer = self.faults.later(Callback.RESPONSE, REST_SECS, self._end_rest, failed=self._end_rest)
        return True

    def _end_group(self) -> None:
        self._registered = False
        self._end_rest()

    def _end_rest(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._resting, self._worked_secs = False, 0.0
        self._schedule()
