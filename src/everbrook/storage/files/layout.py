"""Where the files of a store lie: `streams/<xx>/<incarnation>-<segment>.log`, in 256 folders so that none grows large.

All segments of a stream are in one folder, numbered without a gap from 0, or from the first one that it has not let go.
"""

import re
from pathlib import Path

from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import BLOBS

STREAMS = "streams"

_MIX = 0x9E3779B97F4A7C15
_WORD = 1 << 64
_NAME = re.compile(r"([0-9a-f]{16})-([0-9]{8})\.log")


class Layout:
    """Names the files of a store."""

    def __init__(self, folder: Path) -> None:
        self.streams = folder / STREAMS
        self.blobs = folder / BLOBS
        self._buckets: dict[int, Path] = {}

    def bucket(self, incarnation: int) -> Path:
        """Give the folder of a stream. Incarnations begin with the time: multiplying spreads them."""
        number = ((incarnation * _MIX) % _WORD) >> 56
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = self.streams / f"{number:02x}"
        return bucket

    def segment(self, incarnation: int, number: int) -> Path:
        """Give the path of a segment."""
        return self.bucket(incarnation) / f"{incarnation:016x}-{number:08d}.log"


def parse_segment_name(name: str) -> tuple[int, int] | None:
    """Read incarnation and number of a segment out of its file name, if it is one."""
    match = _NAME.fullmatch(name)
    return (int(match[1], 16), int(match[2])) if match else None


def exists(disk: Disk, path: Path) -> bool:
    """Tell whether there is a file."""
    try:
        disk.read(path, 0, 1)
    except FileNotFoundError:
        return False
    return True


def last_segment(disk: Disk, layout: Layout, incarnation: int, known: int = 0) -> int:
    """Find the last segment of a stream that has segment `known`, without listing its folder."""
    step = 1
    while exists(disk, layout.segment(incarnation, known + step)):
        known += step
        step *= 2
    while step > 1:
        step //= 2
        if exists(disk, layout.segment(incarnation, known + step)):
            known += step
    return known


def segments_of(disk: Disk, folder: Path, incarnation: int) -> list[tuple[Path, int]]:
    """List the segments of a stream, with their numbers."""
    prefix = f"{incarnation:016x}-"
    names = [name for name in disk.names(folder) if name.startswith(prefix)]
    return [(folder / name, parsed[1]) for name in names if (parsed := parse_segment_name(name))]
