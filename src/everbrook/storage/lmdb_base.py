"""The base: everything that checkpoints have taken out of the journal, in one LMDB environment.

Names, heads, producers, forks and message indexes are rows; the bytes of chunks are rows too, or are in segments. A
read copies the bytes that it needs and ends its transaction, so that a slow client never pins LMDB's pages.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import Any

import lmdb

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Producer
from everbrook.storage.base_rows import (
    DATA,
    INCARNATION,
    MAX_KEY_BYTES,
    PLACE,
    UNREADABLE,
    Database,
    RowDamaged,
    Rows,
    holds,
    is_removal,
    parse_head,
    parse_mark,
    place_of,
    seek_chunk,
    start_of,
    unseal,
    verified_range,
    with_prefix,
)
from everbrook.storage.base_state import STATE, BaseState, parse_state
from everbrook.storage.chunk import chunk_length, is_inline, parse_location
from everbrook.storage.chunk_reader import ChunkReader
from everbrook.storage.codec import unpack_producer
from everbrook.storage.damage import Damaged, DamageMark
from everbrook.storage.disk import Disk
from everbrook.storage.hold import Hold
from everbrook.storage.manifest import BASE, StoreError
from everbrook.storage.segments import Segments
from everbrook.storage.tuning import DEFAULT_TUNING, StorageTuning

LMDB_LOCK = "lock.mdb"
# The size of the address range that LMDB maps. It reserves neither memory nor disk: the file grows as it is written.
MAP_BYTES = 1 << 40
MAX_OFFSET = 2**63

DATABASE = Struct("<IHHQQQQQ")
"""LMDB's row of a database: unused, flags, depth, pages of three kinds, count of rows, first page."""
ORDER_FLAGS = 0x7E
"""The flags of a database that let LMDB compare keys, or keep values, in another way."""
LMDB_ERRORS = (lmdb.Error, SystemError)
"""The errors of LMDB. A deletion that meets a damaged page raises `SystemError`, caused by `lmdb.Error`."""
LOST_PAGES = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.BadTxnError)
"""The errors of LMDB about damaged pages. The last one comes from a transaction that has met such a page before."""

OpenEnvironment = Callable[[Path], lmdb.Environment]


def open_environment(folder: Path) -> lmdb.Environment:
    """Open the LMDB environment in a folder, or create it. Its commits are on the disk when they return.

    A file that has grown to the size of its map gets a larger map when it is opened again.
    """
    path = folder / DATA
    size = path.stat().st_size if path.exists() else 0
    # Reads are at random places: read-ahead would only push other pages out of the page cache.
    return lmdb.open(str(folder), map_size=max(MAP_BYTES, 2 * size), max_dbs=16, readahead=False)


def open_base(
    disk: Disk, folder: Path, tuning: StorageTuning = DEFAULT_TUNING, *, in_segments: bool = False
) -> "LmdbBase":
    """Open the base of a store that no server uses. `in_segments`: full chunks are written to segments."""
    segments = Segments(
        disk,
        folder,
        Hold(disk),
        max_bytes=tuning.segment_bytes,
        max_open=tuning.max_open_segments,
        used=in_segments,
    )
    return LmdbBase(folder, segments)


class LmdbBase:
    """The LMDB environment of the base, and the reads of its rows."""

    def __init__(self, folder: Path, segments: Segments, open_environment: OpenEnvironment = open_environment) -> None:
        self.folder = folder / BASE
        self.segments = segments
        try:
            self.env = open_environment(self.folder)
            # Before `open_db`, which creates a database that it does not find.
            self._verify_databases()
            self.databases = {name: self.env.open_db(name) for name in Database.ALL}
            self.chunks = ChunkReader(self.reading, self.databases, segments)
        except lmdb.Error as error:
            raise StoreError(f"{self.folder / DATA} can't be opened: {error}") from error

    def _verify_databases(self) -> None:
        """Verify LMDB's list of databases, which has no checksum.

        If a name in it is damaged, LMDB would silently create an empty database of the right name. A new file gets the
        databases in order, each in its own transaction, so the transaction number is their count.
        """
        with self.env.begin() as transaction:
            rows = islice(transaction.cursor(), len(Database.ALL) + 1)
            listed = {bytes(name): bytes(row) for name, row in rows}
            made = Database.ALL[: transaction.id()]
        if listed.keys() != set(made) or not all(map(is_plain_database, listed.values())):
            self.env.close()
            raise StoreError(f"{self.folder / DATA} is damaged: its list of databases is damaged")

    @contextmanager
    def reading(self, incarnation: int | None = None, *, buffers: bool = False) -> "Iterator[lmdb.Transaction[Any]]":
        """Begin a read transaction, for one stream if it is given. Errors of LMDB are raised as damage of its file."""
        try:
            with self.env.begin(buffers=True) if buffers else self.env.begin() as transaction:
                yield transaction
        except (RowDamaged, lmdb.Error) as error:
            row_damaged = isinstance(error, RowDamaged)
            place = f"{BASE}/{DATA} {error}" if row_damaged else f"{BASE}/{DATA}"
            problem = "a row near it is damaged" if row_damaged else f"LMDB can't read it: {error}"
            if incarnation is not None and isinstance(error, (RowDamaged, *LOST_PAGES)):
                raise Damaged(incarnation, 0, place, problem) from error
            raise StreamDamaged(f"{place}: {problem}") from error

    def rows(self, database: bytes, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows whose keys begin with `prefix`, in order, with their checksums."""
        with self.reading() as transaction:
            yield from with_prefix(transaction.cursor(self.databases[database]), prefix)

    def _get(self, database: bytes, key: bytes) -> bytes | None:
        incarnation = INCARNATION.unpack(key)[0] if database == Database.STREAMS else None
        with self.reading(incarnation) as transaction:
            sealed = transaction.get(key, db=self.databases[database])
        return None if sealed is None else self._unsealed(database, key, bytes(sealed))

    def _unsealed(self, database: bytes, key: bytes, sealed: bytes) -> bytes:
        value = unseal(key, sealed)
        if value is None:
            if database in {Database.META, Database.NAMES}:
                raise StreamDamaged(f"{place_of(database, key)}: its checksum is wrong")
            raise Damaged(INCARNATION.unpack_from(key)[0], 0, place_of(database, key), "its checksum is wrong")
        return value

    def state(self) -> BaseState:
        try:
            values = {key: self._get(Database.META, key) for key in STATE}
        except StreamDamaged as error:
            raise StoreError(f"{self.folder / DATA} is damaged: {error}") from None
        return parse_state({key: value for key, value in values.items() if value})

    # Streams

    def incarnation(self, name: bytes) -> int | None:
        """Return the incarnation of a name. Raises `StreamDamaged` if a damaged row may be the one of this name."""
        packed = self._get(Database.NAMES, name)
        if packed is None:
            with self.reading() as transaction:
                names = verified_range(
                    transaction.cursor(self.databases[Database.NAMES]), name, name, partial(self._is_other_name, name)
                )
                # Verify the rows next to the place of the name: a damaged one may be the row of this name.
                next(names, None)
        return int(INCARNATION.unpack(packed)[0]) if packed else None

    def _is_other_name(self, name: bytes, _key: bytes, sealed: bytes) -> bool:
        """Return whether a damaged row of the names belongs to another name, according to the head of its stream."""
        holder = self._head_of(sealed[: INCARNATION.size])
        return holder is not None and holder.identity.name != name

    def _is_other_fork(self, source: int, key: bytes, sealed: bytes) -> bool:
        """Return whether a damaged row of the forks belongs to another source, according to the head of the fork."""
        head = self._head_of(key[INCARNATION.size :])
        fork = head.identity.fork if head else None
        return fork.source_incarnation != source if fork else self._is_known(key, sealed)

    def _is_known(self, key: bytes, _sealed: bytes) -> bool:
        """Return whether a damaged row belongs to a stream that exists. The head of that stream may be damaged too."""
        with self.reading() as transaction:
            return transaction.get(key[: INCARNATION.size], db=self.databases[Database.STREAMS]) is not None

    def _head_of(self, key: bytes) -> Head | None:
        return self.readable_head(INCARNATION.unpack(key)[0]) if len(key) == INCARNATION.size else None

    def head(self, incarnation: int) -> Head | None:
        key = INCARNATION.pack(incarnation)
        packed = self._get(Database.STREAMS, key)
        try:
            return None if packed is None else parse_head(packed)
        except UNREADABLE:
            raise Damaged(incarnation, 0, place_of(Database.STREAMS, key), "its head can't be read") from None

    def readable_head(self, incarnation: int) -> Head | None:
        """Return the head of a stream; None if it is missing or damaged."""
        with suppress(StreamDamaged):
            return self.head(incarnation)
        return None

    @contextmanager
    def reading_names(self) -> Iterator["NameReader"]:
        """Begin to read names and heads in one transaction."""
        with self.reading() as transaction:
            yield NameReader(transaction, self.databases)

    def producers(self, incarnation: int) -> dict[bytes, Producer]:
        prefix = INCARNATION.pack(incarnation)
        with self.reading(incarnation) as transaction:
            found = verified_range(transaction.cursor(self.databases[Database.PRODUCERS]), prefix, b"", self._is_known)
            return {key[len(prefix) :]: unpack_producer(value) for key, value in found}

    def forks(self, source: int, after: int = 0, limit: int | None = None) -> list[int]:
        """Return the forks of a stream that are younger than `after`, the oldest first."""
        with self.reading(source) as transaction:
            cursor = transaction.cursor(self.databases[Database.FORKS])
            is_other = partial(self._is_other_fork, source)
            found = verified_range(cursor, INCARNATION.pack(source), PLACE.pack(source, after), is_other)
            return [PLACE.unpack(key)[1] for key, _ in islice(found, limit)]

    def mortal(self, after: int, limit: int) -> list[int]:
        """Return streams with a lifetime or a retention policy, in the order of their incarnations."""
        with self.reading() as transaction:
            try:
                cursor = transaction.cursor(self.databases[Database.MORTAL])
                found = verified_range(cursor, b"", INCARNATION.pack(after), lambda _key, _sealed: False)
                return [INCARNATION.unpack(key)[0] for key, _ in islice(found, limit)]
            except RowDamaged:
                # The heads of the streams have the same information, but all of them must be read.
                return list(islice(self._mortal_heads(transaction, after), limit))

    def _mortal_heads(self, transaction: "lmdb.Transaction[Any]", after: int) -> Iterator[int]:
        names = NameReader(transaction, self.databases)
        for key, _ in with_prefix(transaction.cursor(self.databases[Database.STREAMS]), b"", INCARNATION.pack(after)):
            head = names.head(INCARNATION.unpack(key)[0]) if len(key) == INCARNATION.size else None
            if head and head.identity.mortal:
                yield head.identity.incarnation

    def marks(self) -> dict[int, DamageMark]:
        """Return the damage marks of streams."""
        marks: dict[int, DamageMark] = {}
        for key, sealed in self.rows(Database.DAMAGED):
            # A row with a damaged key is listed under 0, an incarnation that no stream has, so that it is not
            # forgotten.
            incarnation = INCARNATION.unpack(key)[0] if len(key) == INCARNATION.size else 0
            marks[incarnation] = parse_mark(unseal(key, sealed))
        return marks

    def removals(self) -> list[tuple[int, int]]:
        """Return the segments without chunks whose files may still exist. Damaged rows are skipped."""
        return [PLACE.unpack(key) for key, sealed in self.rows(Database.REMOVALS) if is_removal(key, sealed)]

    def lacks_segment(self, incarnation: int, segment: int, last_incarnation: int) -> bool:
        """Return whether a segment is certainly newer than all chunks of its stream in the base.

        It is uncertain if the chunks of the stream have a gap before its tail: a lost row may locate a chunk in the
        segment. A stream without a head in the base is newer than the base if its incarnation is larger than
        `last_incarnation`.
        """
        try:
            head = self.head(incarnation)
            with self.reading(incarnation) as transaction:
                cursor = transaction.cursor(self.databases[Database.CHUNKS])
                there = seek_chunk(cursor, incarnation, MAX_OFFSET)
                if head is None:
                    return not there and incarnation > last_incarnation
                end = head.tail
                while there and holds(cursor, incarnation):
                    row, start = cursor.value(), start_of(cursor)
                    if start + chunk_length(row) != end:
                        return False
                    if not is_inline(row):
                        return parse_location(bytes(cursor.key()), row) is not None and segment >= end
                    end, there = start, cursor.prev()
        except StreamDamaged:
            return False
        return end <= max(head.identity.first_own_offset, head.kept.earliest)

    def close(self) -> None:
        self.env.close()
        self.segments.close()


class NameReader(Rows):
    """Reads names and heads in one transaction."""

    def names(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int | None]]:
        """Yield names in order, with their incarnations; None if the row is damaged."""
        cursor = self.cursor(Database.NAMES)
        start = max(prefix, after)[:MAX_KEY_BYTES]
        there = self._seek(cursor, start) if start else cursor.first()
        while there:
            name = bytes(cursor.key())
            packed = unseal(name, bytes(cursor.value()))
            if name.startswith(prefix) and name > after:
                yield name, INCARNATION.unpack(packed)[0] if packed else None
            elif packed and name > start and not name.startswith(prefix):
                return
            # A damaged key may be out of order, so names of the range may follow it: go on to a verified key behind it.
            there = cursor.next()

    @staticmethod
    def _seek(cursor: lmdb.Cursor, start: bytes) -> bool:
        """Go to the first name from `start` on, even if a damaged key has misled LMDB."""
        there = cursor.prev() if cursor.set_range(start) else cursor.last()
        while there:
            key = bytes(cursor.key())
            if key < start and unseal(key, bytes(cursor.value())) is not None:
                break
            there = cursor.prev()
        return cursor.next() if there else cursor.first()

    def count_without(self, prefix: bytes, names: "set[bytes]") -> int:
        """Count the names that begin with `prefix` and are not among `names`."""
        here = sum(self.get(Database.NAMES, name) is not None for name in names)
        return self._count(prefix) - here

    def _count(self, prefix: bytes) -> int:
        cursor = self.cursor(Database.NAMES)
        if not (cursor.set_range(prefix) if prefix else cursor.first()):
            return 0
        count = 0
        for name in cursor.iternext(keys=True, values=False):
            if not bytes(name).startswith(prefix):
                break
            count += 1
        return count


def is_plain_database(row: bytes) -> bool:
    """Return whether LMDB keeps a database in the plain order of its keys: no flag changes it."""
    return len(row) == DATABASE.size and not DATABASE.unpack(row)[1] & ORDER_FLAGS
