"""Files of keys: changed by one process at a time, replaced as a whole, and readable by their owner alone.

A server that reads one meanwhile sees the old text or the new one, never a part.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER_ONLY = 0o600


def edit(path: Path, change: Callable[[bytes | None], bytes]) -> None:
    """Put what `change` makes of a file's text in its place. It is given None where there is no file."""
    with locked(path):
        write(path, change(path.read_bytes() if path.exists() else None))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file meanwhile. Its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_CREAT | os.O_RDWR, OWNER_ONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write(path: Path, text: bytes) -> None:
    """Replace a file by one that only its owner may read. It is durable when this returns."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, OWNER_ONLY), "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
