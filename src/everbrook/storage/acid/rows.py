"""Rows of a shard: how keys are made, how values are sealed, and how a cursor finds its way among them.

Keys are big-endian, so that LMDB's order is ours. All of a stream is keyed by its incarnation. LMDB has no checksums,
so each value has one of ours behind it.
"""

import zlib
from collections.abc import Iterator
from struct import Struct

import lmdb

INCARNATION = Struct(">Q")
PLACE = Struct(">QQ")
CHECKSUM = Struct("<I")
# What LMDB allows, and so the longest name.
MAX_KEY_BYTES = 511


def seal(key: bytes, value: bytes) -> bytes:
    """Add a checksum of key and value."""
    return value + CHECKSUM.pack(zlib.crc32(value, zlib.crc32(key)))


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Give a sealed value, or None if it is damaged."""
    value = sealed[: -CHECKSUM.size]
    return value if sealed == seal(key, value) else None


def with_prefix(cursor: lmdb.Cursor, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
    """Give the rows whose keys begin with `prefix` and follow `after`."""
    start = max(prefix, after)[:MAX_KEY_BYTES]
    if not (cursor.set_range(start) if start else cursor.first()):
        return
    for key, value in cursor:
        # They are bytes already, unless the transaction gives buffers.
        name = bytes(key)
        if not name.startswith(prefix):
            return
        if name > after:
            yield name, bytes(value)


def holds(cursor: lmdb.Cursor, incarnation: int) -> bool:
    """Tell whether a cursor is at a chunk of a stream."""
    key = bytes(cursor.key())
    return len(key) == PLACE.size and PLACE.unpack(key)[0] == incarnation


def start_of(cursor: lmdb.Cursor) -> int:
    """Give where the chunk starts that a cursor is at."""
    return int(PLACE.unpack(cursor.key())[1])


def seek_before(cursor: lmdb.Cursor, key: bytes) -> bool:
    """Go to the last place before `key`."""
    return cursor.prev() if cursor.set_range(key) else cursor.last()


def seek_chunk(cursor: lmdb.Cursor, incarnation: int, offset: int) -> bool:
    """Go to the chunk that holds the byte at `offset`, or the last one before it. Tells whether there is one."""
    return offset >= 0 and seek_before(cursor, PLACE.pack(incarnation, offset + 1)) and holds(cursor, incarnation)
