"""Rows of the base: the form of keys, the checksums of values, and searches with a cursor.

Keys are big-endian, so that LMDB sorts them as numbers. All rows of a stream are keyed by its incarnation. LMDB has no
checksums, so each value ends with one of ours. It covers the key too: a row in another row's place does not verify.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from struct import Struct
from typing import Any

import lmdb

from everbrook.protocol.state import Head, Identity
from everbrook.storage.codec import Unpacker, pack_producer, unpack_head, unpack_identity, unpack_producer
from everbrook.storage.damage import DamageMark
from everbrook.storage.manifest import BASE

INCARNATION = Struct(">Q")
PLACE = Struct(">QQ")
CHECKSUM = Struct("<I")
_OFFSET = Struct("<Q")
# The longest key of LMDB, and so the longest name.
MAX_KEY_BYTES = 511

DATA = "data.mdb"
"""The file of LMDB in the folder of the base."""


class Database:
    """The names of LMDB's databases."""

    META, NAMES, STREAMS, PRODUCERS, FORKS = b"meta", b"names", b"streams", b"producers", b"forks"
    CHUNKS, INDEXES, MORTAL, DAMAGED, REMOVALS = b"chunks", b"indexes", b"mortal", b"damaged", b"removals"
    ALL = (META, NAMES, STREAMS, PRODUCERS, FORKS, CHUNKS, INDEXES, MORTAL, DAMAGED, REMOVALS)


UNREADABLE = (struct.error, ValueError, IndexError, KeyError)
"""The errors of unpacking: bytes may verify and still be impossible to parse, if another version wrote them."""


class Rows:
    """The rows of the base in one transaction."""

    def __init__(self, transaction: "lmdb.Transaction[Any]", databases: "dict[bytes, lmdb._Database]") -> None:
        self._transaction = transaction
        self._databases = databases

    def cursor(self, database: bytes) -> "lmdb.Cursor[Any]":
        return self._transaction.cursor(self._databases[database])

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Return a value with its checksum."""
        value = self._transaction.get(key, db=self._databases[database])
        return None if value is None else bytes(value)

    def value(self, database: bytes, key: bytes) -> bytes | None:
        """Return a value without its checksum; None if it is missing or damaged."""
        sealed = self.get(database, key)
        return None if sealed is None else unseal(key, sealed)

    def head(self, incarnation: int, *, whole: bool = False) -> Head | None:
        """Return the head of a stream; None if it is missing or unreadable. `whole`: it must end where its row ends."""
        return readable_head(self.value(Database.STREAMS, INCARNATION.pack(incarnation)), whole=whole)

    def store(self, database: bytes, key: bytes, row: bytes) -> None:
        self._transaction.put(key, row, db=self._databases[database])

    def put(self, database: bytes, key: bytes, value: bytes) -> None:
        self.store(database, key, seal(key, value))

    def delete(self, database: bytes, key: bytes) -> None:
        self._transaction.delete(key, db=self._databases[database])


def seal(key: bytes, value: bytes) -> bytes:
    """Append a checksum of key and value to a value."""
    return value + CHECKSUM.pack(zlib.crc32(value, zlib.crc32(key)))


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Return a value without its checksum, or None if it is damaged."""
    value = sealed[: -CHECKSUM.size]
    return value if sealed[-CHECKSUM.size :] == CHECKSUM.pack(zlib.crc32(value, zlib.crc32(key))) else None


def with_prefix(cursor: lmdb.Cursor, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Yield the rows whose keys begin with `prefix` and follow `after`."""
    start = max(prefix, after)[:MAX_KEY_BYTES]
    if not (cursor.set_range(start) if start else cursor.first()):
        return
    for key, value in cursor:
        # The transaction may give buffers, which are valid only until the cursor moves.
        name = bytes(key)
        if not name.startswith(prefix):
            return
        if name > after:
            yield name, bytes(value)


class RowDamaged(Exception):
    """A row does not verify, or is out of order, so that a search may have missed its row."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key.hex())
        self.key = key


def verified_range(
    cursor: lmdb.Cursor, prefix: bytes, after: bytes, is_foreign: Callable[[bytes, bytes], bool]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the verified rows whose keys begin with `prefix` and follow `after`.

    Raises `RowDamaged` if one of them may be missing. A row whose key is damaged is out of order: it may be next to the
    range to which it belongs. `is_foreign` returns, for the key and the value of a damaged row next to the range,
    whether the row belongs to another range.
    """
    start = max(prefix, after)[:MAX_KEY_BYTES]
    if start:
        _verify_before(cursor, start, is_foreign)
    there = cursor.set_range(start) if start else cursor.first()
    before, misled = b"", False
    while there:
        key, sealed = bytes(cursor.key()), bytes(cursor.value())
        value, inside = unseal(key, sealed), key.startswith(prefix)
        if value is None:
            if inside or not is_foreign(key, sealed):
                raise RowDamaged(key)
            misled = True
        elif inside or not misled or key > start:
            if key < max(start, before) or (misled and inside and key <= after):
                raise RowDamaged(key)
            if not inside:
                return
            if key > after:
                yield key, value
            before = key
        there = cursor.next()


def _verify_before(cursor: lmdb.Cursor, start: bytes, is_foreign: Callable[[bytes, bytes], bool]) -> None:
    """Verify the row before `start`, and further ones while they are damaged: a damaged key misleads LMDB's search."""
    there = cursor.prev() if cursor.set_range(start) else cursor.last()
    while there:
        key, sealed = bytes(cursor.key()), bytes(cursor.value())
        whole = unseal(key, sealed) is not None
        if key >= start or not (whole or is_foreign(key, sealed)):
            raise RowDamaged(key)
        there = not whole and cursor.prev()


def holds(cursor: lmdb.Cursor, incarnation: int) -> bool:
    """Return whether the chunk at a cursor belongs to a stream."""
    key = bytes(cursor.key())
    return len(key) == PLACE.size and PLACE.unpack(key)[0] == incarnation


def start_of(cursor: lmdb.Cursor) -> int:
    """Return the start of the chunk at a cursor."""
    return int(PLACE.unpack(cursor.key())[1])


def seek_before(cursor: lmdb.Cursor, key: bytes) -> bool:
    """Go to the last row before `key`. Returns whether it exists."""
    return cursor.prev() if cursor.set_range(key) else cursor.last()


def seek_chunk(cursor: lmdb.Cursor, incarnation: int, offset: int) -> bool:
    """Go to the chunk with the byte at `offset`, or to the last one before it. Returns whether it exists."""
    return offset >= 0 and seek_before(cursor, PLACE.pack(incarnation, offset + 1)) and holds(cursor, incarnation)


def place_of(database: bytes, key: bytes) -> str:
    return f"{BASE}/{DATA} {database.decode()} {key.hex()}"


def parse_head(packed: bytes, *, whole: bool = False) -> Head:
    """Parse a row of the streams. With `whole`, nothing may follow the head."""
    unpacker = Unpacker(packed)
    head, _ = unpack_head(unpacker, unpack_identity(unpacker))
    if whole and unpacker.position != len(packed):
        raise ValueError(f"the row has {len(packed)} bytes, and its head ends at {unpacker.position}")
    return head


def readable_head(packed: bytes | None, *, whole: bool = False) -> Head | None:
    """Parse a row of the streams. None: it is missing or can't be parsed."""
    with suppress(*UNREADABLE):
        return None if packed is None else parse_head(packed, whole=whole)
    return None


def is_producer(packed: bytes | None) -> bool:
    """Return whether a row of the producers verifies and has one producer, with or without a position, and no more."""
    with suppress(*UNREADABLE):
        return packed is not None and pack_producer(unpack_producer(packed)) == packed
    return False


def is_removal(key: bytes, sealed: bytes) -> bool:
    """Return whether a row of the removals verifies. Its key names the segment; its value is empty."""
    return len(key) == PLACE.size and unseal(key, sealed) is not None


def parse_mark(packed: bytes | None) -> DamageMark:
    """Parse a damage mark. If the mark is damaged too, the whole stream counts as damaged."""
    if packed is None or len(packed) < _OFFSET.size:
        return DamageMark(0, "the row that describes its damage is damaged too")
    return DamageMark(_OFFSET.unpack_from(packed)[0], packed[_OFFSET.size :].decode("utf-8", "replace"))


def pack_mark(mark: DamageMark) -> bytes:
    return _OFFSET.pack(mark.offset) + mark.reason.encode()


def unknown_identity(name: bytes, incarnation: int) -> Identity:
    """Return a placeholder for the identity of a stream whose row is damaged."""
    return Identity(name, incarnation, b"application/octet-stream", b"application/octet-stream", 0)
