"""The interface to the disk: every operation of a durable storage on files goes through it.

A test replaces it to record every write, sync, rename and removal, and to replay each prefix of them as a crash.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol, runtime_checkable

from everbrook.file_lock import take_lock


class File(Protocol):
    """A file that is written."""

    size: int
    """The number of bytes in the file, including those that are not on the disk yet."""

    def write(self, data: bytes) -> None:
        """Append all bytes. After an error a part of them may be in the file."""

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        """Write all bytes at a position. After an error a part of them may be in the file.

        With `sync` the call returns when these bytes are on the disk; other bytes of the file may not be.
        """

    def allocate(self, size: int) -> None:
        """Extend the file to `size` bytes with zeros, and reserve the room for them.

        A write into that room can't fail because the disk is full. The room is durable after `sync`.
        """

    def sync(self) -> None:
        """Return when all written bytes are on the disk. After an error it is unknown which of them are."""

    def truncate(self, size: int) -> None:
        """Cut the file back to its first `size` bytes."""

    def close(self) -> None:
        """Release the descriptor."""


class Reader(Protocol):
    """A file that is read. It remains readable after its removal."""

    def read(self, size: int) -> bytes:
        """Return the next bytes from the beginning on, at most `size`; none at the end."""

    def read_at(self, position: int, size: int) -> bytes:
        """Return the bytes at a position; fewer than `size` only if the file ends there. Any thread may call it."""

    def close(self) -> None:
        """Release the descriptor."""


class Lock(Protocol):
    """A lock file that one process at a time holds."""

    def release(self) -> None:
        """Let another process take the lock."""


@runtime_checkable
class WatchableLock(Protocol):
    """A lock that can be verified: its path may lead to another file by now."""

    path: Path

    def held(self) -> bool:
        """Return whether the path of the lock still leads to the locked file."""


class Disk(Protocol):
    """The operations on files and folders that the storage uses."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and its parents. On return its name is durable, even if the folder existed before."""

    def names(self, folder: Path) -> list[str]:
        """List a folder, sorted."""

    def create(self, path: Path) -> File:
        """Create a file that must not exist. Its name is durable once its folder is synced."""

    def open(self, path: Path) -> File:
        """Open a file that exists, to write to it."""

    def read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        """Read a part of a file, or all of it."""

    def reader(self, path: Path) -> Reader:
        """Open a file that exists, to read it."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, replacing a file of that name. Durable once the folder is synced."""

    def remove(self, path: Path) -> None:
        """Remove a file. Durable once the folder is synced."""

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on the disk."""

    def lock(self, path: Path) -> Lock:
        """Lock a file until the lock is released or the process ends. Raises `LockHeld` if another process has it."""


# The flag of `pwritev` that makes it return when its bytes are on the disk. Without it, a sync follows the write.
_DSYNC: int = getattr(os, "RWF_DSYNC", 0)
_ZEROS_BYTES = 1 << 20


def sync_descriptor(descriptor: int) -> None:
    """Return when the bytes of a file are on the disk itself.

    macOS has no `fdatasync`, and its `fsync` leaves the bytes in the cache of the disk; `F_FULLFSYNC` flushes it.
    """
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def boot_id() -> str:
    """Return the id of this boot of the machine, a text; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class OsFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def write(self, data: bytes) -> None:
        self.write_at(self.size, data)

    def write_at(self, position: int, data: bytes, *, sync: bool = False) -> None:
        # The system may write only a part of the bytes.
        rest = memoryview(data)
        while rest:
            if sync and _DSYNC:
                written = os.pwritev(self._descriptor, (rest,), position, _DSYNC)
            else:
                written = os.pwrite(self._descriptor, rest, position)
            position += written
            self.size = max(self.size, position)
            rest = rest[written:]
        if sync and not _DSYNC:
            self.sync()

    def allocate(self, size: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, self.size, size - self.size)
        else:
            while self.size < size:
                self.write(bytes(min(_ZEROS_BYTES, size - self.size)))
        self.size = size

    def sync(self) -> None:
        sync_descriptor(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self.size = size

    def close(self) -> None:
        os.close(self._descriptor)


class OsReader:
    """A file of the operating system that is read."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        return os.read(self._descriptor, size)

    def read_at(self, position: int, size: int) -> bytes:
        # A read may return fewer bytes; only an empty one is the end of the file.
        data = os.pread(self._descriptor, size, position)
        while len(data) < size and (more := os.pread(self._descriptor, size - len(data), position + len(data))):
            data += more
        return data

    def close(self) -> None:
        os.close(self._descriptor)


class OsLock:
    """A lock of the operating system (`flock`), which releases it when the process ends, even by a kill.

    The lock belongs to the file and not to its name: if the file is removed or replaced, a second process can lock the
    new one. So the owner verifies periodically that the name still leads to the locked file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = take_lock(path)
        while not self.held():
            # Another process removed or replaced the file after it was opened and before it was locked.
            os.close(self._descriptor)
            self._descriptor = take_lock(path)

    def held(self) -> bool:
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # A failed stat does not prove that the file was replaced.
            return True
        return os.path.samestat(there, os.fstat(self._descriptor))

    def release(self) -> None:
        os.close(self._descriptor)


def lost_lock(lock: object) -> str | None:
    """Return the reason why this process no longer owns the folder of a store; None while it owns it."""
    if not isinstance(lock, WatchableLock) or lock.held():
        return None
    return f"{lock.path} was removed or replaced, so that another server may use the store"


class OsDisk:
    """The file system."""

    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in (*reversed(missing), path):
            # A store contains secrets: only its owner may read it, whatever the umask is.
            folder.mkdir(mode=0o700, exist_ok=True)
            # Also for a folder that exists: an earlier process may have died before it synced the name.
            self.sync_folder(folder.parent)

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def create(self, path: Path) -> File:
        return OsFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def open(self, path: Path) -> File:
        return OsFile(os.open(path, os.O_WRONLY | os.O_CLOEXEC))

    def read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        with path.open("rb", buffering=0) as file:
            file.seek(start)
            return file.read(size)

    def reader(self, path: Path) -> Reader:
        return OsReader(os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def sync_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> Lock:
        return OsLock(path)
