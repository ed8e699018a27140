"""What is known to be damaged in a store, without reading all of it: what the journal lacks, and what servers found."""

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage.check.base_walk import walk_base
from everbrook.storage.check.report import DamagedStream
from everbrook.storage.disk import OsDisk
from everbrook.storage.journal_scan import read_journal
from everbrook.storage.lmdb_base import LmdbBase, open_base
from everbrook.storage.manifest import BASE, JOURNAL, MANIFEST, REBUILT, StoreError, lock_folder, parse_manifest_copy
from everbrook.storage.recovery import UNKNOWN_LOSS
from everbrook.storage.rows import DATA


class KnownDamage(Struct, frozen=True):
    """Why a server does not start or takes no changes, if so, and which streams are damaged."""

    refusal: str | None = None
    streams: tuple[DamagedStream, ...] = ()


def known_damage(folder: Path) -> KnownDamage:
    """Read what is noted in a store that no server uses. `StoreError` says that one does."""
    disk = OsDisk()
    lock = lock_folder(disk, folder)
    try:
        if (folder / REBUILT).is_dir():
            return KnownDamage("a repair was interrupted")
        if not (folder / BASE / DATA).is_file():
            return KnownDamage()
        problem = walk_base(folder)
        if problem:
            return KnownDamage(f"{BASE}/{DATA} can't be read: {problem}")
        try:
            with closing(open_base(disk, folder)) as base:
                return _noted(disk, folder, base)
        except StoreError as error:
            return KnownDamage(str(error))
    finally:
        lock.release()


def _noted(disk: OsDisk, folder: Path, base: LmdbBase) -> KnownDamage:
    state, streams = base.state(), []
    for incarnation, mark in sorted(base.marks().items()):
        try:
            head = base.head(incarnation)
        except StreamDamaged:
            head = None
        name, tail = (head.identity.name, head.tail) if head else (None, None)
        streams.append(DamagedStream(incarnation, name, mark.offset, tail, mark.reason))
    salt = parse_manifest_copy(state.manifest or disk.read(folder / MANIFEST)).salt
    journal = read_journal(disk, folder / JOURNAL, salt, state.applied, state.needed)
    return KnownDamage(UNKNOWN_LOSS if journal.unknown else None, tuple(streams))
