"""The disk of the file system, with everything that is done to it recorded on a tape.

Folders that are made behind its back are noticed when something is done in them, so that a name that nobody synced is
known to be unsafe.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path

from everbrook.storage import OsDisk
from everbrook.storage.disk import File, Lock
from tests.crash.simulation.image import Image
from tests.crash.simulation.operations import (
    Allocated,
    Committed,
    Created,
    Cut,
    FolderSynced,
    Made,
    Operation,
    Removed,
    Renamed,
    Synced,
    SyncFailed,
    Wrote,
)
from tests.crash.simulation.tape import DiskState, Tape

Alters = Callable[[Operation], Operation | None]
"""What a disk with a bug makes of an operation: another one, or none."""


def alters_nothing(operation: Operation) -> Operation:
    return operation


class RecordingFile:
    """A file that tells what is done to it."""

    def __init__(self, file: File, number: int, disk: "RecordingDisk") -> None:
        self.disk = disk
        self._file = file
        self._number = number
        self.size = self._allocated = file.size

    def write(self, data: bytes) -> None:
        self.write_at(self.size, data)

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        fitting = self.disk.fitting(len(data))
        self._file.write_at(position, data[:fitting])
        self.size = self._file.size
        full, failing = fitting < len(data), sync and self.disk.syncs_fail
        self.disk.record(Wrote(self._number, position, bytes(data[:fitting]), synced=sync and not full and not failing))
        if failing:
            self.sync()
        if full:
            if position < self._allocated:
                # A disk that copies on write may lack the room even here. Then it is found elsewhere.
                self.disk.room_bytes = None
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def allocate(self, size: int) -> None:
        fitting = self.disk.fitting(size - self.size)
        self._file.truncate(self.size + fitting)
        self.size = self._file.size
        self.disk.record(Allocated(self._number, self.size))
        if self.size < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        if self.disk.syncs_fail:
            self.disk.record(SyncFailed(self._number))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.disk.record(Synced(self._number))

    def truncate(self, size: int) -> None:
        self._file.truncate(size)
        self.size = size
        self.disk.record(Cut(self._number, size))

    def close(self) -> None:
        if self in self.disk.open_files:
            self.disk.open_files.remove(self)
            self._file.close()


class HeldLock:
    """A lock that the disk can release, as the end of a process does."""

    def __init__(self, lock: Lock, held: "list[HeldLock]") -> None:
        self._lock = lock
        self._held = held
        held.append(self)

    def release(self) -> None:
        self._held.remove(self)
        self._lock.release()


class RecordingDisk(OsDisk):
    """A disk that records. What it `alters` it only pretends to have done."""

    def __init__(
        self, root: Path, tape: Tape, before: DiskState, present: Image, alters: Alters = alters_nothing
    ) -> None:
        """Record on a tape what is done to a folder, which holds `present`, one of the images that `before` allows."""
        self.root = root
        self.tape = tape
        self.open_files: list[RecordingFile] = []
        self.room_bytes: int | None = None
        """How much can be written before the disk is full, if that is to happen."""
        self.syncs_fail = False
        self._alters = alters
        self._locks: list[HeldLock] = []
        self._folders = {Path(), *present.folders}
        self._places: dict[Path, Path] = {}
        self._numbers = before.numbers()
        self._next = max([*self._numbers.values(), *before.files()], default=-1) + 1
        self._images = {number: present.files[path] for path, number in self._numbers.items()}

    def record(self, operation: Operation) -> None:
        altered = self._alters(operation)
        if altered:
            self.tape.operations.append(altered)

    def fitting(self, size: int) -> int:
        """Take the room for a write. Gives how much of it there is."""
        if self.room_bytes is None:
            return size
        fitting = min(size, self.room_bytes)
        self.room_bytes -= fitting
        return fitting

    def _place(self, path: Path) -> Path:
        """Give a path as it is on the tape, its folders noticed."""
        folder = self._places.get(path.parent)
        if folder is None:
            place = path.relative_to(self.root)
            for each in reversed(place.parents):
                self._notice(each)
            if path == self.root:
                return place
            folder = self._places[path.parent] = place.parent
        return folder / path.name

    def _notice(self, folder: Path) -> None:
        if folder not in self._folders:
            self._folders.add(folder)
            self.record(Made(folder))

    def _number(self, place: Path) -> int:
        """Give a new file its number."""
        number = self._numbers[place] = self._next
        self._next += 1
        self.record(Created(place, number))
        return number

    def _opened(self, file: File, number: int) -> File:
        opened = RecordingFile(file, number, self)
        self.open_files.append(opened)
        return opened

    def create(self, path: Path) -> File:
        file = super().create(path)
        return self._opened(file, self._number(self._place(path)))

    def open(self, path: Path) -> File:
        return self._opened(super().open(path), self._numbers[self._place(path)])

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        old, new = self._place(source), self._place(target)
        assert old.parent == new.parent, "files are renamed within a folder"
        self._numbers[new] = self._numbers.pop(old)
        self.record(Renamed(old, new, self._numbers[new]))

    def remove(self, path: Path) -> None:
        super().remove(path)
        place = self._place(path)
        del self._numbers[place]
        self.record(Removed(place))

    def sync_folder(self, folder: Path) -> None:
        place = self._place(folder)
        self._notice(place)
        for name in sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()):
            self._notice(place / name)
        self.record(FolderSynced(place))

    def committed(self, path: Path, *, synced: bool = True, applied: int = 0) -> None:
        """Record what a database has made of its file."""
        place, image = self._place(path), path.read_bytes()
        number = self._numbers[place] if place in self._numbers else self._number(place)
        if self._images.get(number) != image:
            self._images[number] = image
            self.record(Committed(number, image, synced, applied))

    def lock(self, path: Path) -> Lock:
        return HeldLock(super().lock(path), self._locks)

    def abandon(self) -> None:
        """Let the descriptors and locks go, as the end of a process does."""
        for file in list(self.open_files):
            file.close()
        for lock in list(self._locks):
            lock.release()
