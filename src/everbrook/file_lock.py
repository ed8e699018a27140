"""A lock on a file: one process has it at a time, and the system releases it when that process ends.

The file stays, and holds the process id of its last owner, which `LockHeld` reports.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNKNOWN = 0
"""The id of an owner that has not written its id yet."""
_LONGEST_ID = 32


class LockHeld(Exception):
    """Another process has the lock. `owner` is its id, or `UNKNOWN`."""

    def __init__(self, owner: int) -> None:
        super().__init__(f"process {owner or 'unknown'} has the lock")
        self.owner = owner


def take_lock(path: Path, *, wait: bool = False, mode: int = 0o644) -> int:
    """Lock a file, which is created if it is missing, and return its descriptor. Closing it releases the lock.

    If another process has the lock, wait for it, or raise `LockHeld`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except BlockingIOError:
        owner = _owner(descriptor)
        os.close(descriptor)
        raise LockHeld(owner) from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path, *, wait: bool = False, mode: int = 0o644) -> Iterator[None]:
    """Hold the lock of a file within the block, as `take_lock` does."""
    descriptor = take_lock(path, wait=wait, mode=mode)
    try:
        yield
    finally:
        os.close(descriptor)


def find_owner(path: Path) -> int | None:
    """Return the process that has the lock of a file: None if nobody has it, `UNKNOWN` if it has not written its id."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # A shared lock, so that two processes that look at the same time do not take each other for the owner.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _owner(descriptor)
    finally:
        os.close(descriptor)
    return None


def _owner(descriptor: int) -> int:
    text = os.pread(descriptor, _LONGEST_ID, 0).strip()
    return int(text) if text.isdigit() else UNKNOWN
