"""The durable modes, and how a test opens their storages on a disk of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from everbrook.settings import StorageMode
from everbrook.storage import ACID, FILE_DURABLE, DurableMode, DurableStorage, JournalTuning, Storage, StorageTuning
from everbrook.storage.disk import Disk

Open = Callable[[Disk, Path], Storage]


# Small enough that a test fills a file of the journal.
TUNING = StorageTuning(journal=JournalTuning(first_file_bytes=4096, max_file_bytes=4096))


def _opener(mode: DurableMode) -> Open:
    return lambda disk, folder: DurableStorage(disk, folder, mode, salt=7, tuning=TUNING)


# Those whose acknowledgements are on the disk, and so can meet its faults.
SYNCED: Mapping[StorageMode, Open] = {
    StorageMode.ACID: _opener(ACID),
    StorageMode.FILE_DURABLE: _opener(FILE_DURABLE),
}

# Those that survive the end of the process.
SURVIVING = (*SYNCED, StorageMode.FILE_FAST)
