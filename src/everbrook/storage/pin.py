"""Pins: a store as it is at one moment, readable while the store goes on.

The rule: what belongs to that moment stays until the pin is released. A file is removed later instead of now, and of
one that grows only what it had then is read. Whoever writes says so before it does: that is all that a pin costs.
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
"""The length of a file that was not there yet."""

Lengths = dict[Path, int]
"""How long files were at the moment of a pin that have been written to since."""


class PinnedFile(Struct, frozen=True):
    """A file of a pinned store: its path below the store's folder, and its length."""

    name: str
    size: int
    stamp: str = ""
    """As long as stamp and size of a file are the same, so are its bytes. Empty: nobody can tell without reading."""


class Pin(Protocol):
    """A store at one moment. All calls but `release` may wait for a disk and may come from any thread."""

    store: str
    """What the folder of the store is called in a data folder: `acid` or `file`."""

    released: bool
    """Whether it was released. What was read is of the pin if this is still false afterwards."""

    def folders(self) -> list[str]:
        """Give the folders that have files, below the store's own, which is ``."""

    def files(self, folder: str) -> list[PinnedFile]:
        """Give the files of a folder, sorted."""

    def read(self, name: str, start: int, size: int) -> bytes:
        """Read a part of a file. What is torn off its end meanwhile is missing; `FileNotFoundError` if all of it is."""

    def release(self) -> None:
        """Let the store go on alone. The pin must not be used any more; a second call changes nothing."""


class Hold:
    """Puts removals off while there are pins, and remembers how long files were. Any thread may call it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._lock = Lock()
        self._pinned: tuple[Lengths, ...] = ()
        self._put_off: dict[Path, None] = {}

    def begin(self) -> Lengths:
        """Keep what there is from now on."""
        lengths: Lengths = {}
        with self._lock:
            self._pinned = (*self._pinned, lengths)
        return lengths

    def end(self, lengths: Lengths) -> list[Path]:
        """Keep it for this one no more. Gives what has to be removed, if that was the last one."""
        with self._lock:
            self._pinned = tuple(each for each in self._pinned if each is not lengths)
            if self._pinned:
                return []
            put_off, self._put_off = self._put_off, {}
            return list(put_off)

    def note(self, path: Path, size: int) -> None:
        """Say how long a file is before it is written to, or that it is about to be made.

        What is below that length stays as it is, as far as something refers to it.
        """
        for lengths in self._pinned:
            lengths.setdefault(path, size)

    def remove(self, path: Path, *, later: bool = True) -> bool:
        """Remove a file that is there, now or when nobody needs it any more. Tells whether it is gone.

        Without `later` it stays where it is if there is a pin: its name may be used again before that is released.
        """
        with self._lock:
            if self._pinned and not later:
                return False
            if self._pinned:
                self._disk.read(path, 0, 1)
                self._put_off[path] = None
                return False
            self._disk.remove(path)
            return True


def pinned_files(folder: Path, name: str, lengths: Lengths) -> Iterator[tuple[str, PinnedFile]]:
    """Give the files in a folder, called `name`, as they were at the moment of a pin."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        # In this order: who writes notes the length first.
        size = lengths.get(folder / entry.name, status.st_size)
        if size != ABSENT and entry.is_file(follow_symlinks=False):
            stamp = f"{status.st_ino:x}-{status.st_mtime_ns:x}" if size == status.st_size else ""
            path = f"{name}/{entry.name}" if name else entry.name
            yield entry.name, PinnedFile(path, size, stamp)


def read_part(path: Path, start: int, size: int) -> bytes:
    """Read a part of a file; less only if it ends there."""
    with closing(OsReader(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))) as reader:
        return reader.read_at(start, size)


def subfolders(folder: Path) -> list[str]:
    """Give the names of the folders in one, sorted; none if there is no such folder."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


class OpenFile:
    """A file that a pin holds open: it stays readable when it is removed, and grows for others only."""

    def __init__(self, disk: Disk, path: Path, size: int) -> None:
        """Open a file, of which the first `size` bytes count."""
        self._reader = disk.reader(path)
        self.size = size

    def read(self, start: int, size: int) -> bytes:
        """Read a part of what it was."""
        return self._reader.read_at(start, max(0, min(size, self.size - start)))

    def close(self) -> None:
        """Let the descriptor go."""
        self._reader.close()
