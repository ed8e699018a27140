"""A shard: one LMDB environment with everything that was folded into it.

Keys are big-endian, so that LMDB's order is ours. All of a stream is keyed by its incarnation. LMDB has no checksums,
so each value has one of ours behind it.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

import lmdb

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Producer
from everbrook.storage.acid.chunks import (
    CHUNK_BYTES,
    Chunk,
    ChunkIndex,
    cut_chunks,
    joined,
    pack_index,
    unpack_index,
)
from everbrook.storage.acid.recent import RecentStream
from everbrook.storage.acid.residency import Residency
from everbrook.storage.packing import (
    Unpacker,
    pack_head,
    pack_identity,
    pack_producer,
    unpack_head,
    unpack_identity,
    unpack_producer,
)

# An address range, not memory and not disk: the file grows as it is written.
MAP_BYTES = 1 << 40
# A last chunk smaller than this takes the next appends in, so that a slow stream is not a heap of crumbs.
CRUMB_BYTES = 16 * 1024

INCARNATION = Struct(">Q")
PLACE = Struct(">QQ")
NUMBER = Struct("<Q")
APPLIED = b"applied"


CHECKSUM = Struct("<I")


def seal(key: bytes, value: bytes) -> bytes:
    """Add a checksum of key and value."""
    return value + CHECKSUM.pack(zlib.crc32(value, zlib.crc32(key)))


def unseal(key: bytes, sealed: bytes) -> bytes | None:
    """Give a sealed value, or None if it is damaged."""
    value = sealed[: -CHECKSUM.size]
    return value if sealed == seal(key, value) else None


class Shard:
    """Reads from, and folds into, one LMDB environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._residency = Residency(folder / "data.mdb")
        self._env = lmdb.open(str(folder), map_size=MAP_BYTES, max_dbs=16, readahead=False)
        self._meta = self._env.open_db(b"meta")
        self._names = self._env.open_db(b"names")
        self._streams = self._env.open_db(b"streams")
        self._producers = self._env.open_db(b"producers")
        self._forks = self._env.open_db(b"forks")
        self._chunks = self._env.open_db(b"chunks")
        self._indexes = self._env.open_db(b"indexes")
        self._mortal = self._env.open_db(b"mortal")
        self._damaged = self._env.open_db(b"damaged")

    # Reading: what is needed is copied, and the transaction ends. A slow client never pins LMDB's pages.

    @property
    def applied(self) -> int:
        """The number of the last change that is folded in."""
        packed = self._get(self._meta, APPLIED)
        return int(NUMBER.unpack(packed)[0]) if packed else 0

    def _get(self, database: "lmdb._Database", key: bytes) -> bytes | None:
        self._residency.look()
        with self._env.begin() as transaction:
            sealed = transaction.get(key, db=database)
        return None if sealed is None else self._unsealed(key, bytes(sealed))

    def _unsealed(self, key: bytes, sealed: bytes) -> bytes:
        value = unseal(key, sealed)
        if value is None:
            raise StreamDamaged(f"what is stored under {key.hex()} in {self._folder.name} is damaged")
        return value

    def incarnation(self, name: bytes) -> int | None:
        """Give the stream that has a name."""
        packed = self._get(self._names, name)
        return int(INCARNATION.unpack(packed)[0]) if packed else None

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream."""
        packed = self._get(self._streams, INCARNATION.pack(incarnation))
        if packed is None:
            return None
        unpacker = Unpacker(packed)
        return unpack_head(unpacker, unpack_identity(unpacker))[0]

    def producers(self, incarnation: int) -> dict[bytes, Producer]:
        """Give what a stream remembers of its producers."""
        prefix = INCARNATION.pack(incarnation)
        with self._env.begin() as transaction:
            found = _with_prefix(transaction.cursor(self._producers), prefix)
            return {key[len(prefix) :]: unpack_producer(Unpacker(self._unsealed(key, sealed))) for key, sealed in found}

    def forks(self, source: int) -> set[int]:
        """Give the streams that branch off one."""
        prefix = INCARNATION.pack(source)
        with self._env.begin() as transaction:
            found = _with_prefix(transaction.cursor(self._forks), prefix)
            return {PLACE.unpack(key)[1] for key, _ in found}

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the bytes of a stream from `start` to `end`."""
        self._residency.look()
        parts: list[bytes] = []
        with self._env.begin(buffers=True) as transaction:
            cursor = transaction.cursor(self._chunks)
            chunk_start = _seek_chunk(cursor, incarnation, start)
            while start < end:
                part = self._part(bytes(cursor.key()), cursor.value(), start - chunk_start, end - chunk_start)
                parts.append(part)
                start += len(part)
                if start < end:
                    cursor.next()
                    chunk_start = PLACE.unpack(cursor.key())[1]
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _part(self, key: bytes, sealed: bytes | memoryview, start: int, end: int) -> bytes:
        """Copy a part out of a chunk. One that is read whole is verified as well."""
        size = len(sealed) - CHECKSUM.size
        if start or end < size:
            return bytes(sealed[start : min(end, size)])
        return self._unsealed(key, bytes(sealed))

    def index_at(self, incarnation: int, offset: int) -> tuple[int, ChunkIndex]:
        """Give the chunk that holds the byte at `offset`: its start and its index."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor(self._indexes)
            start = _seek_chunk(cursor, incarnation, offset)
            return start, unpack_index(self._unsealed(bytes(cursor.key()), bytes(cursor.value())))

    def mortal(self, after: int, limit: int) -> list[int]:
        """Give streams that can expire, in the order of their incarnations."""
        with self._env.begin() as transaction:
            cursor = transaction.cursor(self._mortal)
            if not cursor.set_range(INCARNATION.pack(after + 1)):
                return []
            keys = cursor.iternext(keys=True, values=False)
            return [INCARNATION.unpack(key)[0] for key, _ in zip(keys, range(limit), strict=False)]

    def damaged(self) -> list[int]:
        """Give the streams of which a part was lost."""
        with self._env.begin() as transaction:
            keys = transaction.cursor(self._damaged).iternext(keys=True, values=False)
            return [INCARNATION.unpack(key)[0] for key in keys]

    # Folding, in one transaction

    def begin(self) -> "Fold":
        """Begin to fold."""
        return Fold(self, self._env.begin(write=True))

    def let_go(self) -> None:
        """Let go of the pages that a fold has left in the process."""
        self._residency.check()

    def databases(self) -> "dict[str, lmdb._Database]":
        """Give the databases by their names, for a fold."""
        return {
            "meta": self._meta,
            "names": self._names,
            "streams": self._streams,
            "producers": self._producers,
            "forks": self._forks,
            "chunks": self._chunks,
            "indexes": self._indexes,
            "mortal": self._mortal,
            "damaged": self._damaged,
        }

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


class Fold:
    """A transaction that takes changes into a shard: all of them, with their number, or none."""

    def __init__(self, shard: Shard, transaction: lmdb.Transaction) -> None:
        self._transaction = transaction
        self._databases = shard.databases()

    def _put(self, database: str, key: bytes, value: bytes) -> None:
        self._transaction.put(key, seal(key, value), db=self._databases[database])

    def _delete(self, database: str, key: bytes) -> None:
        self._transaction.delete(key, db=self._databases[database])

    def name(self, name: bytes, incarnation: int | None) -> None:
        """Give a name to a stream, or free it."""
        if incarnation is None:
            self._delete("names", name)
        else:
            self._put("names", name, INCARNATION.pack(incarnation))

    def fork(self, source: int, fork: int) -> None:
        """Enter a fork under its source."""
        self._put("forks", PLACE.pack(source, fork), b"")

    def unfork(self, source: int, fork: int) -> None:
        """Take a fork's entry out."""
        self._delete("forks", PLACE.pack(source, fork))

    def stream(self, stream: RecentStream) -> None:
        """Take in what has changed of a stream."""
        identity = stream.head.identity
        key = INCARNATION.pack(identity.incarnation)
        self._put("streams", key, pack_identity(identity) + pack_head(stream.head))
        if stream.created and identity.mortal:
            self._put("mortal", key, b"")
        for producer_id in stream.forgotten:
            self._delete("producers", key + producer_id)
        for producer_id, producer in stream.producers.items():
            self._put("producers", key + producer_id, pack_producer(producer))
        if stream.run:
            self._append(identity.incarnation, cut_chunks(stream.run))

    def _append(self, incarnation: int, chunks: list[Chunk]) -> None:
        last = self._last_crumb(incarnation)
        if last and len(last.data) + len(chunks[0].data) <= CHUNK_BYTES:
            chunks[0] = joined(last, chunks[0])
        for chunk in chunks:
            place = PLACE.pack(incarnation, chunk.start)
            self._put("chunks", place, chunk.data)
            self._put("indexes", place, pack_index(chunk.index))

    def _last_crumb(self, incarnation: int) -> Chunk | None:
        """Give the last chunk of a stream if it is small enough to be joined with the next."""
        cursor = self._transaction.cursor(self._databases["chunks"])
        if not _seek_before(cursor, PLACE.pack(incarnation + 1, 0)):
            return None
        holder, start = PLACE.unpack(cursor.key())
        if holder != incarnation or len(cursor.value()) >= CRUMB_BYTES:
            return None
        place = PLACE.pack(incarnation, start)
        data = unseal(place, bytes(cursor.value()))
        packed = unseal(place, bytes(self._transaction.get(place, db=self._databases["indexes"], default=b"")))
        # What is damaged is left as it is, for whoever reads it to be told.
        return None if data is None or packed is None else Chunk(start, data, unpack_index(packed))

    def damaged(self, incarnation: int) -> None:
        """Remember that a part of a stream was lost, when what tells of it goes."""
        self._put("damaged", INCARNATION.pack(incarnation), b"")

    def drop(self, incarnation: int) -> None:
        """Remove everything of a stream."""
        key = INCARNATION.pack(incarnation)
        for database in ("streams", "mortal", "damaged", "producers", "chunks", "indexes"):
            cursor = self._transaction.cursor(self._databases[database])
            if not cursor.set_range(key):
                continue
            while bytes(cursor.key()).startswith(key) and cursor.delete():
                pass

    def commit(self, number: int) -> None:
        """Make it durable: everything up to `number` is in the shard now."""
        self._put("meta", APPLIED, NUMBER.pack(number))
        self._transaction.commit()

    def abort(self) -> None:
        """Forget it, unless it is done already."""
        self._transaction.abort()


def _with_prefix(cursor: lmdb.Cursor, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not cursor.set_range(prefix):
        return
    for key, value in cursor:
        if not bytes(key).startswith(prefix):
            return
        yield bytes(key), bytes(value)


def _seek_before(cursor: lmdb.Cursor, key: bytes) -> bool:
    """Go to the last place before `key`."""
    return cursor.prev() if cursor.set_range(key) else cursor.last()


def _seek_chunk(cursor: lmdb.Cursor, incarnation: int, offset: int) -> int:
    """Go to the chunk that holds the byte at `offset`. Gives where it starts."""
    if offset < 0 or not _seek_before(cursor, PLACE.pack(incarnation, offset + 1)):
        raise KeyError(incarnation)
    holder, start = PLACE.unpack(cursor.key())
    if holder != incarnation:
        raise KeyError(incarnation)
    return int(start)
