"""Names in order: sorted when they are first asked for in order, and kept so from then on."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import islice, takewhile

from sortedcontainers import SortedList


class Names:
    """The order of the names in a collection that somebody else keeps, and tells of what comes and goes."""

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
        """Whether they have been sorted, and are kept so."""
        return self._sorted is not None

    def sort(self) -> None:
        """Sort them now, while they are few."""
        self._in_order()

    def _in_order(self) -> "SortedList[bytes]":
        if self._sorted is None:
            self._sorted = SortedList(self._names)
        return self._sorted

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[bytes]:
        """Give names that begin with `prefix` and follow `after`."""
        return list(islice(self.following(prefix, after), limit))

    def following(self, prefix: bytes, after: bytes) -> Iterator[bytes]:
        """Go through the names that begin with `prefix` and follow `after`. None may come or go meanwhile."""
        names = self._in_order()
        start = names.bisect_left(prefix) if after < prefix else names.bisect_right(after)
        return takewhile(lambda name: name.startswith(prefix), names.islice(start))

    def count(self, prefix: bytes) -> int:
        """Count the names that begin with `prefix`, which does not end with the last of all bytes."""
        names = self._in_order()
        behind = prefix[:-1] + bytes((prefix[-1] + 1,))
        return names.bisect_left(behind) - names.bisect_left(prefix)


class Counts:
    """A bounded cache: how many names begin with a prefix. Each is counted once, and then updated with every change."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._counts: dict[bytes, int] = {}
        self._lengths: Counter[int] = Counter()

    def get(self, prefix: bytes) -> int | None:
        return self._counts.get(prefix)

    def put(self, prefix: bytes, count: int) -> None:
        """Keep a count from now on, in place of the oldest one if there are many."""
        if len(self._counts) >= self._bound:
            oldest = next(iter(self._counts))
            del self._counts[oldest]
            self._lengths[len(oldest)] -= 1
        self._counts[prefix] = count
        self._lengths[len(prefix)] += 1

    def change(self, name: bytes, by: int) -> None:
        """Count a name that came or went."""
        for length in self._lengths:
            prefix = name[:length]
            if len(prefix) == length and prefix in self._counts:
                self._counts[prefix] += by
