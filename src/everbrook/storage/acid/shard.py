"""A shard: one LMDB environment with everything that was folded into it."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from struct import Struct

import lmdb

from everbrook.storage.acid.chunks import Chunk, cut_chunks, joined, pack_index, unpack_index
from everbrook.storage.acid.pinned_shard import PinnedShard
from everbrook.storage.acid.reading import ShardReader
from everbrook.storage.acid.recent import RecentStream
from everbrook.storage.acid.rows import CHECKSUM, INCARNATION, PLACE, holds, seal, seek_before, start_of, unseal
from everbrook.storage.acid.tuning import DEFAULT_TUNING, AcidTuning
from everbrook.storage.manifest import StoreError
from everbrook.storage.packing import pack_head, pack_identity, pack_producer

DATA = "data.mdb"
# An address range, not memory and not disk: the file grows as it is written.
MAP_BYTES = 1 << 40
# Each of them fails only if two folds end while a page is read.
PIN_ATTEMPTS = 100

NUMBER = Struct("<Q")
APPLIED = b"applied"


OpenEnvironment = Callable[[Path], lmdb.Environment]


def open_environment(folder: Path, *, sync: bool = True) -> lmdb.Environment:
    """Open the LMDB environment in a folder, or create it. Without `sync` a commit does not wait for the disk."""
    return lmdb.open(str(folder), map_size=MAP_BYTES, max_dbs=16, readahead=False, sync=sync)


class Shard(ShardReader):
    """Reads from, and folds into, one LMDB environment."""

    def __init__(
        self, folder: Path, tuning: AcidTuning = DEFAULT_TUNING, open_environment: OpenEnvironment = open_environment
    ) -> None:
        self._folder = folder
        self._tuning = tuning
        try:
            self._env = open_environment(folder)
            self._open_databases()
        except lmdb.Error as error:
            raise StoreError(f"{folder / DATA} can't be opened: {error}") from error

    def _open_databases(self) -> None:
        self._meta = self._env.open_db(b"meta")
        self._names = self._env.open_db(b"names")
        self._streams = self._env.open_db(b"streams")
        self._producers = self._env.open_db(b"producers")
        self._forks = self._env.open_db(b"forks")
        self._chunks = self._env.open_db(b"chunks")
        self._indexes = self._env.open_db(b"indexes")
        self._mortal = self._env.open_db(b"mortal")
        self._damaged = self._env.open_db(b"damaged")

    @property
    def applied(self) -> int:
        """The number of the last change that is folded in."""
        packed = self._get(self._meta, APPLIED)
        return int(NUMBER.unpack(packed)[0]) if packed else 0

    def begin(self) -> "Fold":
        """Begin to fold."""
        return Fold(self._env.begin(write=True), self._databases(), self._tuning)

    def discard(self, floors: Mapping[int, int]) -> None:
        """Remove the chunks of streams that lie wholly before offsets, in a transaction of their own."""
        with self._env.begin(write=True) as transaction:
            fold = Fold(transaction, self._databases(), self._tuning)
            for incarnation, floor in floors.items():
                fold.discard(incarnation, floor)

    def pin(self) -> PinnedShard:
        """Hold on to what is in the shard now."""
        for _ in range(PIN_ATTEMPTS - 1):
            with suppress(BlockingIOError):
                return PinnedShard(self._env, self._folder / DATA)
        return PinnedShard(self._env, self._folder / DATA)

    def _databases(self) -> "dict[str, lmdb._Database]":
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

    def __init__(
        self, transaction: lmdb.Transaction, databases: "Mapping[str, lmdb._Database]", tuning: AcidTuning
    ) -> None:
        self._transaction = transaction
        self._databases = databases
        self._chunk_bytes = tuning.chunk_bytes
        self._small_chunk_bytes = tuning.small_chunk_bytes

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
        if stream.run and (chunks := cut_chunks(stream.run, self._chunk_bytes)):
            self._append(identity.incarnation, chunks)

    def _append(self, incarnation: int, chunks: list[Chunk]) -> None:
        last = self._last_small(incarnation, chunks[0].start)
        if last and len(last.data) + len(chunks[0].data) <= self._chunk_bytes:
            chunks[0] = joined(last, chunks[0])
        for chunk in chunks:
            place = PLACE.pack(incarnation, chunk.start)
            self._put("chunks", place, chunk.data)
            self._put("indexes", place, pack_index(chunk.index))

    def _last_small(self, incarnation: int, end: int) -> Chunk | None:
        """Give the last chunk of a stream, up to `end`, if it is small enough to be joined with the next."""
        cursor = self._transaction.cursor(self._databases["chunks"])
        if not seek_before(cursor, PLACE.pack(incarnation + 1, 0)) or not holds(cursor, incarnation):
            return None
        start, size = start_of(cursor), len(cursor.value()) - CHECKSUM.size
        if size >= self._small_chunk_bytes or start + size != end:
            return None
        place = PLACE.pack(incarnation, start)
        data = unseal(place, bytes(cursor.value()))
        packed = unseal(place, bytes(self._transaction.get(place, db=self._databases["indexes"], default=b"")))
        # What is damaged is left as it is, for whoever reads it to be told.
        return None if data is None or packed is None else Chunk(start, data, unpack_index(packed, start))

    def discard(self, incarnation: int, floor: int) -> None:
        """Remove the chunks of a stream that lie wholly before an offset."""
        cursor = self._transaction.cursor(self._databases["chunks"])
        there = cursor.set_range(PLACE.pack(incarnation, 0))
        while there and holds(cursor, incarnation):
            start = start_of(cursor)
            if start + len(cursor.value()) - CHECKSUM.size > floor:
                return
            self._delete("indexes", PLACE.pack(incarnation, start))
            there = cursor.delete()

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
