"""Fair scheduling of long work: one slice in a turn of the event loop, from one bucket after the other (round robin).

If every task ran a slice in every turn, a turn would last as long as all slices together, and a tenant could delay the
others with requests over many connections. The base surface counts as one bucket.

A durable append takes three turns: one for its decision, one in which its group begins, and one for the response. The
turns after a long slice have no slice, so that an append waits for one slice rather than for three.
"""

from collections import deque
from collections.abc import Callable

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.path import bucket_of

FREE_TURNS = 2
"""How many turns without a slice follow a long one."""


class Turns:
    """A round-robin queue of slices by bucket."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.waiting: dict[bytes | None, deque[tuple[Callable[[], object], Callable[[], object]]]] = {}
        self._scheduled = False
        self._free = 0

    def wait(self, name: bytes, call: Callable[[], object], failed: Callable[[], object]) -> None:
        """Call `call` when it is the turn of the bucket of `name`. `failed` is called after an exception."""
        self.waiting.setdefault(bucket_of(name), deque()).append((call, failed))
        self._schedule()

    def _schedule(self) -> None:
        if self.waiting and not self._scheduled:
            self._scheduled = True
            self._faults.soon(Callback.RESPONSE, self._take, failed=self._schedule_next)

    def _schedule_next(self) -> None:
        self._scheduled = False
        self._schedule()

    def slice_was_long(self) -> None:
        """Run no slice in the next turns. A slice that has used up its time calls this."""
        self._free = FREE_TURNS

    def _take(self) -> None:
        """Run a slice of the bucket that has waited longest."""
        if self._free:
            self._free -= 1
            self._schedule_next()
            return
        bucket_id = next(iter(self.waiting))
        waiting = self.waiting.pop(bucket_id)
        call, failed = waiting.popleft()
        if waiting:
            # To the end of the queue: the dictionary is in the order in which buckets have waited.
            self.waiting[bucket_id] = waiting
        # Scheduled before the call: an exception in it must not stop the queue.
        self._schedule_next()
        if self._faults.run(Callback.RESPONSE, call):
            failed()
