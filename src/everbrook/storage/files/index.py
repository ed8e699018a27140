"""The index of a segment: that of its messages, and where the bytes of each append lie in the file.

It is made from the records whenever it is needed, so it can't contradict them.
"""

from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

from everbrook.protocol.change import Write
from everbrook.storage.disk import Disk
from everbrook.storage.files.damage import Damage
from everbrook.storage.index import MessageIndex

ENTRY_BYTES = 8
INDEX_BYTES = 512


class SegmentIndex(MessageIndex):
    """The appends of one segment, from offset `first` to `tail`."""

    __slots__ = ("places", "tail")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. Where appends are not batches, an append is a message and one array serves both."""
        messages = array("Q")
        super().__init__(0, first, messages, array("Q") if batched else messages, array("Q"))
        self.tail = first
        self.places = array("Q")

    @property
    def weight(self) -> int:
        """How much memory it takes."""
        return INDEX_BYTES + ENTRY_BYTES * (len(self.messages) + 3 * len(self.places))

    def add(self, write: Write, end: int) -> None:
        """Take in a write whose record ends at `end`: its bytes are the last of the record."""
        if write.data:
            self.append(len(write.data), write.ends, end - len(write.data), write.head.written_at)

    def append(self, size: int, ends: tuple[int, ...], place: int, time: int) -> None:
        """Take in an append of `size` bytes that begin at `place` in the file."""
        self.tail += size
        self.messages.extend(ends)
        if self.appends is not self.messages:
            self.appends.append(ends[-1])
        self.places.append(place)
        self.times.append(time)

    def extend(self, ends: list[int], places: list[int], times: list[int]) -> None:
        """Take in appends of one message each, from the tail on."""
        self.tail = ends[-1]
        self.messages.extend(ends)
        if self.appends is not self.messages:
            self.appends.extend(ends)
        self.places.extend(places)
        self.times.extend(times)

    def read(self, disk: Disk, path: Path, start: int, end: int) -> bytes:
        """Read bytes out of the segment's file: at once, and without what lies between the appends."""
        first, last = bisect_right(self.appends, start), bisect_left(self.appends, end)
        place = self.places[first] + start - self._start(first)
        size = self.places[last] + end - self._start(last) - place
        data = disk.read(path, place, size)
        if len(data) < size:
            raise Damage(path, place + len(data))
        return data if first == last else self._gather(data, first, last, place)

    def _start(self, append: int) -> int:
        return self.appends[append - 1] if append else self.first

    def _gather(self, data: bytes, first: int, last: int, place: int) -> bytes:
        """Join the appends from `first` to `last` out of file bytes that begin at `place`, in the first of them."""
        parts = [data[: self.places[first] + self.appends[first] - self._start(first) - place]]
        bounds = pairwise(self.appends[first:last])
        parts += [
            data[at - place : at - place + end - start]
            for at, (start, end) in zip(self.places[first + 1 : last], bounds, strict=True)
        ]
        parts.append(data[self.places[last] - place :])
        return b"".join(parts)
