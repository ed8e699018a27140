"""Token buckets: how often somebody may ask, and how much may be sent, in a time.

A bucket is one number: when it will be full again. So one that nobody has drawn from for a while is worth nothing and
can be forgotten, and a table of them is bounded: the one that was used least recently goes first. Whoever owns more
addresses than the table holds is not held by a bucket each; nor is memory.
"""

from collections import OrderedDict
from collections.abc import Hashable

MAX_BUCKETS = 65_536


class Rate:
    """So much in a second, in the long run, and as much at once as `burst_secs` bring."""

    __slots__ = ("_burst_secs", "_full_at", "_max_buckets", "_per_sec")

    def __init__(self, per_sec: float, burst_secs: float, max_buckets: int = MAX_BUCKETS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._max_buckets = max_buckets
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_secs(self, key: Hashable, now: float) -> float:
        """Tell in how many seconds something may be drawn; 0: now."""
        full_at = self._full_at.get(key)
        return 0.0 if full_at is None else max(0.0, full_at - now - self._burst_secs)

    def draw(self, key: Hashable, amount: float, now: float) -> None:
        """Draw. A bucket that is not empty gives whatever is asked, and owes it: no request is too large for ever."""
        buckets = self._full_at
        full_at = max(buckets.get(key, now), now) + amount / self._per_sec
        buckets[key] = full_at
        buckets.move_to_end(key)
        if len(buckets) > self._max_buckets:
            buckets.popitem(last=False)
