"""The shelf: what has been folded out of the journal, spread over shards.

A stream is in the shard that its incarnation is hashed to, its name in the one of the name, its fork entries in the one
of its source. Each shard says how far it has got: after a crash between two of them, the journal brings the other on.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from heapq import merge
from pathlib import Path

from everbrook.protocol.change import Edit
from everbrook.protocol.state import Head, Producer
from everbrook.storage.acid.pages import problem_of
from everbrook.storage.acid.pinned_shard import PinnedShard
from everbrook.storage.acid.reading import Glance
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shard import DATA, Fold, Shard
from everbrook.storage.disk import Disk
from everbrook.storage.index import Messages
from everbrook.storage.manifest import StoreError

_MIX = 0x9E3779B97F4A7C15
_WORD_BITS = 64


class Shelf:
    """All shards of a store."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        shard_count: int,
        open_shard: Callable[[Path], Shard],
        *,
        made: bool,
    ) -> None:
        """Open the shards. If the store was `made` before they must be there."""
        self._bits = shard_count.bit_length() - 1
        self._shards: list[Shard] = []
        try:
            for number in range(shard_count):
                self._shards.append(_open_shard(disk, folder / f"shard-{number:03d}", open_shard, made=made))
            self._applied = [shard.applied for shard in self._shards]
        except BaseException:
            self.close()
            raise

    @property
    def applied(self) -> int:
        """The number up to which every shard has everything."""
        return min(self._applied)

    @property
    def last_incarnation(self) -> int:
        """The largest incarnation of a stream."""
        return max(shard.last_incarnation for shard in self._shards)

    def number_of(self, incarnation: int) -> int:
        return ((incarnation * _MIX) % (1 << _WORD_BITS)) >> (_WORD_BITS - self._bits)

    def number_of_name(self, name: bytes) -> int:
        return zlib.crc32(name) % len(self._shards)

    def has(self, edit: Edit, number: int) -> bool:
        """Tell whether the shard of a stream has a change of it already."""
        return number <= self._applied[self.number_of(edit.head.identity.incarnation)]

    def shard(self, incarnation: int) -> Shard:
        """Give the shard that holds a stream."""
        return self._shards[self.number_of(incarnation)]

    def incarnation(self, name: bytes) -> int | None:
        """Give the stream that has a name."""
        return self._shards[self.number_of_name(name)].incarnation(name)

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream."""
        return self.shard(incarnation).head(incarnation)

    @contextmanager
    def glance(self) -> "Iterator[ShelfGlance]":
        """Look at many names and heads, with one transaction for each shard."""
        glances: list[Glance] = []
        try:
            for shard in self._shards:
                glances.append(shard.glance())  # noqa: PERF401 - those that began must end if one does not
            yield ShelfGlance(self, glances)
        finally:
            for glance in glances:
                glance.end()

    def producers(self, incarnation: int) -> dict[bytes, Producer]:
        """Give what a stream remembers of its producers."""
        return self.shard(incarnation).producers(incarnation)

    def forks(self, source: int, after: int = 0, limit: int | None = None) -> list[int]:
        """Give the streams that branch off one, those younger than `after`, the oldest first."""
        return self.shard(source).forks(source, after, limit)

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the bytes of a stream from `start` to `end`."""
        return self.shard(incarnation).read(incarnation, start, end)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Give the last message boundary not greater than `offset`. Where nothing lies before it, it is one."""
        try:
            index = self.shard(incarnation).index_at(incarnation, offset - 1)
        except KeyError:
            return offset
        return index.boundary_at_or_before(offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        return self.shard(incarnation).index_at(incarnation, offset).boundary_after(offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        return self.shard(incarnation).index_at(incarnation, offset).append_end(offset)

    def time_at(self, incarnation: int, offset: int) -> int:
        """Give the time of the append that holds the byte at `offset`."""
        return self.shard(incarnation).index_at(incarnation, offset).time_at(offset)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        """Give the messages of a stream that end after `start` and not after `end`."""
        return self.shard(incarnation).messages(incarnation, start, end)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Go `count` messages on from an offset, backwards if negative, as far as there are any."""
        return self.shard(incarnation).seek(incarnation, offset, count)

    def bytes_before(self, incarnation: int, floor: int) -> int:
        """Count the bytes that lie so far before an offset that they can be removed."""
        return self.shard(incarnation).bytes_before(incarnation, floor)

    def mortal(self, after: int, limit: int) -> list[Head]:
        """Give streams that can expire, in the order of their incarnations."""
        found = sorted(incarnation for shard in self._shards for incarnation in shard.mortal(after, limit))
        return [head for incarnation in found[:limit] if (head := self.head(incarnation))]

    @property
    def newest_applied(self) -> int:
        """The number up to which some shard has everything of its own."""
        return max(self._applied)

    def damaged(self) -> set[int]:
        """Give the streams of which a part was lost."""
        return {incarnation for shard in self._shards for incarnation in shard.damaged()}

    def fold(self, recent: Recent, number: int, damaged: set[int]) -> None:
        """Take in everything up to `number`, shard by shard, each at once and durably."""
        folds: list[Fold] = []
        try:
            for shard in self._shards:
                folds.append(shard.begin())  # noqa: PERF401 - those that began must be aborted if one does not
            self._fill(folds, recent)
            for incarnation in damaged - recent.dropped.keys():
                folds[self.number_of(incarnation)].damaged(incarnation)
        except BaseException:
            for fold in folds:
                fold.abort()
            raise
        self._commit(folds, number)

    def _commit(self, folds: list[Fold], number: int) -> None:
        """Commit shard by shard. When a fold is tried again, a shard that has it is left alone."""
        try:
            for shard_number, fold in enumerate(folds):
                if self._applied[shard_number] >= number:
                    continue
                fold.commit(number)
                self._applied[shard_number] = number
        finally:
            for fold in folds:
                fold.abort()

    def _fill(self, folds: list[Fold], recent: Recent) -> None:
        for incarnation in recent.dropped:
            folds[self.number_of(incarnation)].drop(incarnation)
        for incarnation, floor in recent.floors.items():
            folds[self.number_of(incarnation)].discard(incarnation, floor)
        for incarnation, stream in recent.streams.items():
            folds[self.number_of(incarnation)].stream(stream)
        for name, holder in recent.names.items():
            folds[self.number_of_name(name)].name(name, holder)
        for source, forks in recent.forked.items():
            for fork in forks:
                folds[self.number_of(source)].fork(source, fork)
        for source, gone in recent.unforked.items():
            for fork in gone:
                folds[self.number_of(source)].unfork(source, fork)

    def discard(self, floors: Mapping[int, int]) -> None:
        """Remove what nobody needs of streams. That they were cut is durable, in the journal if not here."""
        for number, shard in enumerate(self._shards):
            here = {each: floor for each, floor in floors.items() if self.number_of(each) == number}
            if here:
                shard.discard(here)

    def pin(self) -> dict[str, PinnedShard]:
        """Hold on to what is in every shard now, by the names of their folders."""
        pinned: dict[str, PinnedShard] = {}
        try:
            for number, shard in enumerate(self._shards):
                pinned[f"shard-{number:03d}"] = shard.pin()
        except BaseException:
            for each in pinned.values():
                each.close()
            raise
        return pinned

    def close(self) -> None:
        """Close every shard."""
        for shard in self._shards:
            shard.close()


class ShelfGlance:
    """Names and heads of all shards."""

    def __init__(self, shelf: Shelf, glances: list[Glance]) -> None:
        self._shelf = shelf
        self._glances = glances

    def names(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int | None]]:
        """Give names in order, and whose they are; None if that is damaged."""
        return merge(*(glance.names(prefix, after) for glance in self._glances))

    def count_without(self, prefix: bytes, names: Collection[bytes]) -> int:
        """Count the names that begin with `prefix`, all but some of them."""
        here = sum(self._glances[self._shelf.number_of_name(name)].has(name) for name in names)
        return sum(glance.count(prefix) for glance in self._glances) - here

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream, if it is there and not damaged."""
        return self._glances[self._shelf.number_of(incarnation)].head(incarnation)


def _open_shard(disk: Disk, folder: Path, open_shard: Callable[[Path], Shard], *, made: bool) -> Shard:
    """Open a shard. The names of its files are durable before anything relies on them."""
    disk.make_folder(folder)
    problem = problem_of(folder / DATA)
    if problem and made:
        raise StoreError(f"{folder / DATA} can't be opened: {problem}")
    if problem and DATA in disk.names(folder):
        # A crash came while it was made, and nothing can be in it.
        disk.remove(folder / DATA)
    shard = open_shard(folder)
    disk.sync_folder(folder)
    return shard
