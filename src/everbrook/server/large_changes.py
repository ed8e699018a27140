"""Large changes: how much of them a bucket may have on its way to the disk, and how much of the disk's time they take.

Changes that wait form one group, and all of its answers wait for its last byte. So a tenant who appends megabytes waits
for its own changes before its next one is decided, and the small changes of others are in the group before it. While
others write, it waits three times as long as its change took. The base surface counts as one bucket.
"""

from collections import deque
from collections.abc import Callable

from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.path import bucket_of
from everbrook.server.slices import Wait

SHARE_BYTES = 4 * 1024 * 1024
"""About what a slow disk takes in a tenth of a second. A change that is larger goes alone."""
PAUSE = 3
"""A quarter of the time is for the large changes of a bucket while others write."""


class UnderWay(Struct, frozen=True):
    """A large change that is not durable yet."""

    change: int
    size: int
    begun: float


class LargeChanges:
    """Knows the large changes of each bucket that are not durable yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._under_way: dict[bytes | None, deque[UnderWay]] = {}
        self._pausing: dict[bytes | None, list[Callable[[], None]]] = {}

    def wait(self, name: bytes, size: int) -> Wait | None:
        """Give what a change of `size` bytes has to wait for before it is decided, if there is something."""
        bucket_id = bucket_of(name)
        if bucket_id in self._pausing:
            return self._pausing[bucket_id].append
        under_way = self._under_way.get(bucket_id)
        if not under_way or size + sum(each.size for each in under_way) <= SHARE_BYTES:
            return None
        first = under_way[0].change
        # Whatever becomes of it. Who waits goes on in a turn of its own: the next group is on its way by then.
        return lambda go_on: self._engine.when_durable(first, lambda _: go_on())

    def note(self, name: bytes, size: int) -> None:
        """Count the newest change until it is durable or has failed."""
        bucket_id, change = bucket_of(name), self._engine.last_change
        noted = UnderWay(change, size, self._engine.clock.elapsed())
        self._under_way.setdefault(bucket_id, deque()).append(noted)
        self._engine.when_durable(change, lambda _: self._forget(bucket_id))

    def _forget(self, bucket_id: bytes | None) -> None:
        under_way = self._under_way[bucket_id]
        done = under_way.popleft()
        by_others = self._engine.last_change - done.change - len(under_way)
        if by_others and bucket_id not in self._pausing:
            self._pausing[bucket_id] = []
            pause_secs = PAUSE * (self._engine.clock.elapsed() - done.begun)
            self._engine.faults.later(Callback.RESPONSE, pause_secs, self._end_pause, bucket_id)
        if not under_way:
            del self._under_way[bucket_id]

    def _end_pause(self, bucket_id: bytes | None) -> None:
        for go_on in self._pausing.pop(bucket_id):
            go_on()
