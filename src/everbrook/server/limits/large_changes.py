"""Large changes: the limits on the disk's bandwidth and time that the large changes of one bucket get.

Pending changes form one group, and all responses of a group wait for its last byte. So the next large change of a
bucket is decided only when its earlier ones are durable, and the small changes of others go into the groups between
them. If other changes were decided meanwhile, the bucket pauses for three times as long as its change took. The base
surface counts as one bucket.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct, field

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.path import bucket_of
from everbrook.server.deferred import Wait

SHARE_BYTES = 4 * 1024 * 1024
"""About what a slow disk writes in a tenth of a second. A change that is larger is never pending with another one."""
PAUSE = 3
"""While other changes are decided, the large changes of a bucket get a quarter of the time."""
MAX_PAUSE_SECS = 1.0
"""Bounds the pause after a disk has stalled: otherwise the client would wait several times as long as the stall."""


class LargeChange(Struct, frozen=True):
    """A large change that is not durable yet."""

    number: int
    size: int
    begun: float


class Share(Struct):
    """The large changes of a bucket that are not durable yet, and the requests that wait for room."""

    pending: deque[LargeChange] = field(default_factory=deque)
    waiting: list[Callable[[], None]] = field(default_factory=list)
    pausing: bool = False
    deciding: bool = False

    def admits(self, size: int) -> bool:
        """Tell whether a change of `size` bytes may be decided now."""
        if self.pausing or self.deciding:
            return False
        return not self.pending or size + sum(each.size for each in self.pending) <= SHARE_BYTES

    def resume(self) -> None:
        """Let the waiting requests try again. Each of them waits for a turn of its own first."""
        waiting, self.waiting = self.waiting, []
        for go_on in waiting:
            go_on()


class LargeChanges:
    """The large changes of all buckets that are not durable yet."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._shares: dict[bytes | None, Share] = {}

    def wait(self, name: bytes, size: int) -> Wait | None:
        """Return what a change of `size` bytes must wait for, or None if it may be decided now."""
        share = self._shares.get(bucket_of(name))
        return None if share is None or share.admits(size) else share.waiting.append

    @contextmanager
    def deciding(self, name: bytes) -> Iterator[None]:
        """Make other large changes of the bucket wait while one of them is decided, which may take several turns."""
        bucket_id = bucket_of(name)
        share = self._shares.setdefault(bucket_id, Share())
        share.deciding = True
        try:
            yield
        finally:
            share.deciding = False
            self._release(bucket_id)

    def note(self, name: bytes, size: int) -> None:
        """Count the newest change until it is durable or has failed."""
        bucket_id, number = bucket_of(name), self._engine.last_change
        share = self._shares.setdefault(bucket_id, Share())
        share.pending.append(LargeChange(number, size, self._engine.clock.elapsed()))
        self._engine.when_durable(number, lambda _: self._forget(bucket_id))

    def _forget(self, bucket_id: bytes | None) -> None:
        share = self._shares[bucket_id]
        done = share.pending.popleft()
        others = self._engine.last_change - done.number - len(share.pending)
        # Without changes of others the bucket may use all of the disk's time.
        if others and not share.pausing:
            share.pausing = True
            pause_secs = PAUSE * (self._engine.clock.elapsed() - done.begun)
            self._engine.faults.later(Callback.RESPONSE, min(pause_secs, MAX_PAUSE_SECS), self._end_pause, bucket_id)
        self._release(bucket_id)

    def _end_pause(self, bucket_id: bytes | None) -> None:
        self._shares[bucket_id].pausing = False
        self._release(bucket_id)

    def _release(self, bucket_id: bytes | None) -> None:
        share = self._shares[bucket_id]
        if not share.pausing and not share.deciding:
            share.resume()
            if not share.pending:
                del self._shares[bucket_id]
