"""Statistics of an engine, for metrics and tests: its counters, and the sizes of its parts."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from msgspec import Struct

from everbrook.engine.faults import Callback
from everbrook.storage.api import Checkpoints

SYNC_BOUNDS_SECS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
GROUP_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)


class Histogram:
    """Counts values by the first bound that they do not exceed. The last count has the values beyond all bounds."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` must increase."""
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """The number of values."""
        return sum(self.counts)


class Commits:
    """The groups of changes that were made durable: how large they were, and how long the disk took."""

    __slots__ = ("refused", "sizes", "sync")

    def __init__(self) -> None:
        self.sizes = Histogram(GROUP_BOUNDS)
        self.sync = Histogram(SYNC_BOUNDS_SECS)
        self.refused = 0
        """The number of groups that were refused for want of room."""


class Watched(Struct, frozen=True, kw_only=True):
    """The streams that are watched for a deadline."""

    streams: int
    entries: int
    """The number of entries in the queue, stale ones included."""
    next_at: int | None
    """The earliest deadline in the queue."""
    slices: int = 0
    """The number of slices that were processed."""


class EngineStats(Struct, frozen=True, kw_only=True):
    """The statistics of one moment. To take them costs the same for any number of streams."""

    commits: Commits
    pending: int
    """How many changes are not durable yet."""
    pending_secs: float
    parked: int
    """How many responses wait for changes to become durable."""
    appended_messages: int
    appended_bytes: int
    duplicates: int
    failed: bool
    stalled: bool
    """Whether changes have waited for unusually long without any of them becoming durable."""
    faults: Mapping[Callback, int]
    """Exceptions in callbacks, which stopped nothing else."""
    damaged_streams: int
    """How many stored streams are known to be damaged."""
    memory_bytes: int
    loaded_bytes: int
    """About how much memory the loaded streams and their producers take."""
    checkpoints: Checkpoints | None
    resident_streams: int
    """How many streams are in memory with a durable state, the one that readers see."""
    newest_streams: int
    """How many streams are in memory with a newest state, the one that decisions see."""
    arriving_streams: int
    """How many streams were created by pending changes."""
    held_streams: int
    """How many streams discard nothing at present, because a bootstrap reads them."""
    changed_streams: int
    """How many streams are remembered as recently changed."""
    expiring: Watched
    trimming: Watched
