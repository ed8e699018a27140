"""A disk with faults: a sync that fails, or a quota, on top of the real file system."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from everbrook.storage import OsDisk
from everbrook.storage.disk import File
from everbrook.storage.file_blobs import BLOBS
from tests.kit.disks import FileAbove, Room, no_room
from tests.kit.wire import Wire

FILLER = "/v1/stream/filler"


@dataclass
class Faults(Room):
    """What is wrong with a disk, from now on."""

    sync_error: int | None = None
    """The error of every sync."""
    syncs_before_error: int = 0
    """How many syncs still work before that."""
    room_bytes: int | None = None
    torn_bytes: int | None = None
    """How much of the next write to allocated room is done, before a disk that copies on write finds itself full."""
    refused_syncs: int = field(default=0, init=False)

    def sync(self) -> None:
        """Let a sync pass, or not."""
        if self.sync_error is None:
            return
        if self.syncs_before_error:
            self.syncs_before_error -= 1
            return
        self.refused_syncs += 1
        raise OSError(self.sync_error, os.strerror(self.sync_error))


class FaultyFile(FileAbove):
    """A file on such a disk."""

    def __init__(self, file: File, faults: Faults) -> None:
        super().__init__(file)
        self._faults = faults

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        allocated = self._file.size - position
        grown = max(0, len(data) - allocated)
        taken = len(data) - grown + self._faults.take(grown)
        if self._faults.torn_bytes is not None and not grown:
            taken, self._faults.torn_bytes = self._faults.torn_bytes, None
        self._file.write_at(position, data[:taken])
        if taken < len(data):
            raise no_room()
        if sync:
            self.sync()

    def allocate(self, size: int) -> None:
        taken = self._faults.take(size - self._file.size)
        if self._file.size + taken < size:
            raise no_room()
        self._file.allocate(size)

    def sync(self) -> None:
        self._faults.sync()
        super().sync()


class FaultyDisk(OsDisk):
    """The file system, with faults. Those of the files that hold snapshots, and of their folders, are others."""

    def __init__(self, faults: Faults, blob_faults: Faults | None = None) -> None:
        self._faults = faults
        self._blob_faults = blob_faults or Faults()

    def _of(self, path: Path) -> Faults:
        return self._blob_faults if path.parent.parent.name == BLOBS else self._faults

    def create(self, path: Path) -> File:
        return FaultyFile(super().create(path), self._of(path))

    def open(self, path: Path) -> File:
        return FaultyFile(super().open(path), self._of(path))

    def sync_folder(self, folder: Path) -> None:
        if folder.parent.name == BLOBS:
            self._blob_faults.sync()
        super().sync_folder(folder)


def fill_disk(wire: Wire, faults: Faults) -> None:
    """Let the disk be full, and use up what is allocated already."""
    wire.create(FILLER)
    faults.room_bytes = 20
    while wire.append(FILLER, b"x").status == 204:
        pass
