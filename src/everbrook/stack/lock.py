"""One stack at a time per data folder: a lock that the system takes back when its holder dies, whatever it dies of."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from everbrook.stack.errors import DataUnusable

_NAME = "stack.lock"


@contextmanager
def locked(data_dir: Path) -> Iterator[None]:
    """Hold the data folder, which is made if it is missing. The file says who holds it."""
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(data_dir / _NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise DataUnusable(f"{data_dir} can't be written to: {error.strerror}") from error
    try:
        _take(descriptor, data_dir)
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, data_dir: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise DataUnusable(
            f"a stack runs from {data_dir} already (process {_written(descriptor)}): stop it with "
            f"`everbrook down --data-dir {quote(str(data_dir))}`, or give another --data-dir"
        ) from error


def holder(data_dir: Path) -> int | None:
    """Give the process of the stack that runs from a folder, or None if none does."""
    try:
        descriptor = os.open(data_dir / _NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _written(descriptor)
    finally:
        os.close(descriptor)
    return None


def _written(descriptor: int) -> int | None:
    text = os.pread(descriptor, 20, 0)
    return int(text) if text.isdigit() else None
