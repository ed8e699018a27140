"""Checking the shelf: every row of every database, and that they agree with each other."""

from collections.abc import Container, Iterator
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.state import Head
from everbrook.storage.acid.shard import INCARNATION, PLACE
from everbrook.storage.acid.shard_check import UNREADABLE, CheckedShard, index_over, parse_row
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.check import Notebook
from everbrook.storage.packing import PRODUCER


class Touched(Struct):
    """What the journal changes after the point that all shards have reached.

    After a crash between the commits of two shards, one may know of such a change and the other not yet.
    """

    names: set[bytes] = set()
    streams: set[int] = set()


class CheckedShelf(Shelf):
    """All shards, read only."""

    def __init__(self, folder: Path, shard_count: int, notebook: Notebook) -> None:
        self._bits = shard_count.bit_length() - 1
        self.checked = [CheckedShard(folder / f"shard-{number:03d}", notebook) for number in range(shard_count)]
        self._shards = [*self.checked]
        self._applied = [shard.applied for shard in self.checked]
        self._notebook = notebook
        self._touched = Touched()
        self._replayed: Container[int] = ()

    def has_number(self, incarnation: int, number: int) -> bool:
        """Tell whether the shard of a stream is past a change."""
        return number <= self._applied[self._number_of(incarnation)]

    def check(self, touched: Touched, replayed: Container[int]) -> None:
        """Check every database of every shard. The streams that were replayed are counted already."""
        self._replayed = replayed
        if len(set(self._applied)) > 1:
            self._touched = touched
            self._notebook.remark("a crash came between two shards; the journal brings the one up to the other")
        for number, shard in enumerate(self.checked):
            self._check_streams(number, shard)
            self._check_names(number, shard)
            self._check_producers(shard)
            self._check_forks(number, shard)
            self._check_mortal(shard)
            self._check_damaged(shard)
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
            if incarnation not in self._replayed:
                self._notebook.tally.add(head.tail - head.identity.first_own_offset)
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
        if identity.mortal and shard.get(b"mortal", INCARNATION.pack(identity.incarnation)) is None:
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

    def _check_damaged(self, shard: CheckedShard) -> None:
        for key, _ in shard.rows(b"damaged"):
            self._notebook.damage("a part of it was lost with the journal", f"stream {key.hex()}")

    def _check_mortal(self, shard: CheckedShard) -> None:
        for key, _ in shard.rows(b"mortal"):
            head = shard.head(INCARNATION.unpack(key)[0]) if len(key) == INCARNATION.size else None
            if head is None or not head.identity.mortal:
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
