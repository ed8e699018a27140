"""The durable storage modes, how a crash test opens them, and what each promises. A new mode is one more line."""

from concurrent.futures import Executor
from pathlib import Path

from msgspec import Struct

from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableMode, DurableStorage, JournalTuning, StorageTuning
from everbrook.storage.disk import Disk
from everbrook.storage.lmdb_base import OpenEnvironment

DATA_FOLDER = "data"
# Sizes that workloads as small as ours meet: three of each.
CHECKPOINT_BYTES = (500, 2_000, 20_000)
SEGMENT_BYTES = (900, 3_000, 2**20)
JOURNALS = (
    # Every file is recycled; they roll after a few groups; they grow.
    JournalTuning(first_file_bytes=8_192, max_file_bytes=8_192),
    JournalTuning(first_file_bytes=600, max_file_bytes=600),
    JournalTuning(first_file_bytes=1_000, max_file_bytes=16_000),
)
CHUNK_BYTES, SMALL_CHUNK_BYTES, BLOB_SYNC_BYTES = 400, 150, 500


class Opening(Struct, frozen=True):
    """How a store is opened: in which variant, always the same, for the how-manieth time, with which random number.

    `boot` is another text after each power failure.
    """

    variant: int
    turn: int
    salt: int
    boot: str


class Held(Struct, frozen=True):
    """The collaborators of a storage, which the test controls."""

    disk: Disk
    executor: Executor
    open_environment: OpenEnvironment


class Mode(Struct, frozen=True):
    """A storage mode, or several in turn."""

    turns: tuple[DurableMode, ...]

    def at(self, turn: int) -> DurableMode:
        """Give the mode in which a store is opened."""
        return self.turns[turn % len(self.turns)]

    def open(self, held: Held, root: Path, opening: Opening) -> DurableStorage:
        """Open a store."""
        return DurableStorage(
            held.disk,
            root / DATA_FOLDER,
            self.at(opening.turn),
            salt=opening.salt,
            boot=opening.boot,
            tuning=tuning_of(opening.variant),
            executor=held.executor,
            open_environment=held.open_environment,
        )

    @property
    def durable(self) -> bool:
        """Whether everything that is acknowledged outlives the machine."""
        return all(mode.sync for mode in self.turns)


def tuning_of(variant: int) -> StorageTuning:
    """Give the sizes of a variant. Successive ones differ in several of them."""
    third, ninth = variant // 3, variant // 9
    return StorageTuning(
        checkpoint_bytes=CHECKPOINT_BYTES[variant % 3],
        chunk_bytes=CHUNK_BYTES,
        small_chunk_bytes=SMALL_CHUNK_BYTES,
        segment_bytes=SEGMENT_BYTES[(variant + third + ninth) % 3],
        max_open_segments=2,
        max_counts=2,
        blob_sync_bytes=BLOB_SYNC_BYTES,
        journal=JOURNALS[third % 3],
    )


MODES = {
    "acid": Mode((ACID,)),
    "file-durable": Mode((FILE_DURABLE,)),
    "file-fast": Mode((FILE_FAST,)),
    "file-fast-and-durable": Mode((FILE_FAST, FILE_DURABLE)),
}
