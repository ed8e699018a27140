"""Sorted names: sorted at the first scan, and kept sorted from then on."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from sortedcontainers import SortedList


class SortedNames:
    """The order of the names in a collection, whose owner calls `add` and `remove` for each change."""

    def __init__(self, names: Collection[bytes]) -> None:
        self._names = names
        self._sorted: SortedList[bytes] | None = None

    def add(self, name: bytes) -> None:
        if self._sorted is not None:
            self._sorted.add(name)

    def remove(self, name: bytes) -> None:
        if self._sorted is not None:
            self._sorted.remove(name)

    @property
    def sorted(self) -> bool:
        """Whether the names are sorted: the first scan sorts them."""
        return self._sorted is not None

    def sort(self) -> None:
        """Sort the names now, and keep them sorted."""
        self._in_order()

    def _in_order(self) -> "SortedList[bytes]":
        if self._sorted is None:
            self._sorted = SortedList(self._names)
        return self._sorted

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Return names that begin with `prefix` and follow `after`."""
        return list(islice(self.following(prefix, after), limit))

    def following(self, prefix: bytes, after: bytes) -> Iterator[bytes]:
        """Return the names that begin with `prefix` and follow `after`. They must not change during the iteration."""
        names = self._in_order()
        start = names.bisect_left(prefix) if after < prefix else names.bisect_right(after)
        return takewhile(lambda name: name.startswith(prefix), names.islice(start))

    def count(self, prefix: bytes) -> int:
        """Count the names that begin with `prefix`, whose last byte must not be 0xFF."""
        names = self._in_order()
        behind = prefix[:-1] + bytes((prefix[-1] + 1,))
        return names.bisect_left(behind) - names.bisect_left(prefix)


class PrefixCounts:
    """A bounded cache of the number of names by prefix. Every change of the names updates the cached counts."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._counts: dict[bytes, int] = {}
        self._lengths: Counter[int] = Counter()

    def get(self, prefix: bytes) -> int | None:
        return self._counts.get(prefix)

    def put(self, prefix: bytes, count: int) -> None:
        """Cache a count, in place of the oldest one if the cache is full."""
        if len(self._counts) >= self._bound:
            oldest = next(iter(self._counts))
            del self._counts[oldest]
            self._lengths[len(oldest)] -= 1
        self._counts[prefix] = count
        self._lengths[len(prefix)] += 1

    def change(self, name: bytes, by: int) -> None:
        """Update the counts for a name that was added or removed."""
        for length in self._lengths:
            prefix = name[:length]
            if len(prefix) == length and prefix in self._counts:
                self._counts[prefix] += by
