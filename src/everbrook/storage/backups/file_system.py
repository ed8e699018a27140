"""The file system of a backup: files are durable before they get their names.

On Linux one call syncs a whole file system: a sync for each of ten thousand files would slow down a server on the same
disk for a long time. Other systems sync file by file.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

from everbrook.storage.disk import sync_descriptor

# The number of concurrent syncs, which the file system combines.
_SYNCS = 8

SyncAll = Callable[[int], int]
"""Syncs the file system of a descriptor. Returns -1 after an error, which is in `errno`."""


def find_syncfs() -> SyncAll | None:
    """Return the system call that syncs a file system and reports errors; None where there is none."""
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
    return getattr(libc, "syncfs", None)


class FileSystem:
    """The file system of a folder. A test replaces the system calls to observe their order."""

    def __init__(
        self,
        folder: Path,
        *,
        sync_all: SyncAll | None,
        sync: Callable[[int], None] = sync_descriptor,
        rename: Callable[[Path, Path], None] = os.replace,
    ) -> None:
        """Open the folder. It is opened now, because `sync` reports only errors that happen after this."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._sync_all = sync_all
        self._sync = sync
        self.rename = rename

    def sync(self, files: Iterable[Path], folders: Iterable[Path]) -> None:
        """Return when files and the names in folders are on the disk."""
        if self._sync_all is None:
            with ThreadPoolExecutor(_SYNCS) as threads:
                for _ in threads.map(self.sync_path, [*files, *folders]):
                    pass
        elif self._sync_all(self._descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def sync_path(self, path: Path) -> None:
        """Return when a file, or the names in a folder, are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._sync(descriptor)
        finally:
            os.close(descriptor)

    def write(self, path: Path, data: bytes) -> None:
        """Write a file, sync it, and then rename it. The name is durable once its folder is synced."""
        draft = path.with_name(f"{path.name}.new")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            self._sync(file.fileno())
        self.rename(draft, path)

    def close(self) -> None:
        os.close(self._descriptor)


def folders_of(root: Path, names: Iterable[str]) -> list[Path]:
    """Return a folder, the folders below it with these names, and their parents up to it."""
    return sorted({root, *(root / each for name in names for each in (PurePath(name), *PurePath(name).parents))})


OpenFileSystem = Callable[[Path], FileSystem]


def open_file_system(folder: Path) -> FileSystem:
    """Open the file system of a folder."""
    return FileSystem(folder, sync_all=find_syncfs())
