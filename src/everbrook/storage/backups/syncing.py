"""Syncing many files at once: on Linux their whole file system in one call, elsewhere file by file.

Ten thousand syncs, one for each file, would get into the way of a server on the same disk for a long time.
"""

import ctypes
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# So many syncs at once: the file system does them together.
_SYNCS = 8


class Syncing:
    """Syncs what is written from its beginning on: an error of the disk since then is one of `sync`."""

    def __init__(self, folder: Path) -> None:
        """Take the file system that a folder is on."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._sync_file_system = getattr(libc, "syncfs", None)

    def sync(self, files: Iterable[Path], folders: Iterable[Path]) -> None:
        """Return when files and the names in folders are on the disk."""
        if self._sync_file_system is None:
            with ThreadPoolExecutor(_SYNCS) as threads:
                for _ in threads.map(sync_path, [*files, *folders]):
                    pass
        elif self._sync_file_system(self._descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def close(self) -> None:
        """Let the descriptor go."""
        os.close(self._descriptor)


def sync_path(path: Path) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
