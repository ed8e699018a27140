"""Reading a shard to check it: every row, verified, and what becomes of a file that LMDB can't read."""

import struct
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import lmdb

from everbrook.protocol.state import Head
from everbrook.storage.acid.chunks import COUNTS, unpack_index
from everbrook.storage.acid.pages import problem_of
from everbrook.storage.acid.rows import INCARNATION, PLACE, unseal
from everbrook.storage.acid.shard import APPLIED, DATA, NUMBER, Shard
from everbrook.storage.check import Notebook
from everbrook.storage.packing import Damaged, Unpacker, unpack_head, unpack_identity

DATABASES = (b"meta", b"names", b"streams", b"producers", b"forks", b"chunks", b"indexes", b"mortal", b"damaged")
UNREADABLE = (Damaged, struct.error, ValueError, IndexError)


class CheckedShard(Shard):
    """A shard that is only read. What a crash kept from being made is empty, if the store was not `made` before."""

    def __init__(self, folder: Path, notebook: Notebook, *, made: bool) -> None:
        self.folder = folder
        self.notebook = notebook
        self.reading: lmdb.Transaction | None = None
        self.size = 0
        file = folder / DATA
        notebook.at(file)
        problem = problem_of(file)
        if problem:
            if made:
                notebook.damage(problem)
            return
        self.size = file.stat().st_size
        try:
            self._env = lmdb.open(str(folder), readonly=True, lock=False, create=False, max_dbs=len(DATABASES))
            self._named = self._find_databases()
            self.reading = self._env.begin(buffers=True)
            self._check_databases(self.reading)
        except lmdb.Error as error:
            notebook.damage(f"LMDB can't open it: {error}")

    def _find_databases(self) -> "dict[bytes, lmdb._Database]":
        found: dict[bytes, lmdb._Database] = {}
        for name in DATABASES:
            try:
                found[name] = self._env.open_db(name, create=False)
            except lmdb.NotFoundError:
                continue
        return found

    def _check_databases(self, reading: lmdb.Transaction) -> None:
        """Check that the file has the databases we know, and nothing beside them."""
        found = {bytes(name) for name, _ in islice(reading.cursor(), len(DATABASES) + 1)}
        if found != set(self._named):
            self.notebook.damage("its list of databases is not what it should be")

    def get(self, database: bytes, key: bytes) -> bytes | None:
        """Give a value, if it is there and verifies."""
        if self.reading is None or database not in self._named:
            return None
        try:
            value = self.reading.get(key, db=self._named[database])
        except lmdb.Error as error:
            self.notebook.damage(f"LMDB can't read it: {error}", f"database {database.decode()}")
            return None
        return None if value is None else unseal(key, bytes(value))

    def rows(self, database: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Give every row that verifies, as long as they come in order and are no more than LMDB says."""
        self.notebook.at(self.folder / DATA, f"database {database.decode()}")
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
                verified = unseal(before, bytes(value))
                if verified is None:
                    self.notebook.damage("the checksum of its value is wrong", f"key {before.hex()}")
                else:
                    yield before, verified
        except lmdb.Error as error:
            self.notebook.damage(f"LMDB can't read it: {error}", f"after key {before.hex()}")
            return
        if seen != count:
            self.notebook.damage(f"it has {seen} rows, and LMDB counts {count}")

    @property
    def applied(self) -> int:
        """The number of the last change that is folded in."""
        numbers = [packed for key, packed in self.rows(b"meta") if key == APPLIED]
        return NUMBER.unpack(numbers[0])[0] if numbers else 0

    def head(self, incarnation: int) -> Head | None:
        packed = self.get(b"streams", INCARNATION.pack(incarnation))
        try:
            return parse_row(packed) if packed is not None else None
        except UNREADABLE:
            return None

    def first_chunk(self, incarnation: int) -> int | None:
        """Give where the first chunk of a stream starts, if it has any."""
        if self.reading is None or b"chunks" not in self._named:
            return None
        cursor = self.reading.cursor(self._named[b"chunks"])
        found = cursor.set_range(PLACE.pack(incarnation, 0)) and bytes(cursor.key())
        if not found or len(found) != PLACE.size or PLACE.unpack(found)[0] != incarnation:
            return None
        return int(PLACE.unpack(found)[1])

    def oldest_fork(self, source: int) -> int | None:
        """Give the oldest stream that branches off one, if there is any."""
        if self.reading is None or b"forks" not in self._named:
            return None
        cursor = self.reading.cursor(self._named[b"forks"])
        found = cursor.set_range(PLACE.pack(source, 0)) and bytes(cursor.key())
        if not found or len(found) != PLACE.size or PLACE.unpack(found)[0] != source:
            return None
        return int(PLACE.unpack(found)[1])

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


def index_over(packed: bytes | None, size: int, over: tuple[int, int]) -> tuple[int, int]:
    """Check the index of a chunk of `size` bytes. `over` is the append that reaches into it: its rest, and its time.

    Gives the same for the next chunk.
    """
    if packed is None:
        raise Damaged("it has none")
    index = unpack_index(packed, 0)
    messages, appends, times = list(index.messages), list(index.appends), list(index.times)
    message_count, append_count, time_count = COUNTS.unpack_from(packed)
    length = COUNTS.size + (message_count + append_count) * index.messages.itemsize + time_count * index.times.itemsize
    if length != len(packed) or len(appends) != len(times):
        raise Damaged("its counts do not add up")
    if not messages or messages[0] < 1 or messages[-1] != size or not _rising(messages):
        raise Damaged("its messages do not fill the chunk")
    if not _rising(appends) or appends[-1] < size or not set(appends[:-1]) <= set(messages):
        raise Damaged("its appends do not end where messages do")
    if over[0] and (appends[0], times[0]) != over:
        raise Damaged("it does not go on with the append before it")
    return (appends[-1] - size, times[-1]) if appends[-1] > size else (0, 0)


def _rising(ends: list[int]) -> bool:
    return all(before < after for before, after in pairwise(ends))
