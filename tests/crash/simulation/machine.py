"""A machine that runs a store on a tape, and can stop at any moment without a word."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from everbrook.engine import Clock, Engine
from everbrook.engine.clock import Scheduler
from everbrook.engine.limits import Limits
from everbrook.storage import Damage, DurableStorage
from tests.crash.simulation.checker import base_state, damages_in
from tests.crash.simulation.databases import Databases
from tests.crash.simulation.jobs import Jobs
from tests.crash.simulation.modes import DATA_FOLDER, Held, Mode, Opening
from tests.crash.simulation.recorder import Alters, RecordingDisk, alters_nothing
from tests.crash.simulation.tape import Tape

# Nothing here needs a disk that keeps anything: memory is as good, and fast.
MEMORY = Path("/dev/shm")  # noqa: S108 - a file system, not a file; every folder in it has a random name


class Machine:
    """Opens one store again and again."""

    def __init__(self, mode: Mode, variant: int, alters: Alters = alters_nothing) -> None:
        self.jobs = Jobs()
        """What a storage does in the background."""
        self.commits = Jobs()
        self.uploads = Jobs()
        """What an engine does to snapshots, the removal of old ones too."""
        self.disk: RecordingDisk
        self._mode = mode
        self._variant = variant
        self._alters = alters
        self._salts = count()

    @contextmanager
    def running(self, tape: Tape, turn: int = 0, salt: int | None = None) -> Iterator[DurableStorage]:
        """Start with what a tape has come to, and stop without closing anything."""
        opening = Opening(self._variant, turn, next(self._salts) if salt is None else salt, str(tape.boot))
        root = Path(mkdtemp(prefix="everbrook-crash-", dir=MEMORY if MEMORY.is_dir() else None))
        try:
            before = tape.disk_after(len(tape))
            present = before.everything()
            present.restore(root)
            self.disk = RecordingDisk(root, tape, before, present, self._alters)
            databases = Databases(self.disk)
            try:
                yield self._mode.open(Held(self.disk, self.jobs, databases.open), root, opening)
            finally:
                self._stop(databases)
        finally:
            shutil.rmtree(root)

    def start_engine(self, storage: DurableStorage, scheduler: Scheduler, clock: Clock, limits: Limits) -> Engine:
        """Start an engine whose commits and uploads happen when the test says so."""
        return Engine(storage, scheduler, clock, limits, commit_executor=self.commits, blob_executor=self.uploads)

    def damages(self, tape: Tape) -> list[Damage]:
        """Check what a tape has come to, as a person does before opening it."""
        with self._restored(tape) as root:
            return damages_in(root / DATA_FOLDER, str(tape.boot))

    def applied(self, tape: Tape) -> int:
        """Give the number of the last change that is in the base."""
        with self._restored(tape) as root:
            return base_state(root / DATA_FOLDER).applied

    @contextmanager
    def _restored(self, tape: Tape) -> Iterator[Path]:
        with TemporaryDirectory(prefix="everbrook-crash-", dir=MEMORY if MEMORY.is_dir() else None) as root:
            tape.disk_after(len(tape)).everything().restore(Path(root))
            yield Path(root)

    def _stop(self, databases: Databases) -> None:
        for jobs in (self.jobs, self.commits, self.uploads):
            jobs.forget()
        databases.abandon()
        self.disk.abandon()
