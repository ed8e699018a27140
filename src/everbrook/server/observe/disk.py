"""How much room the streams take on the disk, and how much is left.

What is left is asked of the file system at once. What is taken is summed up in a thread, as a folder may hold many
files, and at most once a minute; where there are too many, nobody knows.
"""

import asyncio
import os
import shutil
from pathlib import Path
from time import monotonic

from everbrook.engine.faults import Callback, Faults
from everbrook.settings import StorageSettings

MAX_AGE_SECS = 60.0
MAX_FILES = 200_000


class DiskUse:
    """The disk that the streams of a durable mode are on."""

    def __init__(self, settings: StorageSettings, faults: Faults) -> None:
        self._faults = faults
        self._folder = Path(settings.data_dir) if settings.mode.durable else None
        self._summing: asyncio.Future[int | None] | None = None
        self._summed_at = 0.0
        self.used_bytes: int | None = None

    def free_and_size(self) -> tuple[int, int] | None:
        """Give the bytes that are left, and those that the disk has in all."""
        try:
            usage = shutil.disk_usage(self._folder) if self._folder else None
        except OSError:
            return None
        return (usage.free, usage.total) if usage else None

    def look(self) -> None:
        """Sum up in a thread what is taken, unless that was done not long ago."""
        if self._folder is None or self._summing or 0 < monotonic() - self._summed_at < MAX_AGE_SECS:
            return
        self._summing = asyncio.get_running_loop().run_in_executor(None, used_bytes_of, self._folder)
        self._summing.add_done_callback(self._faults.guarded(Callback.METRICS, self._take, self._rest))

    def _rest(self) -> None:
        self._summing = None

    def _take(self, summing: asyncio.Future[int | None]) -> None:
        self._summing = None
        self._summed_at = monotonic()
        if not summing.cancelled() and summing.exception() is None:
            self.used_bytes = summing.result()


def used_bytes_of(folder: Path) -> int | None:
    """Sum up what the files below a folder take on the disk. None if they are too many."""
    total = files = 0
    for path, _, names in os.walk(folder):
        files += len(names)
        if files > MAX_FILES:
            return None
        for name in names:
            total += _blocks_bytes(Path(path, name))
    return total


def _blocks_bytes(path: Path) -> int:
    """Count what a file takes, which is less than its length where it has holes. One that is gone takes nothing."""
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0
