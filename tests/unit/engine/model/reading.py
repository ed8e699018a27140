"""Reads at random: a reader sees what is durable and nothing else, in bounded pages of whole messages."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from everbrook.engine import Stream
from everbrook.protocol import Sentinel
from everbrook.protocol.errors import InvalidOffset, NotFound, OffsetGone, StreamGone
from tests.unit.engine.model.actors import Follower
from tests.unit.engine.model.commanding import PAGE_BYTES, attempt, places, positions, with_streams
from tests.unit.engine.model.cutting import CuttingMachine
from tests.unit.engine.model.model_stream import ModelStream


class ReadingMachine(CuttingMachine):
    """Reads, follows and leaves."""

    @with_streams
    @rule(place=places, at=positions, exact=st.booleans())
    def read(self, *, place: int, at: int, exact: bool) -> None:
        """Read from somewhere to the tail: only what is durable, whole messages, in bounded pages."""
        opened = self._open(self.name(place))
        if opened is None:
            return
        stream, expected = opened
        start = self.position(expected, at, exact=exact)
        if start is not None and start < expected.earliest:
            assert attempt(lambda: str(self.engine.readers.page(stream, start))) == OffsetGone.__name__
            return
        if start is not None and start < expected.tail and start not in expected.boundaries:
            assert attempt(lambda: str(self.engine.readers.page(stream, start))) == InvalidOffset.__name__
            return
        begin = expected.tail if start is None else min(start, expected.tail)
        assert self._read_pages(stream, expected, start) == expected.content[begin:]

    def _open(self, name: bytes) -> tuple[Stream, ModelStream] | None:
        """Begin a read, where the model can; it touches the stream."""
        now, committed = self.clock.now(), self.model.history[self.engine.durable_change]
        try:
            expected = self.model.find(committed, name, now)
        except (NotFound, StreamGone):
            # Whether forks keep an ended stream is told from the newest state.
            assert attempt(lambda: str(self.engine.readers.open(name, now))) in {
                "StreamNotFound",
                "StreamGone",
                "BucketNotFound",
            }
            return None
        assert self.engine.readers.find(name, now).committed.tail == expected.tail
        self.model.touched[expected.incarnation] = now
        return self.engine.readers.open(name, now), expected

    def _read_pages(self, stream: Stream, expected: ModelStream, start: int | None) -> bytes:
        page = self.engine.readers.page(stream, Sentinel.NOW if start is None else start)
        read = self.engine.readers.read(stream, page)
        boundaries = expected.boundaries
        while not page.up_to_date:
            messages = boundaries.index(page.end) - boundaries.index(page.start)
            assert messages > 0
            assert messages == 1 or page.end - page.start <= PAGE_BYTES
            page = self.engine.readers.page(stream, page.end)
            read += self.engine.readers.read(stream, page)
        assert page.end == expected.tail
        assert page.final == expected.closed
        return read

    @with_streams
    @rule(place=places)
    def follow(self, *, place: int) -> None:
        opened = self._open(self.name(place))
        if opened is None or opened[1].closed:
            return
        stream = opened[0]
        follower = Follower(self.engine, stream, self.engine.durable_change, self._touch_left)
        self.engine.readers.join(stream, follower)
        self.followers.append(follower)

    def _touch_left(self, follower: Follower) -> None:
        """The last one who follows a stream has read it until the moment of leaving (§5.1)."""
        if not any(other.follows and other.incarnation == follower.incarnation for other in self.followers):
            self.model.touched[follower.incarnation] = self.clock.now()

    @precondition(lambda self: self.followers)
    @rule(which=positions)
    def leave(self, *, which: int) -> None:
        self.followers[which % len(self.followers)].leave()

    @invariant()
    def count_followers(self) -> None:
        """A stream is followed while a reader waits at its tail."""
        self.model.followers.clear()
        self.model.followers.update(follower.incarnation for follower in self.followers if follower.follows)

    @invariant()
    def followers_get_what_is_durable_and_nothing_else(self) -> None:
        for follower in self.followers:
            ended = self.model.how_it_ended(follower.incarnation, follower.since, self.engine.durable_change)
            told = [type(error) for error in follower.errors]
            assert told == ([ended] if ended and (follower.here or told) else [])
            assert self._content_from(follower).startswith(follower.received)

    def _content_from(self, follower: Follower) -> bytes:
        """Give what became durable since a follower joined, as far as the stream lived."""
        content = b""
        for streams in self.model.history[follower.since : self.engine.durable_change + 1]:
            for stream in streams.values():
                if stream.incarnation == follower.incarnation:
                    content = stream.content[follower.start :]
        return content

    def check_that_followers_have_everything(self) -> None:
        for follower in self.followers:
            if follower.follows:
                assert follower.received == self._content_from(follower)
