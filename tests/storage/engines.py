"""Which storage engines the contract holds for, and how a test opens them.

A new engine is one more line in `ENGINES`; one that outlives its process is then also tested with every commit followed
by a reopening.
"""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from msgspec import Struct

from everbrook.protocol import Change
from everbrook.storage import AcidStorage, AcidTuning, FileStorage, MemoryStorage, OsDisk, Storage
from everbrook.storage.files.tuning import FilesTuning

SHARD_COUNT = 2
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only where it is, and under a name of its own


def scratch_folder() -> TemporaryDirectory[str]:
    """Make a folder that goes away again, in memory if possible: what syncs cost is not what the contract asks."""
    return TemporaryDirectory(dir=MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None)


class StorageEngine(Struct, frozen=True):
    """A way to open a storage that keeps its files, if it has any, in a folder."""

    open: Callable[[Path], Storage]
    durable: bool


def open_acid(folder: Path, **sizes: int) -> Storage:
    return AcidStorage(OsDisk(), folder / "acid", shard_count=SHARD_COUNT, salt=7, tuning=AcidTuning(**sizes))


def open_files(folder: Path, *, durable: bool, **sizes: int) -> Storage:
    return FileStorage(OsDisk(), folder / "files", durable=durable, salt=7, tuning=FilesTuning(**sizes))


ENGINES = {
    "memory": StorageEngine(lambda _folder: MemoryStorage(), durable=False),
    "acid": StorageEngine(open_acid, durable=True),
    # Its bounds are so small that everything here meets them.
    "acid-folding": StorageEngine(lambda folder: open_acid(folder, fold_at_bytes=300, max_counts=2), durable=True),
    "file-fast": StorageEngine(lambda folder: open_files(folder, durable=False), durable=True),
    "file-durable": StorageEngine(lambda folder: open_files(folder, durable=True, segment_bytes=300), durable=True),
}

# The ways to run the contract: as it is, and where it can be, with a reopening after every commit.
WAYS = [(name, False) for name in ENGINES] + [(name, True) for name, engine in ENGINES.items() if engine.durable]
WAY_NAMES = [f"{name}-reopened" if reopening else name for name, reopening in WAYS]


class Store:
    """A storage under test, open within a `with`."""

    def __init__(self, engine: StorageEngine, folder: Path, *, reopening: bool) -> None:
        self._engine = engine
        self.folder = folder
        self._reopening = reopening
        self.storage = engine.open(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.storage.close()

    def commit(self, *group: Change) -> None:
        """Make a group durable, then visible."""
        self.storage.persist(group)
        self.storage.apply(group)
        if self._reopening:
            self.reopen()

    def reopen(self) -> None:
        """Let everything go, as a process does that ends, and begin again."""
        self.storage.close()
        self.storage = self._engine.open(self.folder)

    def reopen_if_durable(self) -> None:
        """Do so if anything would be left."""
        if self._engine.durable:
            self.reopen()
