"""A machine that runs a store on a tape, and can stop at any moment without a word."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from everbrook.storage.api import Storage
from everbrook.storage.manifest import FolderLock
from tests.crash.databases import Databases
from tests.crash.jobs import Jobs
from tests.crash.modes import Mode, Opening
from tests.crash.recorder import Forgets, RecordingDisk, forgets_nothing
from tests.crash.tape import Tape

# Nothing here needs a disk that keeps anything: memory is as good, and fast.
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a file; every folder in it has a random name
FOLDING = "everbrook.storage.acid.engine.ThreadPoolExecutor"
SYNCING = "everbrook.storage.files.handles.ThreadPoolExecutor"
COMMITTING = "everbrook.engine.committer.ThreadPoolExecutor"


class Machine:
    """Opens one store again and again."""

    def __init__(self, mode: Mode, variant: int, patch: pytest.MonkeyPatch, forgets: Forgets = forgets_nothing) -> None:
        self.jobs = Jobs()
        self.commits = Jobs()
        self.disk: RecordingDisk
        self._mode = mode
        self._variant = variant
        self._forgets = forgets
        self._databases = Databases(patch)
        self._locks: list[FolderLock] = []
        self._salts = count()
        patch.setattr(FOLDING, self.jobs)
        patch.setattr(SYNCING, Jobs())
        patch.setattr(COMMITTING, self.commits)
        self._watch_locks(patch)

    def _watch_locks(self, patch: pytest.MonkeyPatch) -> None:
        really_lock, really_release = FolderLock.__init__, FolderLock.release

        def lock(lock: FolderLock, *args: Any, **options: Any) -> None:  # noqa: ANN401
            really_lock(lock, *args, **options)
            self._locks.append(lock)

        def release(lock: FolderLock) -> None:
            self._locks.remove(lock)
            really_release(lock)

        patch.setattr(FolderLock, "__init__", lock)
        patch.setattr(FolderLock, "release", release)

    @contextmanager
    def running(self, tape: Tape, turn: int = 0, salt: int | None = None) -> Iterator[Storage]:
        """Start with what a tape has come to, and stop without closing anything."""
        opening = Opening(self._variant, turn, next(self._salts) if salt is None else salt)
        root = Path(mkdtemp(prefix="everbrook-crash-", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            tape.disk_after(len(tape)).everything().restore(root)
            self.disk = self._databases.disk = RecordingDisk(root, tape, self._forgets)
            yield self._mode.open(self.disk, root, opening)
        finally:
            self._stop()
            shutil.rmtree(root)

    def _stop(self) -> None:
        self.jobs.forget()
        self.commits.forget()
        self._databases.abandon()
        self.disk.abandon()
        for lock in list(self._locks):
            lock.release()
