"""The durable storage modes, how a crash test opens them, and what each promises. A new mode is one more line."""

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from msgspec import Struct

from everbrook.storage import AcidStorage, AcidTuning, FileStorage, Storage
from everbrook.storage.acid.shard import OpenEnvironment
from everbrook.storage.disk import Disk
from everbrook.storage.files.tuning import FilesTuning
from tests.crash.jobs import Inline

DATA_FOLDER = "data"
SHARD_COUNTS = (1, 2, 4)
FOLD_AT_BYTES = (500, 2_000, 20_000)
SEGMENT_BYTES = (200, 1_000, 2**20)
# Sizes that workloads as small as ours meet.
CHUNK_BYTES, SMALL_CHUNK_BYTES, BLOB_SYNC_BYTES = 400, 150, 500


class Opening(Struct, frozen=True):
    """How a store is opened: in which variant, always the same, for the how-manieth time, with which random number."""

    variant: int
    turn: int
    salt: int


class Held(Struct, frozen=True):
    """The collaborators of a storage, which the test controls."""

    disk: Disk
    executor: Executor
    open_environment: OpenEnvironment


class Mode(Struct, frozen=True):
    """A storage mode."""

    open: Callable[[Held, Path, Opening], Storage]
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


def _open_acid(held: Held, root: Path, opening: Opening) -> Storage:
    shard_count = SHARD_COUNTS[opening.variant % len(SHARD_COUNTS)]
    fold_at_bytes = FOLD_AT_BYTES[opening.variant // len(SHARD_COUNTS) % len(FOLD_AT_BYTES)]
    return AcidStorage(
        held.disk,
        root / DATA_FOLDER,
        shard_count=shard_count,
        salt=opening.salt,
        tuning=AcidTuning(
            fold_at_bytes=fold_at_bytes,
            chunk_bytes=CHUNK_BYTES,
            small_chunk_bytes=SMALL_CHUNK_BYTES,
            blob_sync_bytes=BLOB_SYNC_BYTES,
        ),
        executor=held.executor,
        open_environment=held.open_environment,
    )


def _files(survives_power: Callable[[int], bool]) -> Mode:
    def open_files(held: Held, root: Path, opening: Opening) -> Storage:
        segment_bytes = SEGMENT_BYTES[opening.variant % len(SEGMENT_BYTES)]
        return FileStorage(
            held.disk,
            root / DATA_FOLDER,
            durable=survives_power(opening.turn),
            salt=opening.salt,
            tuning=FilesTuning(segment_bytes=segment_bytes, blob_sync_bytes=BLOB_SYNC_BYTES),
            removal_executor=held.executor,
            sync_executor=Inline(),
        )

    return Mode(open_files, atomic=False, survives_power=survives_power)


MODES = {
    "acid": Mode(_open_acid, atomic=True, survives_power=_always),
    "file-durable": _files(_always),
    "file-fast": _files(_never),
    "file-fast-and-durable": _files(_every_other_time),
}
