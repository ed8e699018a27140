"""Histograms: how often a value fell between two bounds. Plain numbers, which somebody else reads when asked."""

from bisect import bisect_left
from collections.abc import Sequence


class Histogram:
    """Counts values by the first bound that they do not exceed; the last count is of those beyond all bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Take bounds in rising order."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)
