"""A run: consecutive bytes of one stream in memory, and where its messages and appends end.

Small appends are gathered in blocks; a large one is kept as it came, without a copy. No block grows beyond a bound, so
that growing never moves megabytes.
"""

from array import array
from bisect import bisect_right

INDEX_ENTRY_BYTES = 8
BLOCK_BYTES = 64 * 1024


class Run:
    """The bytes of a stream from its first offset on."""

    __slots__ = ("_appends", "_blocks", "_first", "_gathering", "_messages", "_starts", "_tail", "used_bytes")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. Where appends are not batches, an append is a message and one index serves both."""
        self._first = first
        self._tail = first
        self._blocks: list[bytes | bytearray] = []
        self._starts = array("Q")
        self._gathering = bytearray()
        self._messages = array("Q")
        self._appends = array("Q") if batched else self._messages
        self.used_bytes = 0

    def append(self, data: bytes, ends: tuple[int, ...]) -> int:
        """Add the bytes of one append, whose messages end at `ends`. Tells how much memory that took."""
        if len(data) >= BLOCK_BYTES:
            self._begin_block(data)
            self._gathering = bytearray()
        else:
            if len(self._gathering) + len(data) > BLOCK_BYTES or not self._gathering:
                self._gathering = bytearray()
                self._begin_block(self._gathering)
            self._gathering += data
        self._tail += len(data)
        self._messages.extend(ends)
        entries = len(ends)
        if self._appends is not self._messages:
            self._appends.append(ends[-1])
            entries += 1
        grown_bytes = len(data) + entries * INDEX_ENTRY_BYTES
        self.used_bytes += grown_bytes
        return grown_bytes

    def _begin_block(self, block: bytes | bytearray) -> None:
        self._blocks.append(block)
        self._starts.append(self._tail)

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
        index = bisect_right(self._messages, offset)
        return self._messages[index - 1] if index else self._first

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        return self._messages[bisect_right(self._messages, offset)]

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`."""
        return self._appends[bisect_right(self._appends, offset)]
