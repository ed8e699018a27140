"""Blobs as files: one for each blob, named by its owner and number. It has the bytes, and then their checksums.

Each block of 8 KiB has a checksum, as in a chunk: a read verifies the blocks that it touches.

A blob has its name from the beginning, so a crash may leave an incomplete one, to which nothing refers. A long blob is
synced a MiB at a time while it is written: otherwise a sync of the journal would have to wait for all of it.
"""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from everbrook.storage.api import refusal, refusal_to_open
from everbrook.storage.base_rows import PLACE
from everbrook.storage.chunk import BlockChecksums, block_bounds, checksums_bytes, damaged_block
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import Disk, File, Reader
from everbrook.storage.hold import ABSENT, Hold
from everbrook.storage.manifest import nested

BLOBS = "blobs"
"""The name of the folder of the blobs in the folder of a store."""
SYNC_BYTES = 1024 * 1024
SNAPSHOT = "snapshot of the stream"
"""The term for a blob in a message about damage."""

_FOLDER_NAME = re.compile(r"[0-9a-f]{2}\Z")
_BLOB_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.blob\Z")


def blob_path(folder: Path, owner: int, number: int) -> Path:
    return nested(folder, owner) / f"{owner:016x}-{number:016x}.blob"


def parse_blob_name(name: str) -> tuple[int, int] | None:
    """Parse the name of a blob file: owner and number. None: it is the name of another file."""
    parts = _BLOB_NAME.match(name)
    return (int(parts[1], 16), int(parts[2], 16)) if parts else None


def blob_file_bytes(size: int) -> int:
    """Return the size of the file of a blob of `size` bytes."""
    return size + checksums_bytes(size)


class FileBlobs:
    """The blobs in a folder, which is made for the first blob."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        hold: Hold,
        settle: Callable[[], None] = lambda: None,
        *,
        sync_bytes: int = SYNC_BYTES,
    ) -> None:
        """Use a folder. `hold` removes files, and is notified before a file is made.

        `settle` returns when every applied change is on the disk: a blob may be removed only after the change that
        removed the last reference to it is durable.
        """
        self._disk = disk
        self._folder = folder
        self._hold = hold
        self._settle = settle
        self._sync_bytes = sync_bytes
        self._made: set[Path] = set()

    def begin(self, owner: int, number: int) -> "FileDraft":
        path = blob_path(self._folder, owner, number)
        try:
            self._make(path.parent)
            # Before the file exists: it must not become a part of a pin that began earlier.
            self._hold.note(path, ABSENT)
            file = self._disk.create(path)
        except OSError as error:
            raise refusal_to_open(error) from error
        return FileDraft(self._disk, path, file, PLACE.pack(owner, number), self._sync_bytes)

    def _make(self, folder: Path) -> None:
        """Make a folder once per process. Two threads may do so at the same time, because making it is idempotent."""
        if folder not in self._made:
            self._disk.make_folder(folder)
            self._made.add(folder)

    def open(self, owner: int, number: int, size: int) -> "FileBlobReader":
        path = blob_path(self._folder, owner, number)
        place = f"{BLOBS}/{path.parent.name}/{path.name}"
        try:
            return FileBlobReader(self._disk.reader(path), place, owner, number, size)
        except FileNotFoundError:
            raise Damaged(owner, 0, place, "the file is missing", SNAPSHOT) from None
        except OSError as error:
            raise refusal_to_open(error) from error

    def remove(self, owner: int, number: int) -> None:
        self._settle()
        with suppress(FileNotFoundError):
            self._hold.remove(blob_path(self._folder, owner, number))

    def all(self) -> Iterator[list[tuple[int, int]]]:
        """Yield the blobs, one folder at a time. Files with other names are ignored."""
        for name in filter(_FOLDER_NAME.match, self._names(self._folder)):
            yield [blob for each in self._names(self._folder / name) if (blob := parse_blob_name(each))]

    def _names(self, folder: Path) -> list[str]:
        try:
            return self._disk.names(folder)
        except (FileNotFoundError, NotADirectoryError):
            return []


class FileBlobReader:
    """Reads a blob from its beginning, and verifies it."""

    def __init__(self, reader: Reader, place: str, owner: int, number: int, size: int) -> None:
        self._reader = reader
        self._place = place
        self._owner = owner
        self._key = PLACE.pack(owner, number)
        self._size = size
        self._position = 0

    def read(self, size: int) -> bytes:
        start, end = self._position, min(self._position + size, self._size)
        if start >= end:
            return b""
        first, behind = block_bounds(start, end, self._size)
        try:
            blocks = self._reader.read_at(first, behind - first)
            checksums = self._reader.read_at(self._size + checksums_bytes(first), checksums_bytes(behind - first))
        except OSError as error:
            # EIO is a bad sector: damage of this blob only.
            if error.errno != errno.EIO:
                raise
            raise self._damaged(first, f"it can't be read: {error.strerror}") from error
        if len(checksums) < checksums_bytes(behind - first):
            raise self._damaged(first, "the file is too short")
        damaged = damaged_block(self._key, blocks, first, checksums, first)
        if damaged is not None:
            raise self._damaged(damaged, "the checksum of a block is wrong")
        self._position = end
        return blocks[start - first : end - first]

    def _damaged(self, position: int, problem: str) -> Damaged:
        return Damaged(self._owner, position, self._place, problem, SNAPSHOT)

    def close(self) -> None:
        self._reader.close()


class FileDraft:
    """A blob that is being written. After an error its file is removed."""

    def __init__(self, disk: Disk, path: Path, file: File, key: bytes, sync_bytes: int) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = file
        self._sync_bytes = sync_bytes
        self._synced_bytes = 0
        self._checksums = BlockChecksums(key)

    def write(self, data: bytes) -> None:
        file = self._writable()
        try:
            file.write(data)
            self._checksums.add(data)
            if file.size - self._synced_bytes >= self._sync_bytes:
                file.sync()
                self._synced_bytes = file.size
        except OSError as error:
            self.abandon()
            raise refusal(error) from error

    def finish(self) -> None:
        file = self._writable()
        try:
            file.write(self._checksums.packed())
            file.sync()
            self._disk.sync_folder(self._path.parent)
        except OSError as error:
            self.abandon()
            # The blob is removed and nothing refers to it, so even a sync that found no descriptor is harmless here.
            raise refusal_to_open(error) from error
        self._close()

    def abandon(self) -> None:
        self._close()
        with suppress(OSError):
            self._disk.remove(self._path)

    def _writable(self) -> File:
        if self._file is None:
            raise ValueError("the blob is finished or abandoned: nothing can be written to it")
        return self._file

    def _close(self) -> None:
        file, self._file = self._file, None
        if file:
            file.close()
