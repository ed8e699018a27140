"""The folder of a store: one process at a time owns it, by the lock on a file in it.

The lock belongs to the file and not to its name: when somebody removes or replaces the file, a second process can lock
the new one. So the owner asks now and then whether the name still leads to the file that it has locked.
"""

import fcntl
import os
from pathlib import Path
from typing import Protocol, runtime_checkable


class LockHeld(Exception):
    """Another process holds a lock. `owner` is the process id that it has written into the file."""

    def __init__(self, owner: str) -> None:
        super().__init__(f"held by process {owner}")
        self.owner = owner


@runtime_checkable
class WatchableLock(Protocol):
    """A lock that can tell whether it still keeps others away."""

    path: Path

    def held(self) -> bool:
        """Tell whether the path of the lock still leads to the file that is locked."""


class OsLock:
    """A lock of the operating system (`flock`), which releases it when the process ends, even by a kill."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = self._locked()
        while not self.held():
            # Somebody removed or replaced the file between opening and locking it.
            os.close(self._descriptor)
            self._descriptor = self._locked()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def _locked(self) -> int:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 32, 0).decode() or "unknown"
            os.close(descriptor)
            raise LockHeld(owner) from None
        return descriptor

    def held(self) -> bool:
        """Tell whether the path of the lock still leads to the file that is locked."""
        try:
            there = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            # A failed stat does not prove that the file was replaced.
            return True
        return os.path.samestat(there, os.fstat(self._descriptor))

    def release(self) -> None:
        """Let another process in."""
        os.close(self._descriptor)


def lost_lock(lock: object) -> str | None:
    """Say why this process no longer owns the folder of a store, if it does not."""
    if not isinstance(lock, WatchableLock) or lock.held():
        return None
    return f"{lock.path} was removed or replaced, so that another server may use the store"
