"""The merged view: reads streams from layers of recent changes over the base.

The layers are, from the newest on: the changes since the last checkpoint began, the changes that a checkpoint takes
into the base, and the base. While a checkpoint runs, the same bytes may be in two layers. So the view reads from the
base only the bytes of a stream that precede those in memory.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from heapq import merge
from itertools import filterfalse, islice
from typing import ParamSpec, TypeVar

from everbrook.protocol.errors import StreamDamaged
from everbrook.protocol.state import Edit, Head, Identity, Producer, Write
from everbrook.storage.api import Record, floor_of, needs_blob
from everbrook.storage.base_rows import unknown_identity
from everbrook.storage.damage import Damaged, DamageMark
from everbrook.storage.lmdb_base import LmdbBase, NameReader
from everbrook.storage.manifest import BASE
from everbrook.storage.message_index import MessageIndex, Messages, Run
from everbrook.storage.recent import Recent
from everbrook.storage.sorted_names import PrefixCounts

# The incarnation of a name whose row is damaged. No stream has it.
UNKNOWN = 0
# How many forks are searched for one that needs a blob. The blob of a stream with more forks is kept without a search.
MAX_CHECKED_FORKS = 1000

Given = ParamSpec("Given")
Result = TypeVar("Result")


class MergedView:
    """Reads streams from all layers."""

    def __init__(self, base: LmdbBase, max_counts: int) -> None:
        self._base = base
        self.recent = Recent()
        self.checkpointing: Recent | None = None
        self.counts = PrefixCounts(max_counts)
        self.marks: dict[int, DamageMark] = base.marks()
        """The damage marks of streams."""
        self.last_incarnation = 0
        """The largest number of a stream or blob that was ever stored. Opening sets it to that of the base."""

    def take(self, edit: Edit) -> None:
        """Apply a durable edit."""
        if isinstance(edit, Write):
            self.recent.write(edit)
            if edit.created:
                self.last_incarnation = max(self.last_incarnation, edit.head.identity.incarnation)
                self.counts.change(edit.head.identity.name, 1)
            if edit.cut and edit.head.kept.snapshot:
                # Blobs and incarnations share one series of numbers.
                self.last_incarnation = max(self.last_incarnation, edit.head.kept.snapshot.blob)
        else:
            self.recent.drop(edit)
            self.marks.pop(edit.head.identity.incarnation, None)
            self.counts.change(edit.head.identity.name, -1)

    def set_aside(self) -> Recent:
        """Begin a new layer of recent changes, and return the old one for a checkpoint."""
        aside = self.checkpointing = self.recent
        self.recent = Recent()
        if aside.order.sorted:
            # Listings are in use: sort the names now, while there are none, and not in a later turn with many.
            self.recent.order.sort()
        return aside

    def _layers(self) -> tuple[Recent, ...]:
        return (self.recent, self.checkpointing) if self.checkpointing else (self.recent,)

    def _ask_base(self, ask: Callable[Given, Result], *args: Given.args, **options: Given.kwargs) -> Result:
        """Read from the base, and mark the damage that the read meets."""
        try:
            return ask(*args, **options)
        except Damaged as error:
            self.mark(error.incarnation, error.mark)
            raise

    def mark(self, incarnation: int, mark: DamageMark) -> None:
        """Mark a stream as damaged from an offset on, unless it is marked at an earlier offset."""
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
        """Return the stream that has a name. If its head can't be read, the whole stream counts as damaged."""
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
            # All bytes are readable, so the mark is at the tail. It stops appends: without the producers a duplicate
            # would be stored twice.
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
        """Return streams with a lifetime or a retention policy, from all layers.

        Streams whose heads can't be read are skipped: they must not keep the streams after them from expiring.
        """
        found: list[Head] = []
        while not found and (incarnations := self._mortal(after, limit)):
            found = [head for head in incarnations.values() if head]
            after = max(incarnations)
        return found

    def _mortal(self, after: int, limit: int) -> dict[int, Head | None]:
        """Return the next of these streams in order, with their heads; None for a head that can't be read."""
        found = set(self._stored_mortal(after, limit))
        for layer in self._layers():
            found.update(islice(filterfalse(self._dropped, layer.mortal(after)), limit))
        return {incarnation: self.readable_head(incarnation) for incarnation in sorted(found)[:limit]}

    def _stored_mortal(self, after: int, limit: int) -> list[int]:
        """Read `limit` incarnations from the base that are not dropped. While many streams expire, most are dropped."""
        living: list[int] = []
        found = [after]
        while found and len(living) < limit:
            found = self._base.mortal(found[-1], limit)
            living += filterfalse(self._dropped, found)
        return living

    def _dropped(self, incarnation: int) -> bool:
        """Return whether a recent change has dropped a stream that an older layer or the base still has."""
        return any(incarnation in layer.dropped for layer in self._layers())

    def readable_head(self, incarnation: int) -> Head | None:
        """Return the head of a stream; None if it is missing or damaged."""
        with suppress(StreamDamaged):
            return self.head(incarnation)
        return None

    # Names

    def scan(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Return names in order, with their heads; None for a damaged stream."""
        with self._base.reading_names() as stored:
            found = islice(self._names(stored, prefix, after), limit)
            return [(name, self._listed_head(stored, incarnation)) for name, incarnation in found]

    def _names(self, base: NameReader, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the names in use, with their incarnations. If several layers have a name, the newest one counts."""
        layers = [_aged(age, layer.named(prefix, after)) for age, layer in enumerate(self._layers())]
        stored = ((name, holder or UNKNOWN) for name, holder in base.names(prefix, after))
        last = None
        for name, _, incarnation in merge(*layers, _aged(len(layers), stored)):
            if name != last and incarnation is not None:
                yield name, incarnation
            last = name

    def _listed_head(self, stored: NameReader, incarnation: int) -> Head | None:
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
        return stored.head(incarnation)

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
        with self._base.reading_names() as names:
            stored = names.count_without(prefix, set(recent))
        return stored + sum(incarnation is not None for incarnation in recent.values())

    # Forks

    def fork_count(self, incarnation: int) -> int:
        """Count the forks of a stream. If their rows are damaged, the stream counts as having one."""
        try:
            forks = set(self._base.forks(incarnation))
        except Damaged as error:
            # At least one: a stream with forks must not be removed, and it is unknown whether this one has any.
            head = self.head(incarnation)
            self.mark(incarnation, DamageMark(head.tail if head else 0, error.mark.reason))
            return 1
        for layer in reversed(self._layers()):
            forks |= layer.forked.get(incarnation, {}).keys()
            forks -= layer.unforked.get(incarnation, set())
        return len(forks)

    def _forks(self, source: int, after: int, limit: int) -> list[int]:
        """Return forks of a stream that are younger than `after`, the oldest first."""
        gone = {fork for layer in self._layers() for fork in layer.unforked.get(source, ())}
        recent = (iter(layer.forked.get(source, ())) for layer in self._layers())
        stored = self._base.forks(source, after, limit + len(gone))
        found: Iterator[int] = (fork for fork in merge(*recent, stored) if fork > after and fork not in gone)
        # While a checkpoint runs, a fork may be both in its layer and in the base: read twice as many, and keep each
        # once.
        return list(islice(dict.fromkeys(islice(found, 2 * limit)), limit))

    def _fork_identities(self, source: int, after: int, limit: int) -> list[Identity]:
        """Return the identities of those forks. Raises `StreamDamaged` if the head of one is lost."""
        heads = [self.head(fork) for fork in self._forks(source, after, limit)]
        if None in heads:
            raise StreamDamaged(f"a fork of stream {source:016x} was lost")
        return [head.identity for head in heads if head]

    def floor(self, incarnation: int) -> int:
        """Return the offset before which neither a stream nor a fork of it needs its bytes; 0 if it is unknown."""
        head = self.readable_head(incarnation)
        # Nothing of a damaged stream is discarded, because a repair may need it.
        if head is None or not head.kept.earliest or incarnation in self.marks:
            return 0
        return self._needed_from(head) or 0

    def _needed_from(self, head: Head) -> int | None:
        """Return the offset from which on a stream or a fork of it needs the stream's bytes. None: it is unknown."""
        try:
            oldest = next(iter(self._fork_identities(head.identity.incarnation, 0, 1)), None)
        except StreamDamaged:
            return None
        return floor_of(head, oldest)

    def keeps(self, owner: int, blob: int) -> bool:
        try:
            # A fork began with the snapshot that its source had then, so a fork that is older than the blob can't need
            # it.
            forks = self._fork_identities(owner, blob, MAX_CHECKED_FORKS + 1)
            return len(forks) > MAX_CHECKED_FORKS or needs_blob(self.head(owner), forks, blob)
        except StreamDamaged:
            return True

    def discardable_bytes(self, incarnation: int, floor: int) -> int:
        """Count the bytes before an offset in the base, including those that the running checkpoint adds."""
        run = self.checkpointing.run(incarnation) if self.checkpointing else None
        arriving_bytes = max(0, min(floor, run.tail) - run.first) if run else 0
        return self._base.chunks.bytes_before(incarnation, floor) + arriving_bytes

    # Bytes and messages

    def _runs(self, incarnation: int) -> list[Run]:
        """Return the runs of a stream, its bytes in memory, the newest first."""
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
        """Return the run that holds the byte at `offset`, if it is in memory. A run begins at a boundary."""
        return next((run for run in self._runs(incarnation) if run.first <= offset), None)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        """Return the last message boundary not greater than `offset`, which may lie behind the tail.

        An offset before the first retained byte is a boundary itself.
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

    def index_at(self, incarnation: int, offset: int, /) -> MessageIndex:
        run = self._run_from(incarnation, offset)
        return run or self._ask_base(self._base.chunks.index_at, incarnation, offset)

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
        """Seek in the base, then in memory. A message that is in both may be counted by either."""
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
            # Messages that neither the stream nor a fork of it retains may have been removed, so their absence is no
            # gap.
            needed = self._needed_from(head)
            needed = head.kept.earliest if needed is None else needed
            if position > max(needed, head.identity.first_own_offset):
                self._raise_gap(incarnation, position)
        return position, left

    def _raise_gap(self, incarnation: int, position: int) -> None:
        """Mark a stream as damaged from the offset on where messages are missing in the base, and raise `Damaged`."""
        error = Damaged(incarnation, position, BASE, "an index is missing")
        self.mark(incarnation, error.mark)
        raise error


def _aged(age: int, names: Iterable[tuple[bytes, int | None]]) -> Iterator[tuple[bytes, int, int | None]]:
    """Return names with the age of their layer, so that a merge puts the newest of equal names first."""
    return ((name, age, incarnation) for name, incarnation in names)
