"""`python forgetful.py BUG everbrook serve …`: the server with a deliberate bug, to see that the kill test finds it."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from everbrook.cli.main import main
from everbrook.protocol import WHOLE, Head, Identity, Kept
from everbrook.storage import DurableStorage, Record as StoredStream, codec, durable
from everbrook.storage.codec import Unpacker
from everbrook.storage.disk import Disk
from everbrook.storage.journal_scan import Needed, Recovered, read_journal


def lose_the_last_records() -> None:
    """Take the end of the journal for torn, though it was acknowledged."""

    def forget(disk: Disk, folder: Path, salt: int, applied: int, needed: Needed) -> Recovered:
        found = read_journal(disk, folder, salt, applied, needed)
        kept = found.records[:-10]
        return replace(found, records=kept, last=kept[-1].number if kept else applied)

    durable.read_journal = forget  # type: ignore[attr-defined]


def forget_producers() -> None:
    """Keep what producers wrote, and not how far they were."""
    load = DurableStorage.load

    def forget(storage: DurableStorage, name: bytes) -> StoredStream | None:
        stored = load(storage, name)
        return StoredStream(stored.head, {}) if stored else None

    DurableStorage.load = forget  # type: ignore[assignment, method-assign]


def sweep_everything() -> None:
    """Take every snapshot for an orphan when the server starts."""

    def keeps(_storage: DurableStorage, _owner: int, _blob: int) -> bool:
        return False

    DurableStorage.keeps = keeps  # type: ignore[assignment, method-assign]


def keep_everything_again() -> None:
    """Take a later write for a proof that nothing was ever cut."""
    unpack = codec.unpack_head

    def forget(unpacker: Unpacker, identity: Identity, _before: Kept = WHOLE) -> tuple[Head, int]:
        return unpack(unpacker, identity)

    codec.unpack_head = forget  # type: ignore[assignment]


BUGS: Mapping[str, Callable[[], None]] = {
    "lose-the-last-records": lose_the_last_records,
    "forget-producers": forget_producers,
    "sweep-everything": sweep_everything,
    "keep-everything-again": keep_everything_again,
}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    main(sys.argv[3:])
