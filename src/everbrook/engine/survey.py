"""What an engine counts of its work, and how it stands at the moment, for whoever watches it."""

from msgspec import Struct

from everbrook.engine.histogram import Histogram
from everbrook.storage.checkpoints import Checkpoints

SYNC_BOUNDS_SECS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
GROUP_BOUNDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 4096.0)


class Commits:
    """The groups of changes that were made durable: how large they were, and how long the disk took."""

    __slots__ = ("refused", "sizes", "sync")

    def __init__(self) -> None:
        self.sizes = Histogram(GROUP_BOUNDS)
        self.sync = Histogram(SYNC_BOUNDS_SECS)
        self.refused = 0
        """Groups that there was no room for."""


class EngineSurvey(Struct, frozen=True):
    """An engine at a moment. `pending` counts changes that are not durable yet, `parked` the answers that wait."""

    commits: Commits
    pending: int
    pending_secs: float
    parked: int
    appended_messages: int
    appended_bytes: int
    duplicates: int
    failed: bool
    memory_bytes: int
    resident_streams: int
    checkpoints: Checkpoints | None
