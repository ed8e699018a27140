"""What a server takes while it runs: memory of its own and open files, looked at again and again, and judged.

Memory is what no file is behind: pages of a database that is mapped come and go as the system likes.
"""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

MB = 2**20
# So much may memory grow in the time that it is judged in: what a collector has not taken yet, and fragments.
MIN_GROWTH_BYTES = 12 * MB
GROWTH = 0.06
MANY_FILES = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look has found."""

    at: float
    memory_bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Growth:
    """How memory and files went over a time, by a line through all looks."""

    secs: float
    level_bytes: float
    bytes_per_min: float
    files_first: float
    files_last: float

    @property
    def bytes(self) -> float:
        """By how much memory grew."""
        return self.bytes_per_min * self.secs / 60

    def judge(self) -> str:
        """Say what is wrong with it, or nothing."""
        if self.bytes > max(MIN_GROWTH_BYTES, GROWTH * self.level_bytes):
            return (
                f"memory grew by {self.bytes / MB:.1f} MB in {self.secs:.0f} s, from about {self.level_bytes / MB:.0f}"
            )
        if self.files_last - self.files_first > MANY_FILES:
            return f"open files went from {self.files_first:.0f} to {self.files_last:.0f}"
        return ""

    def __str__(self) -> str:
        return (
            f"memory {self.level_bytes / MB:.0f} MB, {self.bytes_per_min / 1024:+.0f} kB/min over {self.secs:.0f} s; "
            f"open files {self.files_first:.0f} to {self.files_last:.0f}"
        )


def look(process: int) -> Sample:
    """Look at a process."""
    folder = Path("/proc") / str(process)
    lines = (folder / "status").read_text().splitlines()
    own_kb = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return Sample(time.monotonic(), own_kb * 1024, len(list((folder / "fd").iterdir())))


def growth(samples: list[Sample]) -> Growth:
    """Lay a line through the looks. The files are the medians of the first and of the last quarter."""
    line = statistics.linear_regression(
        [sample.at for sample in samples], [float(sample.memory_bytes) for sample in samples]
    )
    quarter = max(1, len(samples) // 4)
    return Growth(
        samples[-1].at - samples[0].at,
        statistics.mean(sample.memory_bytes for sample in samples),
        line.slope * 60,
        statistics.median(sample.files for sample in samples[:quarter]),
        statistics.median(sample.files for sample in samples[-quarter:]),
    )
