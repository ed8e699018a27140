"""The durable storage modes, how a crash test opens them, and what each promises. A new mode is one more line."""

from collections.abc import Callable
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


class Opening(Struct, frozen=True):
    """How a store is opened: in which variant, always the same, for the how-manieth time, with which random number."""

    variant: int
    turn: int
    salt: int


class Mode(Struct, frozen=True):
    """A storage mode."""

    open: Callable[[Disk, Path, Opening], Storage]
    atomic: bool
    """Whether changes are durable in their order over all streams, and not only within each."""
    survives_power: Callable[[int], bool]
    """Whether what is acknowledged in a turn outlives the machine, and not only the process."""

    @property
    def durable(self) -> bool:
        """Whether everything that is acknowledged outlives the machine."""
        return self.survives_power(0) and self.survives_power(1)


def _always(_turn: int) -> bool:
    return True


def _never(_turn: int) -> bool:
    return False


def _every_other_time(turn: int) -> bool:
    return turn % 2 == 1


def _open_acid(disk: Disk, root: Path, opening: Opening) -> Storage:
    shard_count = SHARD_COUNTS[opening.variant % len(SHARD_COUNTS)]
    fold_at_bytes = FOLD_AT_BYTES[opening.variant // len(SHARD_COUNTS) % len(FOLD_AT_BYTES)]
    folder = root / DATA_FOLDER
    return AcidStorage(disk, folder, shard_count=shard_count, salt=opening.salt, fold_at_bytes=fold_at_bytes)


def _files(survives_power: Callable[[int], bool]) -> Mode:
    def open_files(disk: Disk, root: Path, opening: Opening) -> Storage:
        segment_bytes = SEGMENT_BYTES[opening.variant % len(SEGMENT_BYTES)]
        durable = survives_power(opening.turn)
        return FileStorage(disk, root / DATA_FOLDER, durable=durable, salt=opening.salt, segment_bytes=segment_bytes)

    return Mode(open_files, atomic=False, survives_power=survives_power)


MODES = {
    "acid": Mode(_open_acid, atomic=True, survives_power=_always),
    "file-durable": _files(_always),
    "file-fast": _files(_never),
    "file-fast-and-durable": _files(_every_other_time),
}
