"""Lineage: which stream holds which part of a fork's bytes (§4.2).

A fork's bytes are a chain of segments, the oldest ancestor's first and its own last. Every position belongs to
exactly one of them; the last segment is open-ended.
"""

from bisect import bisect_right

from msgspec import Struct

from everbrook.protocol.state import Identity
from everbrook.storage.api import Storage

OPEN_END = 2**63


class Segment(Struct, frozen=True, gc=False):
    """A range of positions whose bytes one stream holds."""

    incarnation: int
    start: int
    end: int


class Lineage:
    """Reads a stream's bytes and boundaries across the streams that hold them."""

    __slots__ = ("_segments", "_starts", "_storage")

    def __init__(self, storage: Storage, identity: Identity, source: "Lineage | None") -> None:
        self._storage = storage
        start = identity.first_own_offset
        own = Segment(identity.incarnation, start, OPEN_END)
        self._segments = [*source.before(start), own] if source else [own]
        self._starts = [segment.start for segment in self._segments]

    def before(self, offset: int) -> list[Segment]:
        """Give the segments of what lies before `offset`."""
        return [
            Segment(segment.incarnation, segment.start, min(segment.end, offset))
            for segment in self._segments
            if segment.start < offset
        ]

    def read(self, start: int, end: int) -> bytes:
        """Give the bytes from `start` to `end`, whoever holds them."""
        if start >= self._starts[-1]:
            return self._storage.read(self._segments[-1].incarnation, start, end)
        return b"".join(
            self._storage.read(segment.incarnation, max(start, segment.start), min(end, segment.end))
            for segment in self._segments
            if segment.start < end and segment.end > start
        )

    def _holder(self, offset: int) -> Segment:
        return self._segments[max(0, bisect_right(self._starts, offset) - 1)]

    def is_boundary(self, offset: int) -> bool:
        """Tell whether a message begins or ends at `offset`."""
        return self.boundary_at_or_before(offset) == offset

    def boundary_at_or_before(self, offset: int) -> int:
        """Give the last message boundary not greater than `offset`. A divergence point is one."""
        segment = self._holder(offset)
        if offset == segment.start:
            return offset
        return max(segment.start, self._storage.boundary_at_or_before(segment.incarnation, offset))

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        segment = self._holder(offset)
        return min(segment.end, self._storage.boundary_after(segment.incarnation, offset))

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`, as far as this stream has it."""
        segment = self._holder(offset)
        return min(segment.end, self._storage.append_end(segment.incarnation, offset))
