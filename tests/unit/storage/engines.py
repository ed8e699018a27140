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
from everbrook.storage import (
    ACID,
    FILE_DURABLE,
    FILE_FAST,
    DurableMode,
    DurableStorage,
    MemoryStorage,
    OsDisk,
    Storage,
    StorageTuning,
)
from tests.kit.stores import JOURNAL

MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - only where it is, and under a name of its own


def scratch_folder() -> TemporaryDirectory[str]:
    """Make a folder that goes away again, in memory if possible: what syncs cost is not what the contract asks."""
    return TemporaryDirectory(dir=MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else None)


class StorageEngine(Struct, frozen=True):
    """A way to open a storage that keeps its files, if it has any, in a folder."""

    open: Callable[[Path], Storage]
    durable: bool


def open_durable(folder: Path, mode: DurableMode = ACID, **sizes: int) -> DurableStorage:
    tuning = StorageTuning(journal=JOURNAL, **sizes)
    return DurableStorage(OsDisk(), folder / mode.store, mode, salt=7, tuning=tuning)


def _opener(mode: DurableMode, **sizes: int) -> Callable[[Path], Storage]:
    return lambda folder: open_durable(folder, mode, **sizes)


# Their bounds are so small that everything here meets them.
SMALL = {"checkpoint_bytes": 300, "max_counts": 2, "chunk_bytes": 200, "small_chunk_bytes": 80, "segment_bytes": 700}
ENGINES = {
    "memory": StorageEngine(lambda _folder: MemoryStorage(), durable=False),
    "acid": StorageEngine(_opener(ACID), durable=True),
    "acid-small": StorageEngine(_opener(ACID, **SMALL), durable=True),
    "file-fast": StorageEngine(_opener(FILE_FAST), durable=True),
    "file-durable-small": StorageEngine(_opener(FILE_DURABLE, **SMALL), durable=True),
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
