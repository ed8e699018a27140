"""A machine that runs a store on a tape, and can stop at any moment without a word."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

import pytest

from everbrook.engine.clock import Clock, Scheduler
from everbrook.engine.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.storage.api import Storage
from everbrook.storage.check import Damage
from everbrook.storage.manifest import FolderLock
from tests.crash.checker import damages_in
from tests.crash.databases import Databases
from tests.crash.jobs import Jobs
from tests.crash.modes import DATA_FOLDER, Mode, Opening
from tests.crash.recorder import Forgets, RecordingDisk, forgets_nothing
from tests.crash.tape import Tape

# Nothing here needs a disk that keeps anything: memory is as good, and fast.
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a file; every folder in it has a random name
FOLDING = "everbrook.storage.acid.engine.ThreadPoolExecutor"
SYNCING = "everbrook.storage.files.handles.ThreadPoolExecutor"
REMOVING = "everbrook.storage.files.removals.ThreadPoolExecutor"
# Sizes that workloads as small as ours meet: after how much a snapshot is synced on its way, what a chunk holds, and
# which is still a crumb.
SIZES = {
    "everbrook.storage.file_blobs.SYNC_BYTES": 500,
    "everbrook.storage.acid.chunks.CHUNK_BYTES": 400,
    "everbrook.storage.acid.shard.CHUNK_BYTES": 400,
    "everbrook.storage.acid.shard.CRUMB_BYTES": 150,
}


class Machine:
    """Opens one store again and again."""

    def __init__(self, mode: Mode, variant: int, patch: pytest.MonkeyPatch, forgets: Forgets = forgets_nothing) -> None:
        self.jobs = Jobs()
        self.commits = Jobs()
        self.uploads = Jobs()
        """What an engine does to snapshots, the removal of old ones too."""
        self.disk: RecordingDisk
        self._mode = mode
        self._variant = variant
        self._forgets = forgets
        self._databases = Databases(patch)
        self._locks: list[FolderLock] = []
        self._salts = count()
        patch.setattr(FOLDING, self.jobs)
        patch.setattr(SYNCING, Jobs())
        patch.setattr(REMOVING, self.jobs)
        for place, size in SIZES.items():
            patch.setattr(place, size)
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
            before = tape.disk_after(len(tape))
            before.everything().restore(root)
            self.disk = self._databases.disk = RecordingDisk(root, tape, before, self._forgets)
            yield self._mode.open(self.disk, root, opening)
        finally:
            self._stop()
            shutil.rmtree(root)

    def start_engine(self, storage: Storage, scheduler: Scheduler, clock: Clock, limits: Limits) -> Engine:
        """Start an engine whose commits and uploads happen when the test says so."""
        return Engine(storage, scheduler, clock, limits, commit_executor=self.commits, blob_executor=self.uploads)

    def damages(self, tape: Tape) -> list[Damage]:
        """Check what a tape has come to, as a person does before opening it."""
        with TemporaryDirectory(prefix="everbrook-crash-", dir=MEMORY if MEMORY.is_dir() else None) as root:
            tape.disk_after(len(tape)).everything().restore(Path(root))
            return damages_in(Path(root) / DATA_FOLDER)

    def _stop(self) -> None:
        self.jobs.forget()
        self.commits.forget()
        self.uploads.forget()
        self._databases.abandon()
        self._databases.disk = None
        self.disk.abandon()
        for lock in list(self._locks):
            lock.release()
