"""Listing: the names of a store in order, those in memory before those on the shelf.

How many names begin with a prefix is counted once, and kept up from then on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from everbrook.protocol.change import Edit, Write
from everbrook.protocol.state import Head
from everbrook.storage.acid.layers import Layers
from everbrook.storage.acid.shelf import ShelfGlance

# Stands for a stream whose name is damaged. None has this incarnation.
UNKNOWN = 0


class Counts:
    """How many names begin with each of some prefixes."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._counts: dict[bytes, int] = {}
        self._lengths: Counter[int] = Counter()

    def get(self, prefix: bytes) -> int | None:
        """Give a count that is known."""
        return self._counts.get(prefix)

    def put(self, prefix: bytes, count: int) -> None:
        """Keep a count from now on, in place of the oldest one if there are many."""
        if len(self._counts) >= self._bound:
            oldest = next(iter(self._counts))
            del self._counts[oldest]
            self._lengths[len(oldest)] -= 1
        self._counts[prefix] = count
        self._lengths[len(prefix)] += 1

    def follow(self, edit: Edit) -> None:
        """Count a stream that came or went."""
        if not isinstance(edit, Write):
            self._change(edit.head.identity.name, -1)
        elif edit.created:
            self._change(edit.head.identity.name, 1)

    def _change(self, name: bytes, by: int) -> None:
        for length in self._lengths:
            prefix = name[:length]
            if len(prefix) == length and prefix in self._counts:
                self._counts[prefix] += by


class Listing(Layers):
    """Gives names in order, with their heads."""

    _counts: Counts

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        with self._shelf.glance() as glance:
            found = islice(self._names(glance, prefix, after), limit)
            return [(name, self._glimpse(glance, incarnation)) for name, incarnation in found]

    def _names(self, glance: ShelfGlance, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int]]:
        """Give the names that are taken, and whose they are. Of a name in several layers the newest one tells."""
        layers = [_aged(age, layer.named(prefix, after)) for age, layer in enumerate(self._layers())]
        shelved = ((name, holder or UNKNOWN) for name, holder in glance.names(prefix, after))
        last = None
        for name, _, incarnation in merge(*layers, _aged(len(layers), shelved)):
            if name != last and incarnation is not None:
                yield name, incarnation
            last = name

    def _glimpse(self, glance: ShelfGlance, incarnation: int) -> Head | None:
        if incarnation in self._damaged:
            return None
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
        return glance.head(incarnation)

    def count(self, prefix: bytes) -> int:
        known = self._counts.get(prefix)
        if known is None:
            known = self._count(prefix)
            self._counts.put(prefix, known)
        return known

    def _count(self, prefix: bytes) -> int:
        recent: dict[bytes, int | None] = {}
        for layer in reversed(self._layers()):
            recent.update(layer.named(prefix, b""))
        with self._shelf.glance() as glance:
            shelved = glance.count_without(prefix, recent.keys())
        return shelved + sum(incarnation is not None for incarnation in recent.values())


def _aged(age: int, names: Iterable[tuple[bytes, int | None]]) -> Iterator[tuple[bytes, int, int | None]]:
    """Let names be sorted by their layers if they are the same."""
    return ((name, age, holder) for name, holder in names)
