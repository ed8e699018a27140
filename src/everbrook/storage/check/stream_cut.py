"""The cut of damaged streams: the readable part of a stream becomes a new incarnation with the same name.

The incarnation is new because within an incarnation an offset must always mean the same bytes. It has the bytes,
boundaries and times up to the damage. It has no producers, no stream sequence and no closure, because they described
the lost part. Forks of the stream become forks of the new incarnation. A fork that inherits lost bytes is cut too.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from everbrook.protocol.errors import quoted
from everbrook.protocol.state import Drop, Fork, Head, Kept, Snapshot, Write
from everbrook.storage.base_rows import INCARNATION, PLACE, Database
from everbrook.storage.checkpoint import Checkpoint
from everbrook.storage.chunk import Chunk, inline_parts, is_inline, parse_location
from everbrook.storage.damage import Damaged
from everbrook.storage.disk import Disk
from everbrook.storage.file_blobs import BLOBS, FileBlobs
from everbrook.storage.hold import Hold
from everbrook.storage.lmdb_base import LmdbBase
from everbrook.storage.lost_found import LostAndFound
from everbrook.storage.message_index import MessageIndex
from everbrook.storage.recent import Recent, RecentStream
from everbrook.storage.segments import segment_path
from everbrook.storage.tuning import StorageTuning

_COPY_BYTES = 1 << 20

Forks = Callable[[int], list[int]]
HeadOf = Callable[[int], Head | None]


class StreamCut:
    """Cuts and drops streams of one store. Each stream and its forks are changed in one transaction."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        base: LmdbBase,
        tuning: StorageTuning,
        new_incarnation: Callable[[], int],
        lost: LostAndFound,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._base = base
        self._tuning = tuning
        self._new_incarnation = new_incarnation
        self._lost = lost

    def cut(self, incarnation: int, offset: int) -> Iterator[str]:
        """Cut a stream at an offset. Yields lines for the user about it and its forks."""
        head = self._base.head(incarnation)
        if head is None:
            return
        new, chunks = self._cut_head(head, offset)
        kept = self.keep_bytes(incarnation, chunks[-1][1] if chunks else head.identity.first_own_offset)
        recent = Recent()
        recent.apply(Drop(head))
        recent.apply(Write(new, created=True))
        forks_to_cut = self._move_forks(recent, head, new, available=chunks[-1][1] if chunks else 0)
        with self._checkpoint() as checkpoint:
            checkpoint.take(recent, {})
            for start, end in chunks:
                checkpoint.append(new.identity, [self._chunk(incarnation, start, end, new.tail)])
            self._commit(checkpoint, new.identity.incarnation)
        aside = f"; {kept.name} has the bytes behind it" if kept else ""
        yield f"stream {quoted(head.identity.name)} ends at offset {new.tail} now, it was {head.tail}{aside}"
        for fork, lost_from in forks_to_cut:
            yield from self.cut(fork, lost_from)

    def drop(self, incarnation: int) -> Iterator[str]:
        """Delete a stream. Its forks keep their own bytes."""
        head = self._base.head(incarnation)
        if head is None:
            return
        kept = self.keep_bytes(incarnation, 0)
        recent = Recent()
        recent.apply(Drop(head))
        for fork in self._base.forks(incarnation):
            if forked := self._base.readable_head(fork):
                recent.unforked.setdefault(incarnation, set()).add(fork)
                for orphan in orphaned(forked, self._base.forks, self._base.readable_head):
                    recent.streams[orphan.identity.incarnation] = RecentStream(orphan, created=False)
        with self._checkpoint() as checkpoint:
            checkpoint.take(recent, {})
            self._commit(checkpoint, incarnation)
        yield f"stream {quoted(head.identity.name)} is deleted" + (f"; {kept.name} has its bytes" if kept else "")

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self._base, self._tuning)

    def _commit(self, checkpoint: Checkpoint, incarnation: int) -> None:
        """Commit a checkpoint, and then remove the segments of the old incarnation."""
        state = self._base.state()
        checkpoint.set_applied(state.applied, max(state.last_incarnation, incarnation))
        checkpoint.commit()
        # Only now: until the commit, rows of the base refer to these segments.
        for stream, segment in checkpoint.removals:
            self._base.segments.forget(stream, segment)
            with suppress(OSError):
                self._disk.remove(segment_path(self._base.segments.folder, stream, segment))

    # The new incarnation

    def _cut_head(self, head: Head, offset: int) -> tuple[Head, list[tuple[int, int]]]:
        """Return the head of the new incarnation, and the ranges of bytes that it gets, one for each chunk."""
        identity, new = head.identity, self._new_incarnation()
        ranges = self._ranges(identity.incarnation, min(offset, head.tail))
        end = ranges[-1][1] if ranges else identity.first_own_offset
        if end < head.kept.earliest:
            # No retained byte is readable.
            ranges, end = [], head.kept.earliest
        fork = identity.fork
        if fork and offset < fork.offset:
            end = max(offset, head.kept.earliest)
            fork = replace(fork, offset=end)
        kept = self._kept(head.kept, end, identity.incarnation, new)
        return Head(
            replace(identity, incarnation=new, fork=fork), end, head.written_at, deleted=head.deleted, kept=kept
        ), ranges

    def _ranges(self, incarnation: int, offset: int) -> list[tuple[int, int]]:
        """Return the readable ranges of a stream's chunks before an offset, each up to a boundary."""
        ranges: list[tuple[int, int]] = []
        for start in self._starts(incarnation):
            if start >= offset or (ranges and ranges[-1][1] != start):
                break
            end = self._readable_end(incarnation, start, offset)
            if end > start:
                ranges.append((start, end))
        return ranges

    def _readable_end(self, incarnation: int, start: int, offset: int) -> int:
        """Return the last boundary of a chunk, not greater than an offset, before which the chunk is readable."""
        try:
            index = self._base.chunks.index_at(incarnation, start)
        except Damaged:
            return start
        end = index.boundary_at_or_before(min(offset, start + index.messages[-1]))
        try:
            self._base.chunks.read(incarnation, start, end)
        except Damaged as damage:
            return index.boundary_at_or_before(max(start, damage.mark.offset))
        return end

    def _starts(self, incarnation: int) -> list[int]:
        return [PLACE.unpack(key)[1] for key, _ in self._base.rows(Database.CHUNKS, INCARNATION.pack(incarnation))]

    def _chunk(self, incarnation: int, start: int, end: int, tail: int) -> Chunk:
        """Read a range of a chunk, for a stream whose new tail is `tail`."""
        index = clipped(self._base.chunks.index_at(incarnation, start), end, tail)
        return Chunk(start, self._base.chunks.read(incarnation, start, end), index)

    def _kept(self, kept: Kept, tail: int, old: int, new: int) -> Kept:
        """Return the `Kept` of the new incarnation. A snapshot of its own is copied for the new owner."""
        snapshot = kept.snapshot
        if snapshot is None:
            return kept
        if snapshot.offset > tail:
            return without_snapshot(kept)
        return replace(kept, snapshot=self._owned(snapshot, old, new))

    def _owned(self, snapshot: Snapshot, old: int, new: int) -> Snapshot:
        if snapshot.automatic or snapshot.owner != old:
            return snapshot
        blobs = FileBlobs(self._disk, self._folder / BLOBS, Hold(self._disk))
        with suppress(Damaged), closing(blobs.open(old, snapshot.blob, snapshot.size)) as reader:
            draft = blobs.begin(new, snapshot.blob)
            try:
                while data := reader.read(_COPY_BYTES):
                    draft.write(data)
            except BaseException:
                draft.abandon()
                raise
            draft.finish()
        return replace(snapshot, owner=new)

    # Forks

    def _move_forks(self, recent: Recent, old: Head, new: Head, available: int) -> list[tuple[int, int]]:
        """Move the forks of a stream to its new incarnation. Returns those that lost inherited bytes, and where."""
        forks_to_cut: list[tuple[int, int]] = []
        source, target = old.identity.incarnation, new.identity.incarnation
        for incarnation in self._base.forks(source):
            head = self._base.readable_head(incarnation)
            fork = head.identity.fork if head else None
            if head is None or fork is None:
                continue
            moved = replace(fork, source_incarnation=target, kept=self._kept(fork.kept, fork.offset, source, target))
            kept = self._kept(head.kept, head.tail, source, target)
            head = replace(head, identity=replace(head.identity, fork=moved), kept=kept)
            recent.streams[incarnation] = RecentStream(head, created=False)
            recent.unforked.setdefault(source, set()).add(incarnation)
            recent.forked.setdefault(target, {})[incarnation] = None
            lost_from = inherited_loss(head, fork, max(available, new.identity.first_own_offset))
            if lost_from is not None:
                forks_to_cut.append((incarnation, lost_from))
        return forks_to_cut

    # Bytes that are set aside

    def keep_bytes(self, incarnation: int, start: int) -> Path | None:
        """Copy the bytes of a stream from an offset on to `lost+found`, even those that do not verify."""
        parts = ((first, data) for first, data in self._raw_chunks(incarnation) if first + len(data) > start)
        first_part = next(parts, None)
        if first_part is None:
            return None
        begin = max(start, first_part[0])
        placed = ((max(first - begin, 0), data[max(begin - first, 0) :]) for first, data in chain((first_part,), parts))
        return self._lost.keep(f"stream-{incarnation:016x}-from-{begin}.bytes", placed)

    def _raw_chunks(self, incarnation: int) -> Iterator[tuple[int, bytes]]:
        for key, row in self._base.rows(Database.CHUNKS, INCARNATION.pack(incarnation)):
            if len(key) != PLACE.size:
                continue
            if is_inline(row):
                yield PLACE.unpack(key)[1], bytes(inline_parts(row)[0])
            elif located := parse_location(key, row):
                with suppress(OSError):
                    yield PLACE.unpack(key)[1], self._base.segments.read(incarnation, located[0], 0, located[0].length)


def inherited_loss(head: Head, fork: Fork, available: int) -> int | None:
    """Return the offset from which on a fork has lost inherited bytes, if its source ends at `available`."""
    lost_from = max(available, head.kept.earliest)
    return lost_from if lost_from < fork.offset else None


def without_snapshot(kept: Kept) -> Kept:
    """Return a `Kept` whose snapshot is lost, with an automatic snapshot as after a retention policy."""
    if not kept.earliest:
        return Kept()
    time = kept.snapshot.published_at if kept.snapshot else 0
    return Kept(kept.earliest, Snapshot(kept.earliest, time))


def orphaned(head: Head, forks: Forks, head_of: HeadOf) -> Iterator[Head]:
    """Turn a fork whose source is lost into a stream with only its own bytes. Yields it and its changed forks."""
    fork = head.identity.fork
    if fork is None:
        return
    own = replace(head.identity, fork=None)
    head = replace(head, identity=own, kept=raised_kept(head.kept, fork.offset, own.incarnation))
    yield head
    yield from _descendants(head, forks, head_of)


def _descendants(head: Head, forks: Forks, head_of: HeadOf) -> Iterator[Head]:
    """Yield those forks, and forks of forks, that begin later because a stream above them begins later now."""
    for incarnation in forks(head.identity.incarnation):
        below = head_of(incarnation)
        fork = below.identity.fork if below else None
        if below is None or fork is None:
            continue
        floor = min(head.kept.earliest, fork.offset)
        moved = replace(below.identity, fork=replace(fork, kept=raised_kept(fork.kept, floor, incarnation)))
        raised = replace(below, identity=moved, kept=raised_kept(below.kept, floor, incarnation))
        if raised != below:
            yield raised
            yield from _descendants(raised, forks, head_of)


def raised_kept(kept: Kept, floor: int, owner: int) -> Kept:
    """Return a `Kept` after the bytes before `floor` were lost."""
    if kept.earliest >= floor:
        return kept
    if kept.snapshot and kept.snapshot.owner == owner and kept.snapshot.offset >= floor:
        return Kept(floor, kept.snapshot)
    return without_snapshot(Kept(floor, kept.snapshot))


def clipped(index: MessageIndex, end: int, tail: int) -> MessageIndex:
    """Return the index of a chunk up to an offset. An append that crosses the new tail ends there."""
    size, last = end - index.base, tail - index.base
    messages = array("I", (each for each in index.messages if each <= size))
    if index.appends is index.messages:
        return MessageIndex(index.base, index.first, messages, messages, index.times[: len(messages)])
    count = bisect_left(index.appends, size) + 1
    appends = array("I", (min(each, last) for each in index.appends[:count]))
    return MessageIndex(index.base, index.first, messages, appends, index.times[:count])
