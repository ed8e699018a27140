"""`python forgetful.py BUG everbrook serve …`: the server with a deliberate bug, to see that the kill test finds it."""

import sys
from collections.abc import Callable, Mapping

from everbrook.cli.main import main
from everbrook.protocol import WHOLE, Head, Identity, Kept
from everbrook.storage import AcidStorage, Record as StoredStream, packing
from everbrook.storage.acid.journal import Journal
from everbrook.storage.packing import Unpacker
from everbrook.storage.record import Record


def lose_the_last_records() -> None:
    """Take the end of the journal for torn, though it was acknowledged."""
    recover = Journal.recover

    def forget(journal: Journal, applied: int) -> list[Record]:
        return recover(journal, applied)[:-10]

    Journal.recover = forget  # type: ignore[assignment, method-assign]


def forget_producers() -> None:
    """Keep what producers wrote, and not how far they were."""
    load = AcidStorage.load

    def forget(storage: AcidStorage, name: bytes) -> StoredStream | None:
        stored = load(storage, name)
        return StoredStream(stored.head, {}) if stored else None

    AcidStorage.load = forget  # type: ignore[assignment, method-assign]


def sweep_everything() -> None:
    """Take every snapshot for an orphan when the server starts."""

    def keeps(_storage: AcidStorage, _owner: int, _blob: int) -> bool:
        return False

    AcidStorage.keeps = keeps  # type: ignore[assignment, method-assign]


def keep_everything_again() -> None:
    """Take a later write for a proof that nothing was ever cut."""
    unpack = packing.unpack_head

    def forget(unpacker: Unpacker, identity: Identity, _before: Kept = WHOLE) -> tuple[Head, int]:
        return unpack(unpacker, identity)

    packing.unpack_head = forget  # type: ignore[assignment]


BUGS: Mapping[str, Callable[[], None]] = {
    "lose-the-last-records": lose_the_last_records,
    "forget-producers": forget_producers,
    "sweep-everything": sweep_everything,
    "keep-everything-again": keep_everything_again,
}

if __name__ == "__main__":
    BUGS[sys.argv[1]]()
    main(sys.argv[3:])
