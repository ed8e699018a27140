"""The durable storage modes, how a crash test opens them, and what each promises. A new mode is one more line."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from everbrook.storage.acid.engine import AcidStorage
from everbrook.storage.api import Storage
from everbrook.storage.disk import Disk
from everbrook.storage.files.engine import FileStorage

DATA_FOLDER = "data"
SHARD_COUNTS = (1, 2, 4)
FOLD_AT_BYTES = (500, 2_000, 20_000)
SEGMENT_BYTES = (200, 1_000, 2**20)


class Mode(Struct, frozen=True):
    """A storage mode. `variant` is the same for all openings of a store, `salt` another for each."""

    open: Callable[[Disk, Path, int, int], Storage]
    survives_power: bool
    """Whether what was acknowledged outlives the machine, and not only the process."""
    atomic: bool
    """Whether changes are durable in their order over all streams, and not only within each."""


def _open_acid(disk: Disk, root: Path, variant: int, salt: int) -> Storage:
    shard_count = SHARD_COUNTS[variant % len(SHARD_COUNTS)]
    fold_at_bytes = FOLD_AT_BYTES[variant // len(SHARD_COUNTS) % len(FOLD_AT_BYTES)]
    return AcidStorage(disk, root / DATA_FOLDER, shard_count=shard_count, salt=salt, fold_at_bytes=fold_at_bytes)


def _open_files(disk: Disk, root: Path, variant: int, salt: int, *, durable: bool) -> Storage:
    segment_bytes = SEGMENT_BYTES[variant % len(SEGMENT_BYTES)]
    return FileStorage(disk, root / DATA_FOLDER, durable=durable, salt=salt, segment_bytes=segment_bytes)


MODES = {
    "acid": Mode(_open_acid, survives_power=True, atomic=True),
    "file-durable": Mode(partial(_open_files, durable=True), survives_power=True, atomic=False),
    "file-fast": Mode(partial(_open_files, durable=False), survives_power=False, atomic=False),
}
