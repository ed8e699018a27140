"""The shelf: what has been folded out of the journal, spread over shards.

A stream is in the shard that its incarnation is hashed to, its name in the one of the name, its fork entries in the one
of its source. Each shard says how far it has got: after a crash between two of them, the journal brings the other on.
"""

import zlib
from bisect import bisect_right
from pathlib import Path

from everbrook.protocol.change import Edit
from everbrook.protocol.state import Head, Producer
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shard import Fold, Shard
from everbrook.storage.disk import Disk

_MIX = 0x9E3779B97F4A7C15
_WORD_BITS = 64


class Shelf:
    """All shards of a store."""

    def __init__(self, disk: Disk, folder: Path, shard_count: int) -> None:
        self._bits = shard_count.bit_length() - 1
        self._shards = [_open_shard(disk, folder / f"shard-{number:03d}") for number in range(shard_count)]
        self._applied = [shard.applied for shard in self._shards]

    @property
    def applied(self) -> int:
        """The number up to which every shard has everything."""
        return min(self._applied)

    def _number_of(self, incarnation: int) -> int:
        return ((incarnation * _MIX) % (1 << _WORD_BITS)) >> (_WORD_BITS - self._bits)

    def _number_of_name(self, name: bytes) -> int:
        return zlib.crc32(name) % len(self._shards)

    def has(self, edit: Edit, number: int) -> bool:
        """Tell whether the shard of a stream has a change of it already."""
        return number <= self._applied[self._number_of(edit.head.identity.incarnation)]

    def shard(self, incarnation: int) -> Shard:
        """Give the shard that holds a stream."""
        return self._shards[self._number_of(incarnation)]

    def incarnation(self, name: bytes) -> int | None:
        """Give the stream that has a name."""
        return self._shards[self._number_of_name(name)].incarnation(name)

    def head(self, incarnation: int) -> Head | None:
        """Give the head of a stream."""
        return self.shard(incarnation).head(incarnation)

    def producers(self, incarnation: int) -> dict[bytes, Producer]:
        """Give what a stream remembers of its producers."""
        return self.shard(incarnation).producers(incarnation)

    def forks(self, source: int) -> set[int]:
        """Give the streams that branch off one."""
        return self.shard(source).forks(source)

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        """Give the bytes of a stream from `start` to `end`."""
        return self.shard(incarnation).read(incarnation, start, end)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Give the last message boundary not greater than `offset`. Where nothing lies before it, it is one."""
        try:
            start, index = self.shard(incarnation).index_at(incarnation, offset - 1)
        except KeyError:
            return offset
        place = bisect_right(index.messages, offset - start)
        return start + index.messages[place - 1] if place else start

    def boundary_after(self, incarnation: int, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        start, index = self.shard(incarnation).index_at(incarnation, offset)
        return start + index.messages[bisect_right(index.messages, offset - start)]

    def append_end(self, incarnation: int, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        start, index = self.shard(incarnation).index_at(incarnation, offset)
        return start + index.appends[bisect_right(index.appends, offset - start)]

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
                folds[self._number_of(incarnation)].damaged(incarnation)
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
                self._shards[shard_number].let_go()
        finally:
            for fold in folds:
                fold.abort()

    def _fill(self, folds: list[Fold], recent: Recent) -> None:
        for incarnation in recent.dropped:
            folds[self._number_of(incarnation)].drop(incarnation)
        for incarnation, stream in recent.streams.items():
            folds[self._number_of(incarnation)].stream(stream)
        for name, holder in recent.names.items():
            folds[self._number_of_name(name)].name(name, holder)
        for source, forks in recent.forked.items():
            for fork in forks:
                folds[self._number_of(source)].fork(source, fork)
        for source, forks in recent.unforked.items():
            for fork in forks:
                folds[self._number_of(source)].unfork(source, fork)

    def close(self) -> None:
        """Close every shard."""
        for shard in self._shards:
            shard.close()


def _open_shard(disk: Disk, folder: Path) -> Shard:
    """Open a shard. The names of its files are durable before anything relies on them."""
    disk.make_folder(folder)
    shard = Shard(folder)
    disk.sync_folder(folder)
    return shard
