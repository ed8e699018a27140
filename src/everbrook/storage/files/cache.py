"""A cache of bounded weight: what was not used for longest leaves first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Keeps values up to a capacity, and always the newest one."""

    def __init__(self, capacity: int, weigh: Callable[[V], int]) -> None:
        self._capacity = capacity
        self._weigh = weigh
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0

    def __len__(self) -> int:
        return len(self._kept)

    def peek(self, key: K) -> V | None:
        """Give a value without using it."""
        found = self._kept.get(key)
        return found[0] if found else None

    def use(self, key: K) -> V | None:
        """Give a value, and weigh it anew: it may have grown."""
        found = self._kept.get(key)
        if found is None:
            return None
        self.put(key, found[0])
        return found[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value, and let go of what it displaces."""
        self.forget(key)
        weight = self._weigh(value)
        self._kept[key] = (value, weight)
        self.weight += weight
        while self.weight > self._capacity and len(self._kept) > 1:
            _, (_, gone) = self._kept.popitem(last=False)
            self.weight -= gone

    def forget(self, key: K) -> None:
        """Let go of a value, if it is there."""
        found = self._kept.pop(key, None)
        if found:
            self.weight -= found[1]

    def clear(self) -> None:
        """Let go of everything."""
        self._kept.clear()
        self.weight = 0
