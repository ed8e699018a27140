"""How much of everything a run takes."""

from dataclasses import dataclass

MODES = ("memory", "acid", "file-fast", "file-durable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The sizes behind the aims; a quick run has smaller ones and shows only that everything works."""

    rounds: int = 5
    seconds: float = 0.5
    streams: tuple[int, ...] = (1_000, 10_000, 100_000)
    page: int = 1_000
    moved: int = 10
    messages: int = 1_000_000
    slow_bytes_per_second: float = 20e6
    skip: int = 100_000
    raw_bytes: int = 1_000_000
    snapshot_bytes: int = 100_000_000
    appending_secs: float = 2.0


FULL = Size()
QUICK = Size(
    rounds=1,
    seconds=0.1,
    streams=(100, 1_000),
    page=100,
    messages=50_000,
    slow_bytes_per_second=40e6,
    skip=1_000,
    raw_bytes=100_000,
    snapshot_bytes=4_000_000,
    appending_secs=0.5,
)
