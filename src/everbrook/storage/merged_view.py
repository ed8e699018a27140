"""The merged view: recent changes over the base, which answer together.

The newest come first: the changes since the last checkpoint began, those that a checkpoint is taking in, and the base.
What a checkpoint takes in is in two of them for a while, so of a stream's bytes the base is only asked for those before
the ones in memory.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import ParamSpec, TypeVar

from everbrook.protocol.change import Edit, Write
from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.api import Record, floor_of, needs_blob
from everbrook.storage.damage import Damaged, DamageMark
from everbrook.storage.index import MessageIndex, Messages, Run
from everbrook.storage.lmdb_base import Glance, LmdbBase
from everbrook.storage.manifest import BASE
from everbrook.storage.names import Counts
from everbrook.storage.recent import Recent
from everbrook.storage.rows import unknown_identity

# Sentinel for the incarnation behind a name whose row is damaged. No stream has it.
UNKNOWN = 0
# How many forks are checked for whether they need a blob. If there are more, the blob is kept without a check.
MAX_ASKED_FORKS = 1000

Given = ParamSpec("Given")
Result = TypeVar("Result")


class MergedView:
    """Reads streams, wherever they are."""

    def __init__(self, base: LmdbBase, max_counts: int) -> None:
        self._base = base
        self.recent = Recent()
        self.checkpointing: Recent | None = None
        self.counts = Counts(max_counts)
        self.marks: dict[int, DamageMark] = base.marks()
        """The streams that are known to be damaged."""
        self.last_incarnation = 0
        """The largest number of a stream or blob that was ever stored. Opening sets it to that of the base."""

    def take(self, edit: Edit) -> None:
        """Take an edit that is durable."""
        if isinstance(edit, Write):
            self.recent.write(edit)
            if edit.created:
                self.last_incarnation = max(self.last_incarnation, edit.head.identity.incarnation)
                self.counts.change(edit.head.identity.name, 1)
            if edit.cut and edit.head.kept.snapshot:
                self.last_incarnation = max(self.last_incarnation, edit.head.kept.snapshot.blob)
        else:
            self.recent.drop(edit)
            self.marks.pop(edit.head.identity.incarnation, None)
            self.counts.change(edit.head.identity.name, -1)

    def set_aside(self) -> Recent:
        """Let a checkpoint take in the recent changes, and begin anew."""
        aside = self.checkpointing = self.recent
        self.recent = Recent()
        if aside.order.sorted:
            self.recent.order.sort()
        return aside

    def _layers(self) -> tuple[Recent, ...]:
        return (self.recent, self.checkpointing) if self.checkpointing else (self.recent,)

    def _ask_base(self, ask: Callable[Given, Result], *args: Given.args, **options: Given.kwargs) -> Result:
        """Ask the base, and remember the damage that it meets."""
        try:
            return ask(*args, **options)
        except Damaged as error:
            self.mark(error.incarnation, error.mark)
            raise

    def mark(self, incarnation: int, mark: DamageMark) -> None:
        """Remember that a stream is damaged from an offset on."""
        known = self.marks.get(incarnation)
        if known is None or mark.offset < known.offset:
            self.marks[incarnation] = mark

    # Streams

    def head(self, incarnation: int) -> Head | None:
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
            if incarnation in layer.dropped:
                return None
        return self._ask_base(self._base.head, incarnation)

    def load(self, name: bytes) -> Record | None:
        """Give the stream that has a name. Where its head can't be read, all of it counts as damaged."""
        incarnation = self._incarnation(name)
        if incarnation is None:
            return None
        try:
            head = self.head(incarnation)
        except Damaged:
            head = None
        if head is None:
            self.mark(incarnation, DamageMark(0, f"the head of stream {incarnation:016x} is missing"))
            return Record(Head(unknown_identity(name, incarnation), 0, 0), {}, self.marks[incarnation])
        try:
            producers = self._producers(incarnation)
        except Damaged as error:
            self.marks[incarnation] = DamageMark(head.tail, error.mark.reason)
            producers = {}
        return Record(head, producers, self.marks.get(incarnation))

    def _incarnation(self, name: bytes) -> int | None:
        for layer in self._layers():
            if name in layer.names:
                return layer.names[name]
        return self._base.incarnation(name)

    def _producers(self, incarnation: int) -> dict[bytes, Producer]:
        producers: dict[bytes, Producer] = {}
        streams = [layer.streams.get(incarnation) for layer in self._layers()]
        if not any(stream and stream.created for stream in streams):
            producers = self._base.producers(incarnation)
        for stream in reversed(streams):
            if stream:
                for producer_id in stream.forgotten:
                    producers.pop(producer_id, None)
                producers.update(stream.producers)
        return producers

    def mortal(self, after: int, limit: int) -> list[Head]:
        """Give streams that time acts on: those in the base that live, and those that have not got there.

        Those whose heads can't be read are passed over: what comes behind them is none the less due.
        """
        found: list[Head] = []
        while not found and (incarnations := self._mortal(after, limit)):
            found = [head for head in incarnations.values() if head]
            after = max(incarnations)
        return found

    def _mortal(self, after: int, limit: int) -> dict[int, Head | None]:
        """Give the next streams that time acts on, in their order; None for a head that can't be read."""
        recent = {
            incarnation: stream.head
            for layer in reversed(self._layers())
            for incarnation, stream in layer.streams.items()
            if incarnation > after and stream.head.identity.mortal
        }
        dropped = {incarnation for layer in self._layers() for incarnation in layer.dropped}
        stored = self._stored_mortal(after, limit, dropped)
        return {
            incarnation: recent.get(incarnation) or self.readable_head(incarnation)
            for incarnation in sorted({*stored, *recent} - dropped)[:limit]
        }

    def _stored_mortal(self, after: int, limit: int, dropped: set[int]) -> list[int]:
        """Ask the base for so many that are not dropped. While very many expire, few of them lie ahead."""
        living: list[int] = []
        found = [after]
        while found and len(living) < limit:
            found = self._base.mortal(found[-1], limit)
            living += [incarnation for incarnation in found if incarnation not in dropped]
        return living

    def readable_head(self, incarnation: int) -> Head | None:
        """Give the head of a stream, if it is there and not damaged."""
        with suppress(StreamDamaged):
            return self.head(incarnation)
        return None

    # Names

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Give names in order, with their heads; None for a damaged one."""
        with self._base.glance() as glance:
            found = islice(self._names(glance, prefix, after), limit)
            return [(name, self._glimpse(glance, incarnation)) for name, incarnation in found]

    def _names(self, glance: Glance, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int]]:
        """Give the names that are taken, and whose they are. Of a name in several layers the newest one tells."""
        layers = [_aged(age, layer.named(prefix, after)) for age, layer in enumerate(self._layers())]
        stored = ((name, holder or UNKNOWN) for name, holder in glance.names(prefix, after))
        last = None
        for name, _, incarnation in merge(*layers, _aged(len(layers), stored)):
            if name != last and incarnation is not None:
                yield name, incarnation
            last = name

    def _glimpse(self, glance: Glance, incarnation: int) -> Head | None:
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
        return glance.head(incarnation)

    def count(self, prefix: bytes) -> int:
        known = self.counts.get(prefix)
        if known is None:
            known = self._count(prefix)
            self.counts.put(prefix, known)
        return known

    def _count(self, prefix: bytes) -> int:
        recent: dict[bytes, int | None] = {}
        for layer in reversed(self._layers()):
            recent.update(layer.named(prefix, b""))
        with self._base.glance() as glance:
            stored = glance.count_without(prefix, set(recent))
        return stored + sum(incarnation is not None for incarnation in recent.values())

    # Forks

    def fork_count(self, incarnation: int) -> int:
        """Count the streams that branch off one. If that is damaged, there is at least one."""
        try:
            forks = set(self._base.forks(incarnation))
        except Damaged as error:
            head = self.head(incarnation)
            self.mark(incarnation, DamageMark(head.tail if head else 0, error.mark.reason))
            return 1
        for layer in reversed(self._layers()):
            forks |= layer.forked.get(incarnation, {}).keys()
            forks -= layer.unforked.get(incarnation, set())
        return len(forks)

    def _forks(self, source: int, after: int, limit: int) -> list[int]:
        """Give streams that branch off one, those younger than `after`, the oldest first."""
        gone = {fork for layer in self._layers() for fork in layer.unforked.get(source, ())}
        recent = (iter(layer.forked.get(source, ())) for layer in self._layers())
        stored = self._base.forks(source, after, limit + len(gone))
        found: Iterator[int] = (fork for fork in merge(*recent, stored) if fork > after and fork not in gone)
        return list(islice(dict.fromkeys(islice(found, 2 * limit)), limit))

    def _fork_identities(self, source: int, after: int, limit: int) -> list[Identity]:
        """Give what those forks are. `StreamDamaged` says that it is not known of one of them."""
        heads = [self.head(fork) for fork in self._forks(source, after, limit)]
        if None in heads:
            raise StreamDamaged(f"a fork of stream {source:016x} was lost")
        return [head.identity for head in heads if head]

    def floor(self, incarnation: int) -> int:
        """Give the offset before which nobody needs a stream's bytes; 0 also if that is not known."""
        head = self.readable_head(incarnation)
        if head is None or not head.kept.earliest or incarnation in self.marks:
            return 0
        return self._needed_from(head) or 0

    def _needed_from(self, head: Head) -> int | None:
        """Give the offset from which on a stream or a fork of it needs the stream's bytes. None: it is not known."""
        try:
            oldest = next(iter(self._fork_identities(head.identity.incarnation, 0, 1)), None)
        except StreamDamaged:
            return None
        return floor_of(head, oldest)

    def keeps(self, owner: int, blob: int) -> bool:
        try:
            # A fork has the snapshot that its source had when it was made, and so no younger one.
            forks = self._fork_identities(owner, blob, MAX_ASKED_FORKS + 1)
            return len(forks) > MAX_ASKED_FORKS or needs_blob(self.head(owner), forks, blob)
        except StreamDamaged:
            return True

    def discardable_bytes(self, incarnation: int, floor: int) -> int:
        """Count what the base has before an offset, and will have when the checkpoint that is under way is done."""
        run = self.checkpointing.run(incarnation) if self.checkpointing else None
        arriving_bytes = max(0, min(floor, run.tail) - run.first) if run else 0
        return self._base.chunks.bytes_before(incarnation, floor) + arriving_bytes

    # Bytes and messages

    def _runs(self, incarnation: int) -> list[Run]:
        """Give the runs of a stream that are in memory, the newest first."""
        return [run for layer in self._layers() if (run := layer.run(incarnation))]

    def read(self, incarnation: int, start: int, end: int) -> bytes:
        parts: list[bytes] = []
        for run in self._runs(incarnation):
            if run.first < end and start < end:
                first = max(start, run.first)
                parts.append(run.read(first, end))
                end = first
        if start < end:
            parts.append(self._ask_base(self._base.chunks.read, incarnation, start, end))
        return parts[0] if len(parts) == 1 else b"".join(reversed(parts))

    def _run_from(self, incarnation: int, offset: int) -> Run | None:
        """Give the run that holds the byte at `offset`, if it is in memory. Where a run begins is a boundary."""
        return next((run for run in self._runs(incarnation) if run.first <= offset), None)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Give the last message boundary not greater than `offset`, which may lie behind the tail.

        Where nothing is kept before an offset, it is a boundary.
        """
        run = self._run_from(incarnation, offset)
        if run:
            return run.boundary_at_or_before(offset)
        try:
            return self._base.chunks.index_at(incarnation, offset - 1).boundary_at_or_before(offset)
        except Damaged as error:
            head = self.head(incarnation)
            if head and offset <= max(head.identity.first_own_offset, self._needed_from(head) or 0):
                return offset
            if head and error.mark.offset == head.tail < offset:
                return head.tail
            self.mark(incarnation, error.mark)
            raise

    def _index_at(self, incarnation: int, offset: int) -> MessageIndex:
        run = self._run_from(incarnation, offset)
        return run or self._ask_base(self._base.chunks.index_at, incarnation, offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        return self._index_at(incarnation, offset).boundary_after(offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        return self._index_at(incarnation, offset).append_end(offset)

    def time_at(self, incarnation: int, offset: int) -> int:
        return self._index_at(incarnation, offset).time_at(offset)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        runs = self._runs(incarnation)
        stored_end = min(end, runs[-1].first) if runs else end
        ends, times = array("Q"), array("Q")
        if start < stored_end:
            stored = self._ask_base(self._base.chunks.messages, incarnation, start, stored_end)
            ends, times = stored.ends, stored.times
        for run in reversed(runs):
            found = run.messages_between(start, end)
            ends.extend(found.ends)
            times.extend(found.times)
        return Messages(ends, times)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        return self._seek_on(incarnation, offset, count) if count >= 0 else self._seek_back(incarnation, offset, count)

    def _seek_on(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Seek in the base, then in memory. It does not matter which of them has the messages that are in both."""
        runs = self._runs(incarnation)
        position, left = offset, count
        if not runs or position < runs[-1].first:
            position, left = self._ask_base(self._base.chunks.seek, incarnation, offset, count)
            head = self.head(incarnation) if left and not runs else None
            if left and position < (runs[-1].first if runs else head.tail if head else 0):
                self._raise_gap(incarnation, position)
        for run in reversed(runs):
            if left and position < run.tail:
                position, left = run.seek(position, left)
        return position, left

    def _seek_back(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        position, left = offset, count
        for run in self._runs(incarnation):
            if left and run.first < position:
                position, left = run.seek(position, left)
        if left:
            position, left = self._ask_base(self._base.chunks.seek, incarnation, position, left)
        head = self.head(incarnation) if left else None
        if head:
            # What neither the stream nor a fork of it retains may be gone.
            needed = self._needed_from(head)
            needed = head.kept.earliest if needed is None else needed
            if position > max(needed, head.identity.first_own_offset):
                self._raise_gap(incarnation, position)
        return position, left

    def _raise_gap(self, incarnation: int, position: int) -> None:
        """Mark a stream as damaged where messages are missing in the base, and raise `Damaged`."""
        error = Damaged(incarnation, position, BASE, "an index is missing")
        self.mark(incarnation, error.mark)
        raise error


def _aged(age: int, names: Iterable[tuple[bytes, int | None]]) -> Iterator[tuple[bytes, int, int | None]]:
    """Give names with the age of their layer, by which those that are alike are ordered."""
    return ((name, age, incarnation) for name, incarnation in names)
