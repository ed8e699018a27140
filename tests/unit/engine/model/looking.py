"""Looking at streams in other ways: bounded, by time, by number, all at once, and in lists."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from everbrook.engine import Stream
from everbrook.protocol import ReadQuery, Sentinel
from everbrook.protocol.errors import InvalidOffset, InvalidQuery, NotFound, StreamGone
from tests.unit.engine.model.commanding import attempt, places, positions, with_streams
from tests.unit.engine.model.cutting import mostly
from tests.unit.engine.model.reading import ReadingMachine
from tests.unit.engine.rig import resident_streams

counts = st.none() | st.integers(0, 5)


class LookingMachine(ReadingMachine):
    """Reads pages that end somewhere, seeks, bootstraps, holds and lists."""

    @with_streams
    @rule(place=places, at=positions, until=positions, exact=mostly)
    def read_until(self, *, place: int, at: int, until: int, exact: bool) -> None:
        """A read that ends somewhere is a slice of the whole."""
        opened = self._open(self.name(place))
        if opened is None:
            return
        stream, expected = opened
        starts = [boundary for boundary in expected.boundaries if boundary >= expected.earliest]
        start = starts[at % len(starts)]
        end = expected.boundaries[until % len(expected.boundaries)] if exact else until
        if end < start:
            assert attempt(lambda: str(self.engine.readers.page(stream, start, end))) == InvalidQuery.__name__
        elif end < expected.tail and end not in expected.boundaries:
            assert attempt(lambda: str(self.engine.readers.page(stream, start, end))) == InvalidOffset.__name__
        else:
            assert self._read_slice(stream, start, end) == expected.content[start:end]

    def _read_slice(self, stream: Stream, start: int, end: int) -> bytes:
        read, end = b"", min(end, stream.committed.tail)
        while True:
            page = self.engine.readers.page(stream, start, end)
            read += self.engine.readers.read(stream, page)
            start = page.end
            if start == end:
                return read

    @with_streams
    @rule(place=places, last=counts, ago=counts, skip=st.integers(0, 3))
    def seek(self, *, place: int, last: int | None, ago: int | None, skip: int) -> None:
        """A read that begins at a time or a number of messages begins at the right one."""
        opened = self._open(self.name(place))
        if opened is None or (last is None and ago is None):
            return
        stream, expected = opened
        at = self.clock.now() - ago * 500 if ago is not None and last is None else None
        query = ReadQuery(Sentinel.BEGINNING, at=at, last=last, skip=skip)
        starts = [start for start, _, _ in expected.retained] + [expected.tail]
        if at is not None:
            place = sum(time < at for _, _, time in expected.retained)
        else:
            place = max(0, len(starts) - 1 - (last or 0))
        assert self.engine.readers.begin(stream, query) == starts[min(place + skip, len(starts) - 1)]

    @with_streams
    @rule(place=places)
    def bootstrap(self, *, place: int) -> None:
        """A snapshot and all messages behind it make up the whole (002 §3.2)."""
        opened = self._open(self.name(place))
        if opened is None:
            return
        stream, expected = opened
        kept, snapshot = stream.committed.kept, expected.snapshot
        assert kept.earliest == expected.earliest
        assert (kept.snapshot is None) == (snapshot is None)
        if kept.snapshot and snapshot:
            assert kept.snapshot.offset == snapshot.offset >= expected.earliest
            assert self._blob(stream) == snapshot.body
        start = snapshot.offset if snapshot else 0
        assert self._messages(stream, start) == [each for each in expected.messages if each[0] >= start]

    def _blob(self, stream: Stream) -> bytes:
        snapshot = stream.committed.kept.snapshot
        if snapshot is None or snapshot.automatic:
            return b""
        reader = self.engine.readers.open_blob(stream, snapshot)
        return b"".join(iter(lambda: reader.read(4), b""))

    def _messages(self, stream: Stream, start: int) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        while start < stream.committed.tail:
            page = self.engine.readers.page(stream, start)
            messages = self.engine.readers.messages(stream, page)
            for end, time in zip(messages.ends, messages.times, strict=True):
                found.append((start, end, time))
                start = end
            assert start == page.end
        return found

    @invariant()
    def what_is_durable_is_as_in_the_model(self) -> None:
        """From the earliest retained offset on, every stream in memory has the bytes that it was given."""
        committed = self.model.history[self.engine.durable_change]
        for stream in resident_streams(self.engine):
            expected, head = committed[stream.committed.identity.name], stream.committed
            content = expected.content
            assert (head.kept.earliest, head.tail) == (expected.earliest, len(content))
            assert stream.lineage.read(expected.earliest, head.tail) == content[expected.earliest :]

    # In one go

    @with_streams
    @rule(place=places)
    def hold(self, *, place: int) -> None:
        opened = self._open(self.name(place))
        if opened:
            self.held(*opened)

    @precondition(lambda self: self.holdings)
    @rule(which=places)
    def release(self, *, which: int) -> None:
        """What was there when a reader began is there until it ends, unless the stream is not."""
        holding = self.holdings.pop(which % len(self.holdings))
        try:
            stream = self.engine.readers.current(holding.stream)
        except (NotFound, StreamGone):
            stream = holding.stream
        else:
            if not stream.ended:
                end = holding.start + len(holding.content)
                assert stream.lineage.read(holding.start, end) == holding.content
        self.engine.reclaimer.release(holding.stream)

    # Lists

    @rule(prefix=st.sampled_from([b"", b"a", b"/ds/agents/", b"bucket/"]), after=places, limit=st.integers(1, 6))
    def list_streams(self, *, prefix: bytes, after: int, limit: int) -> None:
        """Those that live are listed as they are, in order, from a name on."""
        now, committed = self.clock.now(), self.model.history[self.engine.durable_change]
        names = sorted(committed)
        behind = names[after % len(names)] if names and after >= 5 else b""
        living = [committed[name] for name in names if name > behind and name.startswith(prefix)]
        expected = [stream for stream in living if not self.model.ended(stream, now)][:limit]
        found = self.engine.listing.living(prefix, behind, limit)
        assert [name for name, _ in found] == [stream.name for stream in expected]
        assert [head and (head.tail, head.closed, head.kept.earliest) for _, head in found] == [
            (stream.tail, stream.closed, stream.earliest) for stream in expected
        ]
        assert self.engine.listing.count(prefix or b"/") == sum(name.startswith(prefix or b"/") for name in names)
