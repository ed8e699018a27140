"""How much of everything a run takes."""

from dataclasses import dataclass

MODES = ("memory", "acid", "file-fast", "file-durable")
DEFAULT_MODES = ("memory", "acid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes behind the aims; a quick run has smaller ones and shows only that everything works."""

    rounds: int = 5
    subscriptions: int = 10_000
    streams_each: int = 10
    seconds: float = 3.0
    rate: float = 200.0
    waking_secs: float = 5.0

    @property
    def streams(self) -> int:
        """How many streams there are."""
        return self.subscriptions * self.streams_each


FULL = Size()
QUICK = Size(rounds=1, subscriptions=100, seconds=0.2, rate=100.0, waking_secs=0.3)
