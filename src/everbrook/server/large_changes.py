"""Large changes: how much of them a bucket may have on its way to the disk.

Changes that wait form one group, and all of its answers wait for its last byte. So a tenant who appends megabytes waits
for its own changes before its next one is decided, and the small changes of others are in the group before it. The base
surface counts as one bucket.
"""

from collections import deque

from everbrook.engine.engine import Engine
from everbrook.protocol.path import bucket_of

SHARE_BYTES = 4 * 1024 * 1024
"""About what a slow disk takes in a tenth of a second. A change that is larger goes alone."""


class LargeChanges:
    """Knows the large changes of each bucket that are not durable yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._under_way: dict[bytes | None, deque[tuple[int, int]]] = {}

    def to_wait_for(self, name: bytes, size: int) -> int | None:
        """Give the change that has to be durable before one of `size` bytes is decided, if there is one."""
        under_way = self._under_way.get(bucket_of(name))
        if not under_way or size + sum(each for _, each in under_way) <= SHARE_BYTES:
            return None
        return under_way[0][0]

    def note(self, name: bytes, size: int) -> None:
        """Count the newest change until it is durable or has failed."""
        bucket_id, change = bucket_of(name), self._engine.last_change
        self._under_way.setdefault(bucket_id, deque()).append((change, size))
        self._engine.when_durable(change, lambda _: self._forget(bucket_id))

    def _forget(self, bucket_id: bytes | None) -> None:
        under_way = self._under_way[bucket_id]
        under_way.popleft()
        if not under_way:
            del self._under_way[bucket_id]
