"""The one seam to the disk: everything that the storage engines do to files goes through here.

A test replaces it to record every write, sync, rename and removal, and to replay each prefix of them as a crash.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol


class File(Protocol):
    """A file that only grows."""

    size: int
    """How many bytes it holds, those included that are not on the disk yet."""

    def write(self, data: bytes) -> None:
        """Add bytes at the end: all of them, or an error after which some may be there."""

    def sync(self) -> None:
        """Return when all that was written is on the disk. After an error nobody knows what is."""

    def truncate(self, size: int) -> None:
        """Cut the file back to its first `size` bytes."""

    def close(self) -> None:
        """Let the descriptor go."""


class Reader(Protocol):
    """A file that is read from its beginning on. It stays readable when it is removed."""

    def read(self, size: int) -> bytes:
        """Give the next bytes, at most `size`; none at the end."""

    def close(self) -> None:
        """Let the descriptor go."""


class LockHeld(Exception):
    """Another process holds a lock. `owner` is the process id that it has written into the file."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner}")
        self.owner = owner


class Lock(Protocol):
    """A file that one process at a time holds."""

    def release(self) -> None:
        """Let another process in."""


class Disk(Protocol):
    """The operations on files and folders that storage engines use."""

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it. Its name is durable then, also if it was there before."""

    def names(self, folder: Path) -> list[str]:
        """List a folder, sorted."""

    def create(self, path: Path) -> File:
        """Create a file that must not exist. Its name is durable when its folder is synced."""

    def open(self, path: Path) -> File:
        """Open a file that exists, to write at its end."""

    def read(self, path: Path, start: int = 0, size: int = -1) -> bytes:
        """Read a part of a file, or all of it."""

    def reader(self, path: Path) -> Reader:
        """Open a file that exists, to read it piece by piece."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, replacing what had it. Durable when the folder is synced."""

    def remove(self, path: Path) -> None:
        """Remove a file. Durable when the folder is synced."""

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder are on the disk."""

    def lock(self, path: Path) -> Lock:
        """Hold a lock file until it is released or the process ends. `LockHeld` says that another process does."""


class OsFile:
    """A file of the operating system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.write(self._descriptor, rest)
            self.size += written
            rest = rest[written:]

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

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

    def close(self) -> None:
        os.close(self._descriptor)


class OsLock:
    """A lock of the operating system (`flock`), which releases it when the process ends, even by a kill."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 32, 0).decode() or "unknown"
            os.close(self._descriptor)
            raise LockHeld(owner) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._descriptor)


class OsDisk:
    """The file system."""

    def make_folder(self, path: Path) -> None:
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in (*reversed(missing), path):
            # There are secrets in a store: it is its owner's alone, whatever the umask says.
            folder.mkdir(mode=0o700, exist_ok=True)
            self.sync_folder(folder.parent)

    def names(self, folder: Path) -> list[str]:
        return sorted(path.name for path in folder.iterdir())

    def create(self, path: Path) -> File:
        return OsFile(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600))

    def open(self, path: Path) -> File:
        return OsFile(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC))

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
