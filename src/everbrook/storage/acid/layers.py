"""Layers: what there is of the streams, in three places that answer together.

The newest come first: the recent changes, those that are being folded, and the shelf. What is folded is in two of them
for a while, so of a stream's bytes the shelf is only asked for those before the ones in memory.
"""

from array import array
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from everbrook.protocol.errors import StreamDamaged, quoted
from everbrook.protocol.state import Head, Identity, Producer
from everbrook.storage.acid.recent import Recent
from everbrook.storage.acid.shelf import Shelf
from everbrook.storage.api import Record
from everbrook.storage.index import Messages
from everbrook.storage.run import Run


class Layers:
    """Reads streams, wherever they are."""

    _shelf: Shelf
    _recent: Recent
    _folding: Recent | None
    _damaged: set[int]

    def _layers(self) -> tuple[Recent, ...]:
        return (self._recent, self._folding) if self._folding else (self._recent,)

    # Streams

    def _head(self, incarnation: int) -> Head | None:
        for layer in self._layers():
            stream = layer.streams.get(incarnation)
            if stream:
                return stream.head
            if incarnation in layer.dropped:
                return None
        return self._shelf.head(incarnation)

    def load(self, name: bytes) -> Record | None:
        incarnation = self._incarnation(name)
        if incarnation is None:
            return None
        head = self._head(incarnation)
        if head is None or incarnation in self._damaged:
            raise StreamDamaged(f"a part of the stream at {quoted(name)} was lost with a damaged part of the journal")
        return Record(head, self._producers(incarnation))

    def _incarnation(self, name: bytes) -> int | None:
        for layer in self._layers():
            if name in layer.names:
                return layer.names[name]
        return self._shelf.incarnation(name)

    def _producers(self, incarnation: int) -> dict[bytes, Producer]:
        producers: dict[bytes, Producer] = {}
        streams = [layer.streams.get(incarnation) for layer in self._layers()]
        if not any(stream and stream.created for stream in streams):
            producers = self._shelf.producers(incarnation)
        for stream in reversed(streams):
            if stream:
                for producer_id in stream.forgotten:
                    producers.pop(producer_id, None)
                producers.update(stream.producers)
        return producers

    def mortal(self, after: int, limit: int) -> list[Head]:
        """Give streams that time acts on: those on the shelf that live, and those that have not got there."""
        recent = {
            incarnation: stream.head
            for layer in reversed(self._layers())
            for incarnation, stream in layer.streams.items()
            if incarnation > after and stream.head.identity.mortal
        }
        dropped = {incarnation for layer in self._layers() for incarnation in layer.dropped}
        shelved = {head.identity.incarnation: head for head in self._shelf.mortal(after, limit + len(dropped))}
        heads = {**shelved, **recent}
        return [heads[incarnation] for incarnation in sorted(heads.keys() - dropped)[:limit]]

    # Forks

    def fork_count(self, incarnation: int) -> int:
        forks = set(self._shelf.forks(incarnation))
        for layer in reversed(self._layers()):
            forks |= layer.forked.get(incarnation, {}).keys()
            forks -= layer.unforked.get(incarnation, set())
        return len(forks)

    def _forks(self, source: int, after: int, limit: int) -> list[int]:
        """Give streams that branch off one, those younger than `after`, the oldest first."""
        gone = {fork for layer in self._layers() for fork in layer.unforked.get(source, ())}
        recent = (iter(layer.forked.get(source, ())) for layer in self._layers())
        shelved = self._shelf.forks(source, after, limit + len(gone))
        found: Iterator[int] = (fork for fork in merge(*recent, shelved) if fork > after and fork not in gone)
        return list(islice(dict.fromkeys(islice(found, 2 * limit)), limit))

    def _fork_identities(self, source: int, after: int, limit: int) -> list[Identity]:
        """Give what those forks are. `StreamDamaged` says that it is not known of one of them."""
        heads = [self._head(fork) for fork in self._forks(source, after, limit)]
        if None in heads:
            raise StreamDamaged(f"a fork of stream {source:016x} was lost")
        return [head.identity for head in heads if head]

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
            parts.append(self._shelf.read(incarnation, start, end))
        return parts[0] if len(parts) == 1 else b"".join(reversed(parts))

    def _run_from(self, incarnation: int, offset: int) -> Run | None:
        """Give the run that holds the byte at `offset`, if it is in memory. Where a run begins is a boundary."""
        return next((run for run in self._runs(incarnation) if run.first <= offset), None)

    def boundary_at_or_before(self, incarnation: int, offset: int) -> int:
        run = self._run_from(incarnation, offset)
        return run.boundary_at_or_before(offset) if run else self._shelf.boundary_at_or_before(incarnation, offset)

    def boundary_after(self, incarnation: int, offset: int) -> int:
        run = self._run_from(incarnation, offset)
        return run.boundary_after(offset) if run else self._shelf.boundary_after(incarnation, offset)

    def append_end(self, incarnation: int, offset: int) -> int:
        run = self._run_from(incarnation, offset)
        return run.append_end(offset) if run else self._shelf.append_end(incarnation, offset)

    def time_at(self, incarnation: int, offset: int) -> int:
        run = self._run_from(incarnation, offset)
        return run.time_at(offset) if run else self._shelf.time_at(incarnation, offset)

    def messages(self, incarnation: int, start: int, end: int) -> Messages:
        runs = self._runs(incarnation)
        shelved_end = min(end, runs[-1].first) if runs else end
        ends, times = array("Q"), array("Q")
        if start < shelved_end:
            shelved = self._shelf.messages(incarnation, start, shelved_end)
            ends, times = shelved.ends, shelved.times
        for run in reversed(runs):
            found = run.messages_between(start, end)
            ends.extend(found.ends)
            times.extend(found.times)
        return Messages(ends, times)

    def seek(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        return self._seek_on(incarnation, offset, count) if count >= 0 else self._seek_back(incarnation, offset, count)

    def _seek_on(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        """Begin on the shelf. What is folded already leads as far there as it does in memory."""
        runs = self._runs(incarnation)
        position, left = offset, count
        if not runs or position < runs[-1].first:
            position, left = self._shelf.seek(incarnation, offset, count)
        for run in reversed(runs):
            if left and position < run.tail:
                position, left = run.seek(position, left)
        return position, left

    def _seek_back(self, incarnation: int, offset: int, count: int) -> tuple[int, int]:
        position, left = offset, count
        for run in self._runs(incarnation):
            if left and run.first < position:
                position, left = run.seek(position, left)
        return self._shelf.seek(incarnation, position, left) if left else (position, left)
