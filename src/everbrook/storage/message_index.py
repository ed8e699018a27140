"""Indexes of consecutive messages: the ends of messages and appends, and the time of each append.

Positions are relative to `base`. If appends are not batches, each append is one message, and one array serves for both.
An append that began before the first message of an index, or that ends behind the last one, is in the index too.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from everbrook.protocol.errors import StreamDamaged

INDEX_ENTRY_BYTES = 8
BLOCK_BYTES = 64 * 1024
SPAN_BITS = 16
SPAN_BYTES = 1 << SPAN_BITS
"""Within a span of a stream, the ends of messages differ only in their lowest two bytes."""


class Messages(Struct, frozen=True):
    """Consecutive messages: the offsets at which they end, and the time at which each was appended."""

    ends: "array[int]"
    times: "array[int]"


def moved(values: "array[int]", shift: int, typecode: Literal["I", "Q"]) -> "array[int]":
    """Return increasing values plus `shift`, each in four or eight bytes.

    If `shift` is a multiple of `SPAN_BYTES`, the lowest two bytes of each value are copied and the others are the same
    for all values of a span. That takes a tenth of the time of an addition for each value.
    """
    if shift % SPAN_BYTES:
        return array(typecode, (each + shift for each in values))
    if not shift and values.typecode == typecode:
        return values[:]
    found = array(typecode, bytes(len(values) * array(typecode).itemsize))
    parts, step = halves(found), found.itemsize // 2
    parts[::step] = halves(values)[:: values.itemsize // 2]
    place = 0
    while place < len(values):
        span = values[place] >> SPAN_BITS
        after = bisect_left(values, (span + 1) << SPAN_BITS, place)
        high = span + (shift >> SPAN_BITS)
        for half in range(1, step):
            parts[place * step + half : after * step : step] = repeated(high >> SPAN_BITS * (half - 1), after - place)
        place = after
    return found


def halves(values: "array[int]") -> "memoryview[int]":
    """Return an array as numbers of two bytes, the lowest of each value first."""
    return memoryview(values).cast("B").cast("H")


def repeated(number: int, count: int) -> "memoryview[int]":
    """Return the lowest two bytes of a number several times."""
    return memoryview(array("H", (number % SPAN_BYTES,)) * count)


class MessageIndex:
    """The ends of consecutive messages, from offset `first` on."""

    __slots__ = ("appends", "base", "first", "messages", "times")

    def __init__(
        self, base: int, first: int, messages: "array[int]", appends: "array[int]", times: "array[int]"
    ) -> None:
        self.base = base
        self.first = first
        self.messages = messages
        self.appends = appends
        self.times = times

    def boundary_at_or_before(self, offset: int) -> int:
        """Return the last message boundary not greater than `offset`."""
        place = bisect_right(self.messages, offset - self.base)
        return self.base + self.messages[place - 1] if place else self.first

    def boundary_after(self, offset: int) -> int:
        """Return the first message boundary greater than `offset`."""
        return self.base + self.messages[bisect_right(self.messages, offset - self.base)]

    def append_end(self, offset: int) -> int:
        """Return the end of the append that holds the byte at `offset`."""
        return self.base + self.appends[bisect_right(self.appends, offset - self.base)]

    def time_at(self, offset: int) -> int:
        """Return the time of the append that holds the byte at `offset`."""
        return self.times[bisect_right(self.appends, offset - self.base)]

    def seek(self, offset: int, count: int) -> tuple[int, int]:
        """Move `count` messages on, backwards if negative, as far as the index reaches.

        Returns the offset reached, and how many messages are left to go.
        """
        if count >= 0:
            place = bisect_right(self.messages, offset - self.base) + count - 1
            last = len(self.messages) - 1
            return self._boundary(min(place, last)), max(0, place - last)
        if offset <= self.first:
            return self.first, count
        place = bisect_left(self.messages, offset - self.base) + count
        return self._boundary(max(place, -1)), min(0, place + 1)

    def _boundary(self, place: int) -> int:
        """Return the end of the message at a place; place -1 stands for the message before the first."""
        return self.base + self.messages[place] if place >= 0 else self.first

    def messages_between(self, start: int, end: int) -> Messages:
        """Return the messages that end after `start` and not after `end`."""
        first, last = bisect_right(self.messages, start - self.base), bisect_right(self.messages, end - self.base)
        ends = moved(self.messages[first:last], self.base, "Q")
        if self.appends is self.messages:
            return Messages(ends, self.times[first:last])
        return Messages(ends, self._times_of(first, last))

    def _times_of(self, first: int, last: int) -> "array[int]":
        """Return the time of each message from `first` to `last`: that of the append that it came with."""
        times = array("Q")
        if first == last:
            return times
        append = bisect_left(self.appends, self.messages[first])
        last_append = bisect_left(self.appends, self.messages[last - 1])
        if last_append - append == last - first - 1:
            # Each of these appends has one message, so the times can be copied as they are.
            return self.times[append : last_append + 1]
        while first < last:
            after = min(last, bisect_right(self.messages, self.appends[append]))
            times.extend(self.times[append : append + 1] * (after - first))
            first = after
            append += 1
        return times


class Run(MessageIndex):
    """Consecutive bytes of a stream in memory, with their index.

    Small appends are collected in blocks; a large append is a block of its own, without a copy. The size of a block is
    bounded, because a growing array is copied from time to time.
    """

    __slots__ = ("_blocks", "_gathering", "_starts", "tail", "used_bytes")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. `batched`: an append may have several messages."""
        messages = array("Q")
        super().__init__(0, first, messages, array("Q") if batched else messages, array("Q"))
        self.tail = first
        self._blocks: list[bytes | bytearray] = []
        self._starts = array("Q")
        self._gathering = bytearray()
        self.used_bytes = 0

    def append(self, data: bytes, ends: Sequence[int], time: int) -> int:
        """Add the bytes of one append, whose messages end at `ends`. Returns the memory that this took."""
        size, gathering = len(data), self._gathering
        if gathering and len(gathering) + size <= BLOCK_BYTES:
            gathering += data
        elif size >= BLOCK_BYTES:
            self._begin_block(data)
            # The next small append begins a new block, because its bytes follow those of this one.
            self._gathering = bytearray()
        else:
            self._gathering = bytearray(data)
            self._begin_block(self._gathering)
        self.tail += size
        if len(ends) == 1:
            self.messages.append(ends[0])
        else:
            self.messages.extend(ends)
        self.times.append(time)
        entries = len(ends) + 1
        if self.appends is not self.messages:
            self.appends.append(ends[-1])
            entries += 1
        grown_bytes = size + entries * INDEX_ENTRY_BYTES
        self.used_bytes += grown_bytes
        return grown_bytes

    def _begin_block(self, block: bytes | bytearray) -> None:
        self._blocks.append(block)
        self._starts.append(self.tail)

    def read(self, start: int, end: int) -> bytes:
        """Return a range, in one copy."""
        if start == end:
            return b""
        if start < self.first:
            raise StreamDamaged("these bytes of the stream were discarded")
        index = bisect_right(self._starts, start) - 1
        first = self._slice(index, start, end)
        if start + len(first) == end:
            return first
        parts = [first]
        position = start + len(first)
        while position < end:
            index += 1
            parts.append(self._slice(index, position, end))
            position += len(parts[-1])
        return b"".join(parts)

    def _slice(self, index: int, start: int, end: int) -> bytes:
        block, block_start = self._blocks[index], self._starts[index]
        if isinstance(block, bytes):
            return block[start - block_start : end - block_start]
        return memoryview(block)[start - block_start : end - block_start].tobytes()

    def discard(self, floor: int) -> int:
        """Free the blocks, messages and appends before `floor`, a boundary. Returns the memory that this freed.

        The block and the append that contain `floor` stay.
        """
        if floor <= self.first:
            return 0
        before_bytes = self.used_bytes
        gone = bisect_right(self._starts, floor) - 1 if floor < self.tail else len(self._starts)
        self.used_bytes -= sum(map(len, self._blocks[:gone]))
        del self._blocks[:gone], self._starts[:gone]
        if floor == self.tail:
            # All blocks are freed. The next append must not extend one of them.
            self._gathering = bytearray()
        self._discard_index(floor)
        self.first = floor
        return before_bytes - self.used_bytes

    def _discard_index(self, floor: int) -> None:
        messages, appends = bisect_right(self.messages, floor), bisect_right(self.appends, floor)
        del self.messages[:messages], self.times[:appends]
        entries = messages + appends
        if self.appends is not self.messages:
            del self.appends[:appends]
            entries += appends
        self.used_bytes -= entries * INDEX_ENTRY_BYTES
