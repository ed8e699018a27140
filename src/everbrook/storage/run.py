"""A run: the contiguous bytes of one stream in memory, and where its messages and appends end."""

from array import array
from bisect import bisect_right

INDEX_ENTRY_BYTES = 8


class Run:
    """The bytes that a stream itself holds, from its first own offset on."""

    __slots__ = ("_appends", "_bytes", "_first", "_messages")

    def __init__(self, first: int, *, batched: bool) -> None:
        """Begin at `first`. Where appends are not batches, an append is a message and one index serves both."""
        self._first = first
        self._bytes = bytearray()
        self._messages = array("Q")
        self._appends = array("Q") if batched else self._messages

    @property
    def used_bytes(self) -> int:
        """How much memory the bytes and their indexes take."""
        entries = len(self._messages)
        if self._appends is not self._messages:
            entries += len(self._appends)
        return len(self._bytes) + entries * INDEX_ENTRY_BYTES

    def append(self, data: bytes, ends: tuple[int, ...]) -> int:
        """Add the bytes of one append, whose messages end at `ends`. Tells how much memory that took."""
        self._bytes += data
        self._messages.extend(ends)
        entries = len(ends)
        if self._appends is not self._messages:
            self._appends.append(ends[-1])
            entries += 1
        return len(data) + entries * INDEX_ENTRY_BYTES

    def read(self, start: int, end: int) -> bytes:
        """Copy a range out, once."""
        with memoryview(self._bytes) as view:
            return view[start - self._first : end - self._first].tobytes()

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
