"""A run: consecutive bytes of one stream in memory, where its messages and appends end, and when those came.

Small appends are gathered in blocks; a large one is kept as it came, without a copy. No block grows beyond a bound, so
that growing never moves megabytes.
"""

from array import array
from bisect import bisect_right

INDEX_ENTRY_BYTES = 8
BLOCK_BYTES = 64 * 1024


class Run:
    """The bytes of a stream from its first offset on."""

    __slots__ = ("_blocks", "_gathering", "_starts", "appends", "first", "messages", "tail", "times", "used_bytes")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. Where appends are not batches, an append is a message and one index serves both."""
        self.first = first
        self.tail = first
        self._blocks: list[bytes | bytearray] = []
        self._starts = array("Q")
        self._gathering = bytearray()
        self.messages = array("Q")
        self.appends = array("Q") if batched else self.messages
        self.times = array("Q")
        self.used_bytes = 0

    def append(self, data: bytes, ends: tuple[int, ...], time: int) -> int:
        """Add the bytes of one append, whose messages end at `ends`. Tells how much memory that took."""
        if len(data) >= BLOCK_BYTES:
            self._begin_block(data)
            self._gathering = bytearray()
        else:
            if len(self._gathering) + len(data) > BLOCK_BYTES or not self._gathering:
                self._gathering = bytearray()
                self._begin_block(self._gathering)
            self._gathering += data
        self.tail += len(data)
        self.messages.extend(ends)
        self.times.append(time)
        entries = len(ends) + 1
        if self.appends is not self.messages:
            self.appends.append(ends[-1])
            entries += 1
        grown_bytes = len(data) + entries * INDEX_ENTRY_BYTES
        self.used_bytes += grown_bytes
        return grown_bytes

    def _begin_block(self, block: bytes | bytearray) -> None:
        self._blocks.append(block)
        self._starts.append(self.tail)

    def read(self, start: int, end: int) -> bytes:
        """Copy a range out, once."""
        if start == end:
            return b""
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

    def boundary_at_or_before(self, offset: int) -> int:
        """Give the last message boundary not greater than `offset`."""
        index = bisect_right(self.messages, offset)
        return self.messages[index - 1] if index else self.first

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        return self.messages[bisect_right(self.messages, offset)]

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        return self.appends[bisect_right(self.appends, offset)]
