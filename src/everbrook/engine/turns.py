"""Turns of long work: a slice in each turn of the loop, however many do long work at once, or have asked for much.

If each of them took a slice in every turn, a turn would last as long as all of those together, and a tenant would make
others wait by asking over many connections. Buckets take turns with each other; the base surface counts as one.
"""

from collections import deque
from collections.abc import Callable

from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.path import bucket_of


class Turns:
    """Whoever has another slice of long work to do waits here."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._waiting: dict[bytes | None, deque[tuple[Callable[[], object], Callable[[], object]]]] = {}
        self._scheduled = False

    @property
    def waited_for(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def wait(self, name: bytes, call: Callable[[], object], failed: Callable[[], object]) -> None:
        """Call when the turn has come of work on a name. `failed` is called after an exception."""
        self._waiting.setdefault(bucket_of(name), deque()).append((call, failed))
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._faults.soon(Callback.RESPONSE, self._take, failed=self._go_on)

    def _go_on(self) -> None:
        self._scheduled = False
        self._schedule()

    def _take(self) -> None:
        """Take a slice of the bucket that has waited longest."""
        bucket_id = next(iter(self._waiting))
        waiting = self._waiting.pop(bucket_id)
        call, failed = waiting.popleft()
        if waiting:
            # Behind the others.
            self._waiting[bucket_id] = waiting
        self._go_on()
        if self._faults.run(Callback.RESPONSE, call):
            failed()
