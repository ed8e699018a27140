"""Token buckets: bound the rate of requests or bytes by key.

A bucket is one number: the time at which it will be full again. A full bucket needs no entry, and the table is bounded:
the least recently used bucket is dropped first. So memory stays bounded, at the price that a client with more addresses
than the table has entries escapes its buckets.
"""

from collections import OrderedDict
from collections.abc import Hashable

MAX_BUCKETS = 65_536


class Rate:
    """A table of token buckets. Each is refilled by `per_sec` and holds what `burst_secs` bring."""

    __slots__ = ("_burst_secs", "_full_at", "_max_buckets", "_per_sec")

    def __init__(self, per_sec: float, burst_secs: float, max_buckets: int = MAX_BUCKETS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._max_buckets = max_buckets
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_secs(self, key: Hashable, now: float) -> float:
        """Tell in how many seconds a draw is allowed; 0: now."""
        full_at = self._full_at.get(key)
        return 0.0 if full_at is None else max(0.0, full_at - now - self._burst_secs)

    def draw(self, key: Hashable, amount: float, now: float) -> None:
        """Draw an amount. A bucket may go into debt, so that a request larger than a full bucket is possible too."""
        buckets = self._full_at
        full_at = max(buckets.get(key, now), now) + amount / self._per_sec
        buckets[key] = full_at
        buckets.move_to_end(key)
        if len(buckets) > self._max_buckets:
            buckets.popitem(last=False)
