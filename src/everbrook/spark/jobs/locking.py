"""The lock on the checkpoints of a pipeline: one process at a time, by the kernel, which forgets no dead one.

Two queries that go on from one checkpoint would do each other's work; that is told before either begins.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everbrook.spark.jobs.errors import PipelineBusy

LOCK = ".lock"


@contextmanager
def locked(checkpoints: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there. Raise `PipelineBusy` if another process has it."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(checkpoints / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            raise PipelineBusy(
                f"the jobs of {checkpoints} run already, in process {holder or '?'}: stop it first"
            ) from None
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
