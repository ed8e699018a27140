"""Lineage: a stream's bytes and boundaries, its own and before them its source's (§4.2).

Every position belongs to exactly one stream of the chain: the nearest one that begins at or before it. A stream's own
part is in the storage up to `applied`; what is on its way there is in `unapplied`.
"""

from itertools import chain

from everbrook.protocol.change import Write
from everbrook.protocol.state import Identity
from everbrook.storage.api import Storage

OPEN_END = 2**63


class Lineage:
    """One stream's part of a chain of forks, linked to the part before it."""

    __slots__ = ("applied", "incarnation", "source", "start", "storage", "unapplied")

    def __init__(self, storage: Storage, identity: Identity, applied: int, source: "Lineage | None") -> None:
        self.storage = storage
        self.incarnation = identity.incarnation
        self.start = identity.first_own_offset
        while source and source.start >= self.start:
            # Nothing of this source's own part is inherited.
            source = source.source
        self.source: Lineage | None = source
        self.applied = applied
        self.unapplied: list[Write] = []

    def read(self, start: int, end: int) -> bytes:
        """Give the bytes from `start` to `end`, whoever holds them."""
        if start >= self.start:
            return self.storage.read(self.incarnation, start, end)
        parts: list[bytes] = []
        holder: Lineage | None = self
        while holder and start < end:
            if holder.start < end:
                first = max(start, holder.start)
                parts.append(holder.storage.read(holder.incarnation, first, end))
                end = first
            holder = holder.source
        return b"".join(reversed(parts))

    def _holder(self, offset: int) -> "tuple[Lineage, int]":
        """Give the part that a position belongs to, and where that part ends for this stream."""
        holder, end = self, OPEN_END
        while holder.source and offset < holder.start:
            end = holder.start
            holder = holder.source
        return holder, end

    def is_boundary(self, offset: int) -> bool:
        """Tell whether a message begins or ends at `offset`."""
        return self.boundary_at_or_before(offset) == offset

    def boundary_at_or_before(self, offset: int) -> int:
        """Give the last message boundary not greater than `offset`. A divergence point is one."""
        holder, _ = self._holder(offset)
        if offset == holder.start:
            return offset
        if offset > holder.applied:
            ends = chain.from_iterable(write.ends for write in holder.unapplied)
            return max((end for end in ends if end <= offset), default=holder.applied)
        return max(holder.start, self.storage.boundary_at_or_before(holder.incarnation, offset))

    def boundary_after(self, offset: int) -> int:
        """Give the first message boundary greater than `offset`."""
        holder, part_end = self._holder(offset)
        if offset < holder.applied:
            return min(part_end, self.storage.boundary_after(holder.incarnation, offset))
        ends = chain.from_iterable(write.ends for write in holder.unapplied)
        return min(part_end, next(end for end in ends if end > offset))

    def append_end(self, offset: int) -> int:
        """Give the end of the append that holds the byte at `offset`, as far as this stream has it."""
        holder, part_end = self._holder(offset)
        if offset < holder.applied:
            return min(part_end, self.storage.append_end(holder.incarnation, offset))
        ends = (write.ends[-1] for write in holder.unapplied if write.ends)
        return min(part_end, next(end for end in ends if end > offset))
