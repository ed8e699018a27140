"""Lineage: the bytes and the message boundaries of a stream, first those of its source, then its own (§4.2).

Every position belongs to exactly one stream of the chain: the nearest one that begins at or before it. A stream's own
part is in the storage up to `applied`; pending writes are in `unapplied`.

A part further up the chain begins earlier. So the holder of a position is found by bisection: each part refers to the
part before it and to one far up. A chain of n parts is searched in O(log n) steps, and takes O(n) memory (skew-binary
jump pointers, Myers 1983).
"""

from array import array
from itertools import chain, islice

from everbrook.protocol.state import Identity, Write
from everbrook.storage.api import Storage
from everbrook.storage.message_index import Messages

OPEN_END = 2**63


class Lineage:
    """One stream's part of a chain of forks, linked to the part before it."""

    __slots__ = ("applied", "depth", "incarnation", "jump", "source", "start", "storage", "unapplied")

    def __init__(self, storage: Storage, identity: Identity, applied: int, source: "Lineage | None") -> None:
        self.storage = storage
        self.incarnation = identity.incarnation
        self.start = identity.first_own_offset
        if source and source.start >= self.start:
            # The fork inherits nothing of this source's own part, so the part is left out of the chain.
            source = source.holder_of(self.start - 1)[0] if self.start else None
        self.source: Lineage | None = source
        self.depth = 0
        self.jump: Lineage | None = None
        if source:
            self.depth = source.depth + 1
            jump = source.jump or source
            far = jump.jump or jump
            # The rule of the skew-binary numbers: two jumps of the same length make one of twice that length.
            self.jump = far if source.depth - jump.depth == jump.depth - far.depth else source
        self.applied = applied
        self.unapplied: list[Write] = []

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from `start` to `end`, from all parts that hold some of them."""
        if start >= self.start:
            return self.storage.read(self.incarnation, start, end)
        parts: list[bytes] = []
        holder: Lineage | None = self.holder_of(end - 1)[0]
        while holder and start < end:
            if holder.start < end:
                first = max(start, holder.start)
                parts.append(holder.storage.read(holder.incarnation, first, end))
                end = first
            holder = holder.source
        return b"".join(reversed(parts))

    def holder_of(self, offset: int) -> "tuple[Lineage, int]":
        """Return the part that a position belongs to, and where that part ends for this stream."""
        holder, end = self, OPEN_END
        while offset < holder.start and (source := holder.source):
            jump = holder.jump
            if jump and offset < jump.start:
                holder = jump
            else:
                holder, end = source, holder.start
        return holder, end

    def end_of_parts(self, start: int, parts: int) -> int:
        """Return the end of the last of `parts` parts, counted from the one that holds `start`."""
        depth = self.holder_of(start)[0].depth + parts
        behind = self
        if depth > self.depth:
            return OPEN_END
        while behind.source and behind.depth > depth:
            jump, source = behind.jump, behind.source
            behind = jump if jump and jump.depth >= depth else source
        return behind.start

    def is_boundary(self, offset: int) -> bool:
        """Return whether a message begins or ends at `offset`."""
        return self.boundary_at_or_before(offset) == offset

    def boundary_at_or_before(self, offset: int) -> int:
        """Return the last message boundary not greater than `offset`. A divergence point is a boundary."""
        holder, _ = self.holder_of(offset)
        if offset == holder.start:
            return offset
        if offset > holder.applied:
            ends = chain.from_iterable(write.ends for write in holder.unapplied)
            return max((end for end in ends if end <= offset), default=holder.applied)
        return max(holder.start, self.storage.boundary_at_or_before(holder.incarnation, offset))

    def boundary_after(self, offset: int) -> int:
        """Return the first message boundary greater than `offset`."""
        holder, part_end = self.holder_of(offset)
        if offset < holder.applied:
            return min(part_end, self.storage.index_at(holder.incarnation, offset).boundary_after(offset))
        ends = chain.from_iterable(write.ends for write in holder.unapplied)
        return min(part_end, next(end for end in ends if end > offset))

    def append_end(self, offset: int) -> int:
        """Return the end of the append that holds the byte at `offset`, as far as this stream has it."""
        holder, part_end = self.holder_of(offset)
        if offset < holder.applied:
            return min(part_end, self.storage.index_at(holder.incarnation, offset).append_end(offset))
        ends = (write.ends[-1] for write in holder.unapplied if write.ends)
        return min(part_end, next(end for end in ends if end > offset))

    def time_at(self, offset: int) -> int:
        """Return the time of the append that holds the byte at `offset`."""
        holder, _ = self.holder_of(offset)
        if offset < holder.applied:
            return self.storage.index_at(holder.incarnation, offset).time_at(offset)
        writes = (write for write in holder.unapplied if write.ends)
        return next(write.head.written_at for write in writes if write.ends[-1] > offset)

    def first_since(self, start: int, end: int, time: int) -> int:
        """Return the beginning of the first message between two boundaries that was appended at `time` or later.

        It is found by bisection, because the times of a stream's appends never decrease.
        """
        while start < end:
            middle = self.boundary_at_or_before((start + end) // 2)
            if self.time_at(middle) >= time:
                end = middle
            else:
                start = self.boundary_after(middle)
        return start

    def seek(self, offset: int, count: int, bound: int) -> int:
        """Move `count` messages on from a boundary, backwards if negative, but not beyond `bound`."""
        if count == 0:
            return offset
        if count < 0:
            return max(bound, self._back(offset, -count, bound))
        return min(bound, self._forward(offset, count, bound))

    def _forward(self, offset: int, count: int, bound: int) -> int:
        while count and offset < bound:
            holder, part_end = self.holder_of(offset)
            if offset >= holder.applied:
                ends = (end for write in holder.unapplied for end in write.ends if end > offset)
                return next(islice(ends, count - 1, None), bound)
            offset, count = self._forward_in(holder, offset, count, part_end)
        return offset

    def _forward_in(self, holder: "Lineage", offset: int, count: int, part_end: int) -> tuple[int, int]:
        """Move on within the stored messages of one part, of which this stream has those before `part_end`."""
        position, left = self.storage.seek(holder.incarnation, offset, count)
        if position <= part_end:
            return position, left
        # The storage has counted messages behind the divergence point, which are not in this stream: count again.
        return part_end, count - len(self._messages_in(holder, offset, part_end).ends)

    def _back(self, offset: int, count: int, bound: int) -> int:
        while count and offset > bound:
            holder, _ = self.holder_of(offset - 1)
            if offset > holder.applied:
                ends = (end for write in holder.unapplied for end in write.ends if end < offset)
                boundaries = [holder.applied, *ends]
                if count <= len(boundaries):
                    return boundaries[-count]
                offset, count = holder.applied, count - len(boundaries)
            else:
                position, left = self.storage.seek(holder.incarnation, offset, -count)
                if position == offset:
                    break
                offset, count = position, -left
        return offset

    def messages(self, start: int, end: int) -> Messages:
        """Return the messages between two boundaries, all of which are in the storage."""
        ends, times = array("Q"), array("Q")
        while start < end:
            holder, part_end = self.holder_of(start)
            stop = min(end, part_end)
            found = self._messages_in(holder, start, stop)
            ends.extend(found.ends)
            times.extend(found.times)
            start = stop
        return Messages(ends, times)

    def _messages_in(self, holder: "Lineage", start: int, end: int) -> Messages:
        """Return the messages of one part. For a fork, a message that its divergence point cuts ends there."""
        found = self.storage.messages(holder.incarnation, start, end)
        if not found.ends or found.ends[-1] < end:
            found.ends.append(end)
            found.times.append(self.storage.index_at(holder.incarnation, end - 1).time_at(end - 1))
        return found
