"""Checking the shelf: every row of every database, and that they agree with each other."""

import struct
from collections.abc import Iterator
from pathlib import Path

import lmdb
from msgspec import Struct

from everbrook.protocol.state import Head
from everbrook.storage.acid.chunks import unpack_index
from everbrook.storage.acid.shard import APPLIED, INCARNATION, NUMBER, PLACE, Shard
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.check import Notebook
from everbrook.storage.packing import PRODUCER, Damaged, Unpacker, unpack_head, unpack_identity

DATABASES = (b"meta", b"names", b"streams", b"producers", b"forks", b"chunks", b"indexes", b"mortal")
UNREADABLE = (Damaged, struct.error, ValueError, IndexError, UnicodeDecodeError)


class Touched(Struct):
    """What the journal changes after the point that all shards have reached.

    After a crash between the commits of two shards, one may know of such a change and the other not yet.
    """

    names: set[bytes] = set()
    streams: set[int] = set()


class CheckedShard(Shard):
    """A shard that is only read. What a crash kept from being made is empty."""

    def __init__(self, folder: Path, notebook: Notebook) -> None:
        self.folder = folder
        self.notebook = notebook
        self.reading: lmdb.Transaction | None = None
        self.size = 0
        file = folder / "data.mdb"
        if not file.exists() or not file.stat().st_size:
            return
        self.size = file.stat().st_size
        notebook.at(file)
        try:
            self._env = lmdb.open(str(folder), readonly=True, lock=False, create=False, max_dbs=len(DATABASES))
            self._named = self._open_databases()
            self.reading = self._env.begin(buffers=True)
        except lmdb.Error as error:
            notebook.damage(f"LMDB can't open it: {error}")

    def _open_databases(self) -> "dict[bytes, lmdb._Database]":
        found: dict[bytes, lmdb._Database] = {}
        for name in DATABASES:
            try:
                found[name] = self._env.open_db(name, create=False)
            except lmdb.NotFoundError:
                continue
        return found

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Give a value, if it is there."""
        if self.reading is None or database not in self._named:
            return None
        try:
            value = self.reading.get(key, db=self._named[database])
        except lmdb.Error as error:
            self.notebook.damage(f"LMDB can't read it: {error}", f"database {database.decode()}")
            return None
        return None if value is None else bytes(value)

    def rows(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give every row of a database, as long as they come in order and are no more than LMDB says."""
        self.notebook.at(self.folder / "data.mdb", f"database {database.decode()}")
        if self.reading is None or database not in self._named:
            return
        count = self.reading.stat(self._named[database])["entries"]
        before = b""
        seen = 0
        try:
            for key, value in self.reading.cursor(self._named[database]):
                seen += 1
                if seen > count or bytes(key) <= before or len(value) > self.size:
                    self.notebook.damage("its rows are not in order", f"after key {before.hex()}")
                    return
                before = bytes(key)
                yield before, bytes(value)
        except lmdb.Error as error:
            self.notebook.damage(f"LMDB can't read it: {error}", f"after key {before.hex()}")
            return
        if seen != count:
            self.notebook.damage(f"it has {seen} rows, and LMDB counts {count}")

    @property
    def applied(self) -> int:
        packed = self.get(b"meta", APPLIED)
        if packed is not None and len(packed) != NUMBER.size:
            self.notebook.damage("the number of the last change in it is not readable", "database meta")
            return 0
        return NUMBER.unpack(packed)[0] if packed else 0

    def head(self, incarnation: int) -> Head | None:
        packed = self.get(b"streams", INCARNATION.pack(incarnation))
        try:
            return parse_row(packed) if packed is not None else None
        except UNREADABLE:
            return None

    def close(self) -> None:
        if self.reading is not None:
            self.reading.abort()
            self._env.close()


def parse_row(packed: bytes) -> Head:
    """Read a row of the streams, all of it."""
    unpacker = Unpacker(packed)
    head, _ = unpack_head(unpacker, unpack_identity(unpacker))
    if unpacker.position != len(packed):
        raise Damaged("a row of another length")
    return head


class CheckedShelf(Shelf):
    """All shards, read only."""

    def __init__(self, folder: Path, shard_count: int, notebook: Notebook) -> None:
        self._bits = shard_count.bit_length() - 1
        self.checked = [CheckedShard(folder / f"shard-{number:03d}", notebook) for number in range(shard_count)]
        self._shards = [*self.checked]
        self._applied = [shard.applied for shard in self.checked]
        self._notebook = notebook
        self._touched = Touched()

    def has_number(self, incarnation: int, number: int) -> bool:
        """Tell whether the shard of a stream is past a change."""
        return number <= self._applied[self._number_of(incarnation)]

    def check(self, touched: Touched) -> None:
        """Check every database of every shard."""
        if len(set(self._applied)) > 1:
            self._touched = touched
            self._notebook.remark("a crash came between two shards; the journal brings the one up to the other")
        for number, shard in enumerate(self.checked):
            self._check_streams(number, shard)
            self._check_names(number, shard)
            self._check_producers(shard)
            self._check_forks(number, shard)
            self._check_mortal(shard)
            self._check_chunks(shard)
            self._check_indexes(shard)

    def _check_streams(self, number: int, shard: CheckedShard) -> None:
        for key, packed in shard.rows(b"streams"):
            place = f"stream {key.hex()}"
            try:
                (incarnation,) = INCARNATION.unpack(key)
                head = parse_row(packed)
            except UNREADABLE:
                self._notebook.damage("its row can't be read", place)
                continue
            self._notebook.advance(len(packed))
            if head.identity.incarnation != incarnation or self._number_of(incarnation) != number:
                self._notebook.damage("its row is under another stream's key", place)
                continue
            for problem in self._problems(shard, head):
                self._notebook.damage(problem, place)

    def _problems(self, shard: CheckedShard, head: Head) -> Iterator[str]:
        """Give what is missing around a stream."""
        identity = head.identity
        if head.tail < identity.first_own_offset:
            yield f"its tail {head.tail} is before its first offset {identity.first_own_offset}"
        first_chunk = PLACE.pack(identity.incarnation, identity.first_own_offset)
        if head.tail > identity.first_own_offset and shard.get(b"chunks", first_chunk) is None:
            yield "its first bytes are missing"
        mortal = identity.ttl_secs is not None or identity.expires_at is not None
        if mortal and shard.get(b"mortal", INCARNATION.pack(identity.incarnation)) is None:
            yield "it can expire and is not among those that can"
        if identity.incarnation in self._touched.streams:
            return
        name_shard = self.checked[self._number_of_name(identity.name)]
        if name_shard.get(b"names", identity.name) != INCARNATION.pack(identity.incarnation):
            yield "its name does not lead to it"
        if identity.fork:
            source = identity.fork.source_incarnation
            place = PLACE.pack(source, identity.incarnation)
            if self.checked[self._number_of(source)].get(b"forks", place) is None:
                yield f"it is a fork that is not entered under its source {source:016x}"

    def _check_names(self, number: int, shard: CheckedShard) -> None:
        for name, packed in shard.rows(b"names"):
            if len(packed) != INCARNATION.size or self._number_of_name(name) != number:
                self._notebook.damage("the row can't be read", f"name {name!r}")
            elif name not in self._touched.names:
                (incarnation,) = INCARNATION.unpack(packed)
                head = self.head(incarnation)
                if head is None or head.identity.name != name:
                    self._notebook.damage(f"it leads to stream {incarnation:016x}, which is not it", f"name {name!r}")

    def _check_producers(self, shard: CheckedShard) -> None:
        for key, packed in shard.rows(b"producers"):
            stream = key[: INCARNATION.size]
            place = f"stream {stream.hex()} producer {key[INCARNATION.size :]!r}"
            if len(packed) != PRODUCER.size:
                self._notebook.damage("its row can't be read", place)
            elif shard.get(b"streams", stream) is None:
                self._notebook.damage("its stream is missing", place)

    def _check_forks(self, number: int, shard: CheckedShard) -> None:
        for key, _ in shard.rows(b"forks"):
            if len(key) != PLACE.size:
                self._notebook.damage("the row can't be read", f"key {key.hex()}")
                continue
            source, incarnation = PLACE.unpack(key)
            if {source, incarnation} & self._touched.streams:
                continue
            fork = self.head(incarnation)
            entered = fork is not None and fork.identity.fork and fork.identity.fork.source_incarnation == source
            if not entered or self._number_of(source) != number or self.head(source) is None:
                self._notebook.damage(f"stream {incarnation:016x} is no fork of it", f"stream {source:016x}")

    def _check_mortal(self, shard: CheckedShard) -> None:
        for key, _ in shard.rows(b"mortal"):
            head = shard.head(INCARNATION.unpack(key)[0]) if len(key) == INCARNATION.size else None
            if head is None or (head.identity.ttl_secs is None and head.identity.expires_at is None):
                self._notebook.damage("it is not a stream that can expire", f"stream {key.hex()}")

    def _check_chunks(self, shard: CheckedShard) -> None:
        """Check that the chunks of each stream follow one another up to its tail."""
        incarnation, end, tail, over = -1, 0, 0, (0, 0)
        for key, data in shard.rows(b"chunks"):
            self._notebook.advance(len(data))
            if len(key) != PLACE.size:
                self._notebook.damage("the row can't be read", f"key {key.hex()}")
                continue
            holder, start = PLACE.unpack(key)
            place = f"stream {holder:016x} offset {start}"
            if holder != incarnation:
                self._check_tail(incarnation, end, tail)
                incarnation, over = holder, (0, 0)
                head = shard.head(holder)
                if head is None:
                    self._notebook.damage("its stream is missing", place)
                end, tail = (head.identity.first_own_offset, head.tail) if head else (start, -1)
            if start != end:
                self._notebook.damage(f"a chunk that should begin at {end}", place)
            end = start + len(data)
            packed = shard.get(b"indexes", key)
            try:
                over = index_over(packed, len(data), over)
            except UNREADABLE as error:
                self._notebook.damage(f"its index does not fit it: {error}", place)
                over = (0, 0)
        self._check_tail(incarnation, end, tail)

    def _check_tail(self, incarnation: int, end: int, tail: int) -> None:
        if incarnation >= 0 and tail not in {end, -1}:
            self._notebook.damage(f"its bytes end at {end}, its tail is {tail}", f"stream {incarnation:016x}")

    def _check_indexes(self, shard: CheckedShard) -> None:
        for key, packed in shard.rows(b"indexes"):
            self._notebook.advance(len(packed))
            if shard.get(b"chunks", key) is None:
                self._notebook.damage("an index without its chunk", f"key {key.hex()}")


def index_over(packed: bytes | None, size: int, over: tuple[int, int]) -> tuple[int, int]:
    """Check the index of a chunk of `size` bytes. `over` is the append that reaches into it: its rest, and its time.

    Gives the same for the next chunk.
    """
    if packed is None:
        raise Damaged("it has none")
    index = unpack_index(packed)
    messages, appends, times = list(index.messages), list(index.appends), list(index.times)
    counted = sum(struct.unpack_from("<II", packed)) * 4 + len(times) * 8 + 12
    if counted != len(packed) or len(appends) != len(times):
        raise Damaged("its counts do not add up")
    if not messages or messages[0] < 1 or messages[-1] != size or not _rising(messages):
        raise Damaged("its messages do not fill the chunk")
    if not _rising(appends) or appends[-1] < size or not set(appends[:-1]) <= set(messages):
        raise Damaged("its appends do not end where messages do")
    if over[0] and (appends[0], times[0]) != over:
        raise Damaged("it does not go on with the append before it")
    return (appends[-1] - size, times[-1]) if appends[-1] > size else (0, 0)


def _rising(ends: list[int]) -> bool:
    return all(before < after for before, after in zip(ends, ends[1:], strict=False))
