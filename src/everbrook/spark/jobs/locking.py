"""The lock on the checkpoints of a pipeline: one process at a time, by the kernel, which forgets no dead one.

Two queries that go on from one checkpoint would do each other's work; that is told before either begins.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everbrook.file_lock import LockHeld, take_lock
from everbrook.spark.jobs.errors import PipelineBusy

LOCK = ".lock"


@contextmanager
def locked(checkpoints: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is made if it is not there. Raise `PipelineBusy` if another process has it."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = take_lock(checkpoints / LOCK)
    except LockHeld as held:
        raise PipelineBusy(
            f"the jobs of {checkpoints} run already, in process {held.owner or '?'}: stop it first"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)
