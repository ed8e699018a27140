"""The durable modes, and how a test opens their storages on a disk of its own."""

from collections.abc import Callable, Mapping
from pathlib import Path

from everbrook.settings import StorageMode
from everbrook.storage import AcidStorage, FileStorage, Storage
from everbrook.storage.disk import Disk

Open = Callable[[Disk, Path], Storage]


def _open_acid(disk: Disk, folder: Path) -> Storage:
    return AcidStorage(disk, folder, shard_count=1, salt=7)


def _open_file_durable(disk: Disk, folder: Path) -> Storage:
    return FileStorage(disk, folder, durable=True, salt=7)


# Those whose acknowledgements are on the disk, and so can meet its faults.
SYNCED: Mapping[StorageMode, Open] = {
    StorageMode.ACID: _open_acid,
    StorageMode.FILE_DURABLE: _open_file_durable,
}

# Those that survive the end of the process.
SURVIVING = (*SYNCED, StorageMode.FILE_FAST)
