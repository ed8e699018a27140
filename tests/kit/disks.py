"""A disk for tests: it writes down what is done to it, stops at a given step, or runs out of room."""

import errno
import os
from pathlib import Path

from everbrook.storage import OsDisk
from everbrook.storage.disk import File


class Stopped(BaseException):
    """The process ended here."""


def no_room() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Room:
    """The room on a disk."""

    room_bytes: int | None = None
    """How much can be written or allocated before the disk is full. A write that does not fit is torn."""

    def take(self, size: int) -> int:
        """Give as much room as there is."""
        if self.room_bytes is None:
            return size
        taken = min(size, self.room_bytes)
        self.room_bytes -= taken
        return taken


class FileAbove:
    """A file on top of another one."""

    def __init__(self, file: File) -> None:
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    @size.setter
    def size(self, value: int) -> None:
        self._file.size = value

    def write(self, data: bytes) -> None:
        self.write_at(self._file.size, data)

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        self._file.write_at(position, data, sync=sync)

    def allocate(self, size: int) -> None:
        self._file.allocate(size)

    def sync(self) -> None:
        self._file.sync()

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def close(self) -> None:
        self._file.close()


class WatchedFile(FileAbove):
    """A file whose steps are written down. It is never really synced."""

    def __init__(self, disk: "WatchedDisk", path: Path, file: File) -> None:
        super().__init__(file)
        self._disk = disk
        self._path = path
        disk.open_files.add(self)

    def renamed(self, source: Path, target: Path) -> None:
        """Be called by another name from now on, if it is this one."""
        self._path = target if self._path == source else self._path

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        """Write as much as there is room for: that of what was allocated is taken already, unless the disk copies."""
        assert self in self._disk.open_files
        self._disk.step("write", self._path)
        new = position + len(data) > self._file.size or self._disk.copies
        taken = self._disk.take(len(data)) if new and any(data) else len(data)
        self._file.write_at(position, data[:taken])
        if taken < len(data):
            raise no_room()
        if sync:
            self.sync()

    def allocate(self, size: int) -> None:
        self._disk.step("allocate", self._path)
        if self._disk.take(size) < size:
            raise no_room()
        self._file.allocate(size)

    def sync(self) -> None:
        assert self in self._disk.open_files
        self._disk.step("sync", self._path)
        self._disk.check_sync(self._path)

    def truncate(self, size: int) -> None:
        self._disk.step("truncate", self._path)
        super().truncate(size)

    def close(self) -> None:
        self._disk.open_files.discard(self)
        super().close()


class WatchedDisk(OsDisk, Room):
    """The file system, watched."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, Path]] = []
        self.steps_left: int | None = None
        self.copies = False
        """Whether writing again needs room again, as where a file system copies what is written."""
        self.sync_error: int | None = None
        self.fails_sync_of = ""
        """The name of a folder: the next sync of a file below it fails."""
        self.open_files: set[WatchedFile] = set()
        self.most_open = 0

    def abandon(self) -> None:
        """Close what is open, as the end of a process does."""
        for file in list(self.open_files):
            file.close()

    def step(self, kind: str, path: Path) -> None:
        """Write a step down, or stop before it."""
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise Stopped
            self.steps_left -= 1
        self.steps.append((kind, path))

    def check_sync(self, path: Path) -> None:
        """Let the next sync fail, once: a disk that failed may well succeed when it is asked again."""
        if self.fails_sync_of in path.parts:
            self.fails_sync_of, self.sync_error = "", errno.EIO
        error, self.sync_error = self.sync_error, None
        if error is not None:
            raise OSError(error, os.strerror(error))

    def synced(self) -> list[Path]:
        """Give what was synced, in order."""
        return [path for kind, path in self.steps if kind == "sync"]

    def _watch(self, path: Path, file: File) -> File:
        watched = WatchedFile(self, path, file)
        self.most_open = max(self.most_open, len(self.open_files))
        return watched

    def create(self, path: Path) -> File:
        self.step("create", path)
        return self._watch(path, super().create(path))

    def open(self, path: Path) -> File:
        return self._watch(path, super().open(path))

    def rename(self, source: Path, target: Path) -> None:
        self.step("rename", target)
        super().rename(source, target)
        for file in self.open_files:
            file.renamed(source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self.step("remove", path)
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self.step("sync", folder)
        self.check_sync(Path())
