"""A durable storage whose background work and LMDB environment the test holds."""

import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import ParamSpec, TypeVar

import lmdb

from everbrook.storage import ACID, DurableMode, DurableStorage, JournalTuning, OsDisk, Record, StorageTuning
from everbrook.storage.base_rows import INCARNATION, with_prefix
from everbrook.storage.chunk import chunk_length
from everbrook.storage.disk import Disk
from everbrook.storage.lmdb_base import open_environment

Given = ParamSpec("Given")
Result = TypeVar("Result")

JOURNAL = JournalTuning(first_file_bytes=1 << 16, max_file_bytes=1 << 18)


class Background(ThreadPoolExecutor):
    """A thread that counts what it is given to do."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, fn: Callable[Given, Result], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Result]:
        self.submitted += 1
        return super().submit(fn, *args, **kwargs)

    def finish(self) -> None:
        """Return when everything that it was given is done."""
        self.submit(int).result()

    def hold(self) -> Event:
        """Do nothing more before the event that is returned is set."""
        event = Event()
        self.submit(event.wait, 60)
        return event


class HeldStorage(DurableStorage):
    """A durable storage. `sizes` are those of its tuning that are not the default."""

    def __init__(
        self,
        folder: Path,
        disk: Disk | None = None,
        mode: DurableMode = ACID,
        *,
        boot: str = "",
        journal: JournalTuning = JOURNAL,
        **sizes: int,
    ) -> None:
        self.background = Background()
        self.folder = folder
        self.environment: lmdb.Environment | None = None
        super().__init__(
            disk or OsDisk(),
            folder,
            mode,
            salt=7,
            boot=boot,
            tuning=StorageTuning(journal=journal, **sizes),
            executor=self.background,
            open_environment=self._open_environment,
        )

    def _open_environment(self, folder: Path) -> lmdb.Environment:
        self.environment = open_environment(folder)
        return self.environment

    def settle(self) -> None:
        """Wait for what is done in the background, and let the storage notice."""
        self.background.finish()
        self.apply([])
        self.background.finish()

    @property
    def open_segments(self) -> int:
        """How many segments are open to be read."""
        return self._base.segments.open_files

    def stored_bytes(self, incarnation: int) -> int:
        """Count the bytes of a stream that the base has, in rows and in segments."""
        return sum(chunk_length(row) for row in self.chunk_rows(incarnation))

    def chunk_rows(self, incarnation: int) -> list[bytes]:
        """Give the rows of a stream's chunks."""
        assert self.environment
        chunks = self.environment.open_db(b"chunks", create=False)
        with self.environment.begin() as transaction:
            return [row for _, row in with_prefix(transaction.cursor(chunks), INCARNATION.pack(incarnation))]


def loaded(storage: HeldStorage, name: bytes) -> Record:
    record = storage.load(name)
    assert record
    return record


def killed(storage: HeldStorage, target: Path) -> Path:
    """Copy a store as the end of its process would leave it now."""
    storage.background.finish()
    shutil.copytree(storage.folder, target)
    return target


def segments(folder: Path) -> list[Path]:
    """Give the segments of all streams, in order."""
    return sorted(folder.glob("streams/*/*.log"))


def journal_files(folder: Path) -> list[Path]:
    """Give the files of the journal, in order of their use."""
    return sorted((folder / "journal").glob("journal-*.log"), key=lambda path: path.name.split("-")[2])
