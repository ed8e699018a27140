"""A run: consecutive bytes of one stream in memory, where its messages and appends end, and when those came.

Small appends are gathered in blocks; a large one is kept as it came, without a copy. No block grows beyond a bound, so
that growing never moves megabytes.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage.index import MessageIndex

INDEX_ENTRY_BYTES = 8
BLOCK_BYTES = 64 * 1024


class Run(MessageIndex):
    """The bytes of a stream from its first offset on."""

    __slots__ = ("_blocks", "_gathering", "_starts", "tail", "used_bytes")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. Where appends are not batches, an append is a message and one index serves both."""
        messages = array("Q")
        super().__init__(0, first, messages, array("Q") if batched else messages, array("Q"))
        self.tail = first
        self._blocks: list[bytes | bytearray] = []
        self._starts = array("Q")
        self._gathering = bytearray()
        self.used_bytes = 0

    def append(self, data: bytes, ends: Sequence[int], time: int) -> int:
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
        """Let go of the blocks, messages and appends before `floor`, a boundary. Tells how much memory that gave back.

        The block and the append that reach beyond it stay.
        """
        if floor <= self.first:
            return 0
        before_bytes = self.used_bytes
        gone = bisect_right(self._starts, floor) - 1 if floor < self.tail else len(self._starts)
        self.used_bytes -= sum(map(len, self._blocks[:gone]))
        del self._blocks[:gone], self._starts[:gone]
        if floor == self.tail:
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
