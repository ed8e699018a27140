"""Reading a shard: what is needed is copied, and the transaction ends. A slow client never pins LMDB's pages."""

from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import lmdb

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Producer
from everbrook.storage.acid.chunks import unpack_extent, unpack_index
from everbrook.storage.acid.rows import (
    CHECKSUM,
    INCARNATION,
    PLACE,
    holds,
    seek_chunk,
    start_of,
    unseal,
    with_prefix,
)
from everbrook.storage.index import MessageIndex, Messages
from everbrook.storage.packing import Unpacker, unpack_head, unpack_identity, unpack_producer


class ShardReader:
    """What can be asked of one LMDB environment."""

    _folder: Path
    _env: lmdb.Environment
    _names: "lmdb._Database"
    _streams: "lmdb._Database"
    _producers: "lmdb._Database"
    _forks: "lmdb._Database"
    _chunks: "lmdb._Database"
    _indexes: "lmdb._Database"
    _mortal: "lmdb._Database"
    _damaged: "lmdb._Database"

    def _get(self, database: "lmdb._Database", key: bytes) -> bytes | None:
        with self._env.begin() as transaction:
            sealed = transaction.get(key, db=database)
        return None if sealed is None else self._unsealed(key, bytes(sealed))

    def _unsealed(self, key: bytes, sealed: bytes) -> bytes:
        value = unseal(key, sealed)
        if value is None:
            raise StreamDamaged(f"what is stored under {key.hex()} in {self._folder.name} is damaged")
        return value

    # Streams

    @property
    def last_incarnation(self) -> int:
        """The largest incarnation of a stream in this shard."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor(self._streams)
            return int(INCARNATION.unpack(cursor.key())[0]) if cursor.last() else 0

    def incarnation(self, name: bytes) -> int | None:
        """Give the stream that has a name."""
        packed = self._get(self._names, name)
        return int(INCARNATION.unpack(packed)[0]) if packed else None

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream."""
        packed = self._get(self._streams, INCARNATION.pack(incarnation))
        return None if packed is None else parse_head(packed)

    def glance(self) -> "Glance":
        """Begin to look at names and heads."""
        return Glance(self._env.begin(), self._names, self._streams)

    def producers(self, incarnation: int) -> dict[bytes, Producer]:
        """Give what a stream remembers of its producers."""
        prefix = INCARNATION.pack(incarnation)
        with self._env.begin() as transaction:
            found = with_prefix(transaction.cursor(self._producers), prefix)
            return {key[len(prefix) :]: unpack_producer(Unpacker(self._unsealed(key, sealed))) for key, sealed in found}

    def forks(self, source: int, after: int = 0, limit: int | None = None) -> list[int]:
        """Give the streams that branch off one, those younger than `after`, the oldest first."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor(self._forks)
            found = with_prefix(cursor, INCARNATION.pack(source), PLACE.pack(source, after))
            return [PLACE.unpack(key)[1] for key, _ in islice(found, limit)]

    def mortal(self, after: int, limit: int) -> list[int]:
        """Give streams that time acts on, in the order of their incarnations."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor(self._mortal)
            if not cursor.set_range(INCARNATION.pack(after + 1)):
                return []
            keys = cursor.iternext(keys=True, values=False)
            return [INCARNATION.unpack(key)[0] for key in islice(keys, limit)]

    def damaged(self) -> list[int]:
        """Give the streams of which a part was lost."""
        with self._env.begin() as transaction:
            keys = transaction.cursor(self._damaged).iternext(keys=True, values=False)
            return [INCARNATION.unpack(key)[0] for key in keys]

    # Bytes and messages

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the bytes of a stream from `start` to `end`."""
        parts: list[bytes] = []
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._chunks)
            if not seek_chunk(cursor, incarnation, start):
                raise KeyError(incarnation)
            while start < end:
                chunk_start = start_of(cursor)
                part = self._part(bytes(cursor.key()), cursor.value(), start - chunk_start, end - chunk_start)
                parts.append(part)
                start += len(part)
                if start < end:
                    cursor.next()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, key: bytes, sealed: bytes | memoryview, start: int, end: int) -> bytes:
        """Copy a part out of a chunk. One that is read whole is verified as well."""
        size = len(sealed) - CHECKSUM.size
        if start or end < size:
            return bytes(sealed[start : min(end, size)])
        return self._unsealed(key, bytes(sealed))

    def index_at(self, incarnation: int, offset: int) -> MessageIndex:
        """Give the index of the chunk that holds the byte at `offset`."""
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            if not seek_chunk(cursor, incarnation, offset):
                raise KeyError(incarnation)
            return self._index(cursor)

    def _index(self, cursor: lmdb.Cursor) -> MessageIndex:
        return unpack_index(self._unsealed(bytes(cursor.key()), bytes(cursor.value())), start_of(cursor))

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Give the messages that end after `start` and not after `end`."""
        ends, times = array("Q"), array("Q")
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            there = seek_chunk(cursor, incarnation, start)
            while there and holds(cursor, incarnation) and start_of(cursor) < end:
                found = self._index(cursor).messages_between(start, end)
                ends.extend(found.ends)
                times.extend(found.times)
                there = cursor.next()
        return Messages(ends, times)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Go `count` messages on from an offset, backwards if negative, as far as there are any."""
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._indexes)
            if not seek_chunk(cursor, incarnation, offset if count >= 0 else offset - 1):
                return offset, count
            position, left = self._index(cursor).seek(offset, count)
            go_on = self._seek_on if count >= 0 else self._seek_back
            return go_on(cursor, incarnation, position, left)

    def _seek_on(self, cursor: lmdb.Cursor, incarnation: int, position: int, left: int) -> tuple[int, int]:
        while left and cursor.next() and holds(cursor, incarnation):
            start = start_of(cursor)
            messages, size = self._extent(cursor)
            if messages < left:
                position, left = start + size, left - messages
            else:
                position, left = self._index(cursor).seek(start, left)
        return position, left

    def _seek_back(self, cursor: lmdb.Cursor, incarnation: int, position: int, left: int) -> tuple[int, int]:
        while left and cursor.prev() and holds(cursor, incarnation):
            start = start_of(cursor)
            messages, size = self._extent(cursor)
            if messages < -left:
                position, left = start, left + messages
            else:
                position, left = self._index(cursor).seek(start + size, left)
        return position, left

    def _extent(self, cursor: lmdb.Cursor) -> tuple[int, int]:
        """Give how many messages the chunk at a cursor has, and how many bytes, without reading all of its index."""
        extent = unpack_extent(cursor.value()[: -CHECKSUM.size])
        if extent is None:
            raise StreamDamaged(f"what is stored under {bytes(cursor.key()).hex()} in {self._folder.name} is damaged")
        return extent

    def bytes_before(self, incarnation: int, floor: int) -> int:
        """Count the bytes in chunks that lie wholly before an offset."""
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._chunks)
            if not cursor.set_range(PLACE.pack(incarnation, 0)) or not holds(cursor, incarnation):
                return 0
            first = start_of(cursor)
            if first >= floor:
                return 0
            seek_chunk(cursor, incarnation, floor - 1)
            start, size = start_of(cursor), len(cursor.value()) - CHECKSUM.size
            return (start + size if start + size <= floor else start) - first


class Glance:
    """Names and heads as they are at one moment."""

    def __init__(self, transaction: lmdb.Transaction, names: "lmdb._Database", streams: "lmdb._Database") -> None:
        self._transaction = transaction
        self._names = names
        self._streams = streams

    def names(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int | None]]:
        """Give names in order, and whose they are; None if that is damaged."""
        for name, sealed in with_prefix(self._transaction.cursor(self._names), prefix, after):
            packed = unseal(name, sealed)
            yield name, INCARNATION.unpack(packed)[0] if packed else None

    def has(self, name: bytes) -> bool:
        """Tell whether a name is taken."""
        return self._transaction.get(name, db=self._names) is not None

    def count(self, prefix: bytes) -> int:
        """Count the names that begin with `prefix`."""
        cursor = self._transaction.cursor(self._names)
        if not (cursor.set_range(prefix) if prefix else cursor.first()):
            return 0
        count = 0
        for name in cursor.iternext(keys=True, values=False):
            if not bytes(name).startswith(prefix):
                break
            count += 1
        return count

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream, if it is there and not damaged."""
        key = INCARNATION.pack(incarnation)
        sealed = self._transaction.get(key, db=self._streams)
        packed = None if sealed is None else unseal(key, bytes(sealed))
        return None if packed is None else parse_head(packed)

    def end(self) -> None:
        """Let go of LMDB's pages."""
        self._transaction.abort()


def parse_head(packed: bytes) -> Head:
    """Read a row of the streams."""
    unpacker = Unpacker(packed)
    return unpack_head(unpacker, unpack_identity(unpacker))[0]
