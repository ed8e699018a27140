"""Checking the shelf: every row of every database, and that they agree with each other."""

from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from everbrook.protocol.state import Head
from everbrook.storage.acid.rows import INCARNATION, PLACE
from everbrook.storage.acid.shard_check import UNREADABLE, CheckedShard, index_over, parse_row
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.blob_check import BlobCheck
from everbrook.storage.check import Notebook
from everbrook.storage.packing import PRODUCER
from everbrook.storage.retained import floor_of


class Touched(Struct):
    """What the journal changes after the point that all shards have reached.

    After a crash between the commits of two shards, one may know of such a change and the other not yet.
    """

    names: set[bytes] = set()
    streams: set[int] = set()


def kept_bytes(head: Head) -> int:
    """Count the bytes of its own that a stream retains."""
    return head.tail - min(head.tail, max(head.identity.first_own_offset, head.kept.earliest))


class CheckedShelf(Shelf):
    """All shards, read only."""

    def __init__(self, folder: Path, shard_count: int, notebook: Notebook) -> None:
        self._bits = shard_count.bit_length() - 1
        made = (folder / "journal").is_dir()
        folders = [folder / f"shard-{number:03d}" for number in range(shard_count)]
        self.checked = [CheckedShard(each, notebook, made=made) for each in folders]
        self._shards = [*self.checked]
        self._applied = [shard.applied for shard in self.checked]
        self._notebook = notebook
        self._touched = Touched()
        self._replayed: Mapping[int, Head | None] = {}
        self._moved: Container[int] = ()

    def has_number(self, incarnation: int, number: int) -> bool:
        """Tell whether the shard of a stream is past a change."""
        return number <= self._applied[self.number_of(incarnation)]

    def check(self, touched: Touched, replayed: Mapping[int, Head | None], blobs: BlobCheck) -> None:
        """Check every database of every shard. The streams that were replayed are counted already."""
        self._replayed, self._moved = replayed, touched.streams
        if len(set(self._applied)) > 1:
            self._touched = touched
            self._notebook.remark("a crash came between two shards; the journal brings the one up to the other")
        for number, shard in enumerate(self.checked):
            self._check_streams(number, shard, blobs)
            self._check_names(number, shard)
            self._check_producers(shard)
            self._check_forks(number, shard)
            self._check_mortal(shard)
            self._check_damaged(shard)
            self._check_chunks(shard)
            self._check_indexes(shard)

    def _check_streams(self, number: int, shard: CheckedShard, blobs: BlobCheck) -> None:
        for key, packed in shard.rows(b"streams"):
            place = f"stream {key.hex()}"
            try:
                (incarnation,) = INCARNATION.unpack(key)
                head = parse_row(packed)
            except UNREADABLE:
                self._notebook.damage("its row can't be read", place)
                continue
            self._notebook.advance(len(packed))
            if head.identity.incarnation != incarnation or self.number_of(incarnation) != number:
                self._notebook.damage("its row is under another stream's key", place)
                continue
            if incarnation not in self._replayed:
                self._notebook.tally.add(kept_bytes(head))
                blobs.add(head)
            for problem in self._problems(shard, head):
                self._notebook.damage(problem, place)

    def _problems(self, shard: CheckedShard, head: Head) -> Iterator[str]:
        """Give what is missing around a stream."""
        identity = head.identity
        if head.tail < identity.first_own_offset:
            yield f"its tail {head.tail} is before its first offset {identity.first_own_offset}"
        if head.kept.earliest > head.tail:
            yield f"its earliest offset {head.kept.earliest} is behind its tail {head.tail}"
        floor = self._floor(shard, head)
        first_chunk = shard.first_chunk(identity.incarnation)
        if head.tail > floor and (first_chunk is None or first_chunk > floor):
            yield "its first bytes are missing"
        if identity.mortal and shard.get(b"mortal", INCARNATION.pack(identity.incarnation)) is None:
            yield "it can expire and is not among those that can"
        if identity.incarnation in self._touched.streams:
            return
        name_shard = self.checked[self.number_of_name(identity.name)]
        if name_shard.get(b"names", identity.name) != INCARNATION.pack(identity.incarnation):
            yield "its name does not lead to it"
        if identity.fork:
            source = identity.fork.source_incarnation
            place = PLACE.pack(source, identity.incarnation)
            if self.checked[self.number_of(source)].get(b"forks", place) is None:
                yield f"it is a fork that is not entered under its source {source:016x}"

    def _floor(self, shard: CheckedShard, head: Head) -> int:
        """Give the offset from which on a stream's bytes must be there. What the journal has cut may be gone."""
        incarnation = head.identity.incarnation
        now = self._replayed.get(incarnation, head)
        if now is None:
            return head.tail
        fork = None
        if now.kept.earliest and incarnation not in self._moved:
            oldest = shard.oldest_fork(incarnation)
            fork = self.head(oldest) if oldest is not None else None
        return max(head.identity.first_own_offset, floor_of(now, fork.identity if fork else None))

    def _check_names(self, number: int, shard: CheckedShard) -> None:
        for name, packed in shard.rows(b"names"):
            if len(packed) != INCARNATION.size or self.number_of_name(name) != number:
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
            if not entered or self.number_of(source) != number or self.head(source) is None:
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
                # What nobody needs of its past may be gone.
                first = max(start, head.identity.first_own_offset) if head else start
                end, tail = (min(first, self._floor(shard, head)), head.tail) if head else (start, -1)
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
