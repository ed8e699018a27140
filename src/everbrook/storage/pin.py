"""Pins: a consistent snapshot of a store's files, readable while the store goes on.

The rule: the bytes of that moment stay until the pin is released. Removals of files are deferred, and a file that grows
is read up to its length at that moment. A writer notes the length of a file before it writes; a pin costs nothing else.
"""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Protocol

from msgspec import Struct

from everbrook.storage.disk import Disk, OsReader

ABSENT = -1
"""The length of a file that did not exist yet."""

Lengths = dict[Path, int]
"""The lengths, at the moment of a pin, of files that were written to since."""


class PinnedFile(Struct, frozen=True):
    """A file of a pinned store: its path below the store's folder, and its length."""

    name: str
    size: int
    stamp: str = ""
    """While the stamp and the size of a file stay the same, so do its bytes. Empty: only reading the file tells."""


class Pin(Protocol):
    """A store at one moment. All calls but `release` may wait for a disk. Any thread may call."""

    store: str
    """The name of the store's folder in a data folder: `acid` or `file`."""

    released: bool
    """Whether the pin was released. Bytes that were read belong to the pin if this is still false afterwards."""

    def folders(self) -> list[str]:
        """Give the folders that have files, as paths below the store's own folder, which is the empty path."""

    def files(self, folder: str) -> list[PinnedFile]:
        """Give the files of a folder, sorted."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Read a part of a file; fewer bytes if the file was truncated. Raises `FileNotFoundError` if it is missing."""

    def release(self) -> None:
        """End the pin, which must not be used any more. A second call does nothing."""


class Hold:
    """Defers removals while there are pins, and notes the lengths of files. Any thread may call it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = Lock()
        self._pinned: tuple[Lengths, ...] = ()
        self._deferred: dict[Path, None] = {}

    def begin(self) -> Lengths:
        """Begin to defer removals for a pin. Gives the table for the lengths of files at this moment."""
        lengths: Lengths = {}
        with self._lock:
            self._pinned = (*self._pinned, lengths)
        return lengths

    def end(self, lengths: Lengths) -> list[Path]:
        """End that for a pin. Gives the files to remove if it was the last pin."""
        with self._lock:
            self._pinned = tuple(each for each in self._pinned if each is not lengths)
            if self._pinned:
                return []
            deferred, self._deferred = self._deferred, {}
            return list(deferred)

    def note(self, path: Path, size: int) -> None:
        """Note the length of a file before a write to it, or `ABSENT` before it is made.

        A writer never changes bytes below that length to which something refers.
        """
        for lengths in self._pinned:
            lengths.setdefault(path, size)

    def remove(self, path: Path, *, later: bool = True) -> bool:
        """Remove a file that exists, or defer the removal until the last pin is released. Tells whether it is removed.

        Without `later` the removal is not deferred, and the file stays if there is a pin: its name may be used again
        before the pin is released.
        """
        with self._lock:
            if self._pinned and not later:
                return False
            if self._pinned:
                # This raises `FileNotFoundError` now, as a removal would.
                self._disk.read(path, 0, 1)
                self._deferred[path] = None
                return False
            self._disk.remove(path)
            return True


def pinned_files(folder: Path, name: str, lengths: Lengths) -> Iterator[tuple[str, PinnedFile]]:
    """Give the files in a folder as they were at the moment of a pin. `name` is its path below the store's folder."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        # The length is looked up after `stat`: a writer notes it before it writes, so a grown file is in `lengths`.
        size = lengths.get(folder / entry.name, status.st_size)
        if size != ABSENT and entry.is_file(follow_symlinks=False):
            stamp = f"{status.st_ino:x}-{status.st_mtime_ns:x}" if size == status.st_size else ""
            path = f"{name}/{entry.name}" if name else entry.name
            yield entry.name, PinnedFile(path, size, stamp)


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read a part of a file; fewer bytes only if the file ends."""
    with closing(OsReader(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))) as reader:
        return reader.read_at(start, size)


def subfolders(folder: Path) -> list[str]:
    """Give the names of the folders in a folder, sorted; none if it is missing."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


class OpenFile:
    """A file that a pin keeps open: it stays readable when it is removed, and its length is fixed."""

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        """Open a file, of which the first `size` bytes belong to the pin."""
        self._reader = disk.reader(path)
        self.size = size

    def read(self, start: int, size: int) -> bytes:
        return self._reader.read_at(start, max(0, min(size, self.size - start)))

    def close(self) -> None:
        self._reader.close()
