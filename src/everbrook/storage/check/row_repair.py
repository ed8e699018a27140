"""The repair of rows of the base: rows that follow from the heads of streams are written again, and rows without a
stream are set aside.

The repair is one transaction, and idempotent. It does not change the bytes of streams.
"""

from collections.abc import Iterator

import lmdb

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Head
from everbrook.storage.base_rows import (
    INCARNATION,
    PLACE,
    Database,
    Rows,
    is_producer,
    is_removal,
    seal,
    unseal,
    with_prefix,
)
from everbrook.storage.base_state import APPLIED, LAST_INCARNATION, MANIFEST_COPY, NUMBER, is_readable
from everbrook.storage.check.stream_cut import StreamCut, orphaned
from everbrook.storage.chunk import LOCATION, is_inline
from everbrook.storage.codec import pack_head, pack_identity
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.lost_found import LostAndFound
from everbrook.storage.manifest import StoreError

_KEY_BYTES = {
    **dict.fromkeys((Database.STREAMS, Database.MORTAL, Database.DAMAGED, Database.PRODUCERS), INCARNATION.size),
    **dict.fromkeys((Database.CHUNKS, Database.INDEXES), PLACE.size),
}
"""The databases that are keyed by streams, and the sizes of their keys. The key of a producer has its id after that."""


class RowRepair:
    """Repairs the rows of one base, after its journal was taken in."""

    def __init__(self, base: LmdbBase, cutter: StreamCut, lost: LostAndFound) -> None:
        self._base = base
        self._cutter = cutter
        self._lost = lost
        self._rows: Rows

    def run(self) -> Iterator[str]:
        """Repair the rows. Yields lines for the user."""
        with self._base.env.begin(write=True) as transaction:
            self._rows = Rows(transaction, self._base.databases)
            # First, because the other steps derive their rows from the heads that are left.
            yield from self._set_streams_aside()
            yield from self._mend_names()
            yield from self._mend_forks()
            self._mend_mortal()
            yield from self._mend_producers()
            self._mend_rest()

    # Rows

    def _all(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._rows.cursor(database):
            yield bytes(key), bytes(value)

    def _delete(self, database: bytes, keys: list[bytes]) -> None:
        for key in keys:
            self._rows.delete(database, key)

    def _head(self, incarnation: int) -> Head | None:
        head = self._rows.head(incarnation, whole=True)
        return head if head and head.identity.incarnation == incarnation else None

    def _heads(self) -> Iterator[Head]:
        for key, _ in self._all(Database.STREAMS):
            if head := self._head(INCARNATION.unpack(key)[0]):
                yield head

    # Streams without a readable row

    def _set_streams_aside(self) -> Iterator[str]:
        """Set aside streams without a readable row, and those whose names other streams hold."""
        for incarnation in sorted(self._lost_streams()):
            name = self._name_of(incarnation)
            kept = self._cutter.keep_bytes(incarnation, 0)
            if row := self._rows.get(Database.STREAMS, INCARNATION.pack(incarnation)):
                self._lost.keep(f"stream-{incarnation:016x}.row", [(0, row)])
            self._remove(incarnation)
            which = quoted(name) if name is not None else f"{incarnation:016x}"
            where = f"{kept.name} has its bytes" if kept else "nothing of it is left"
            yield f"stream {which} is lost with its row; {where}"

    def _lost_streams(self) -> set[int]:
        lost: set[int] = set()
        for database, key_bytes in _KEY_BYTES.items():
            broken = []
            for key, _ in self._all(database):
                if len(key) != key_bytes and (database != Database.PRODUCERS or len(key) < INCARNATION.size):
                    broken.append(key)
                elif self._head(incarnation := INCARNATION.unpack_from(key)[0]) is None:
                    lost.add(incarnation)
            self._delete(database, broken)
        for head in self._heads():
            # If the heads of two streams have the same name, the row of the name decides which one keeps it.
            holder = self._holder(head.identity.name)
            if holder != head.identity.incarnation and self._is(head.identity.name, holder):
                lost.add(head.identity.incarnation)
        return lost

    def _remove(self, incarnation: int) -> None:
        prefix = INCARNATION.pack(incarnation)
        for database in _KEY_BYTES:
            found = list(with_prefix(self._rows.cursor(database), prefix))
            for _, row in found:
                if database == Database.CHUNKS and not is_inline(row) and len(row) >= LOCATION.size:
                    self._rows.put(Database.REMOVALS, PLACE.pack(incarnation, LOCATION.unpack_from(row)[1]), b"")
            self._delete(database, [key for key, _ in found])

    # Names

    def _named(self) -> Iterator[tuple[bytes, int | None]]:
        for name, _ in self._all(Database.NAMES):
            yield name, self._holder(name)

    def _holder(self, name: bytes) -> int | None:
        packed = self._rows.value(Database.NAMES, name)
        return INCARNATION.unpack(packed)[0] if packed and len(packed) == INCARNATION.size else None

    def _name_of(self, incarnation: int) -> bytes | None:
        return next((name for name, holder in self._named() if holder == incarnation), None)

    def _is(self, name: bytes, incarnation: int | None) -> bool:
        head = self._head(incarnation) if incarnation is not None else None
        return head is not None and head.identity.name == name

    def _mend_names(self) -> Iterator[str]:
        wrong = [name for name, incarnation in self._named() if not self._is(name, incarnation)]
        self._delete(Database.NAMES, wrong)
        restored = set()
        for head in self._heads():
            if self._holder(head.identity.name) is None:
                restored.add(head.identity.name)
                self._rows.put(Database.NAMES, head.identity.name, INCARNATION.pack(head.identity.incarnation))
                yield f"name {quoted(head.identity.name)} leads to its stream again"
        for name in wrong:
            if name not in restored:
                yield f"name {quoted(name)} is removed: its stream is lost"

    # Rows that follow from the heads of streams

    def _mend_forks(self) -> Iterator[str]:
        wrong = []
        for key, sealed in self._all(Database.FORKS):
            source, fork = PLACE.unpack(key) if len(key) == PLACE.size else (0, 0)
            head = self._head(fork)
            place = head.identity.fork if head else None
            entered = place and place.source_incarnation == source and self._head(source)
            if not entered or unseal(key, sealed) is None:
                wrong.append(key)
        self._delete(Database.FORKS, wrong)
        for head in list(self._forked_heads()):
            identity, fork = head.identity, head.identity.fork
            if fork and self._head(fork.source_incarnation):
                self._rows.put(Database.FORKS, PLACE.pack(fork.source_incarnation, identity.incarnation), b"")
            else:
                for own in orphaned(head, self._forks, self._head):
                    name, begin = quoted(own.identity.name), own.kept.earliest
                    key = INCARNATION.pack(own.identity.incarnation)
                    self._rows.put(Database.STREAMS, key, pack_identity(own.identity) + pack_head(own))
                    yield f"stream {name} begins at offset {begin} now: what it was forked off is lost"

    def _forks(self, source: int) -> list[int]:
        found = with_prefix(self._rows.cursor(Database.FORKS), INCARNATION.pack(source))
        return [PLACE.unpack(key)[1] for key, _ in found]

    def _forked_heads(self) -> Iterator[Head]:
        """Yield the forks that have no row under their sources."""
        for head in self._heads():
            fork = head.identity.fork
            if (
                fork
                and self._rows.value(Database.FORKS, PLACE.pack(fork.source_incarnation, head.identity.incarnation))
                is None
            ):
                yield head

    def _mend_mortal(self) -> None:
        wrong = []
        for key, sealed in self._all(Database.MORTAL):
            head = self._head(INCARNATION.unpack(key)[0]) if len(key) == INCARNATION.size else None
            if head is None or not head.identity.mortal or unseal(key, sealed) is None:
                wrong.append(key)
        self._delete(Database.MORTAL, wrong)
        for head in self._heads():
            if head.identity.mortal:
                self._rows.put(Database.MORTAL, INCARNATION.pack(head.identity.incarnation), b"")

    def _mend_producers(self) -> Iterator[str]:
        wrong = []
        for key, sealed in self._all(Database.PRODUCERS):
            packed = unseal(key, sealed)
            if not is_producer(packed):
                wrong.append(key)
                head = self._head(INCARNATION.unpack_from(key)[0])
                name = quoted(head.identity.name) if head else "unknown"
                yield f"producer {quoted(key[INCARNATION.size :])} of stream {name} is forgotten"
        self._delete(Database.PRODUCERS, wrong)

    def _mend_rest(self) -> None:
        indexes = [key for key, _ in self._all(Database.INDEXES)]
        self._delete(Database.INDEXES, [key for key in indexes if self._rows.get(Database.CHUNKS, key) is None])
        removals = list(self._all(Database.REMOVALS))
        self._delete(Database.REMOVALS, [key for key, row in removals if not is_removal(key, row) or self._in_use(key)])

    def _in_use(self, removal: bytes) -> bool:
        incarnation, segment = PLACE.unpack(removal)
        found = with_prefix(self._rows.cursor(Database.CHUNKS), INCARNATION.pack(incarnation))
        located = (row for _, row in found if not is_inline(row) and len(row) >= LOCATION.size)
        return any(LOCATION.unpack_from(row)[1] == segment for row in located)


def repair_meta(env: lmdb.Environment, manifest: bytes, incarnation: int, *, journal_empty: bool) -> Iterator[str]:
    """Replace the rows of the base's state that can't be read.

    `manifest` is the one in the store's folder, `incarnation` is larger than all incarnations that were used.
    """
    database = env.open_db(Database.META)
    with env.begin(write=True) as transaction:
        rows = {bytes(key): unseal(bytes(key), bytes(value)) for key, value in transaction.cursor(database)}
        broken = [key for key, value in rows.items() if not is_readable(key, value)]
        # Without this number, a replay would apply changes twice that are in the base already.
        if APPLIED in broken and not journal_empty:
            raise StoreError("it is not known which changes of the journal are in the base: restore a backup")
        anew = {
            APPLIED: NUMBER.pack(0),
            LAST_INCARNATION: NUMBER.pack(incarnation),
            MANIFEST_COPY: manifest,
        }
        for key in broken:
            if value := anew.get(key):
                transaction.put(key, seal(key, value), db=database)
            else:
                transaction.delete(key, db=database)
            yield f"the row of {key.decode('utf-8', 'replace')!r} in the base is written again"
