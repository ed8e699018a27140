"""The engine, commanded at random, against the model."""

import sys
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.engine.stream import Stream
from everbrook.protocol.commands import Append, Command, Create, Delete, ForkFrom
from everbrook.protocol.errors import InvalidOffset, NotFound, ProtocolError, StreamGone, Unavailable
from everbrook.protocol.offset import Sentinel
from everbrook.protocol.state import Claim
from everbrook.storage.memory import MemoryStorage
from tests.engine.actors import Answer, Follower
from tests.engine.fakes import FakeClock, FakeScheduler
from tests.engine.model import Messages, Model, ModelStream
from tests.engine.rig import residents

PAGE_BYTES = 7
LIMITS = Limits(max_page_bytes=PAGE_BYTES)

NAMES = [b"a", b"b", b"c", b"d", b"e"]

names = st.sampled_from(NAMES)
places = st.integers(0, 19)
rarely = st.sampled_from([False] * 9 + [True])
batches = st.lists(st.integers(0, 999).map(b"%d".__mod__), min_size=1, max_size=4).map(tuple)
initial = st.just(()) | batches
claims = st.tuples(st.sampled_from([b"p", b"q"]), st.sampled_from([0, 0, 0, 1, -1]), st.sampled_from([1, 1, 1, 0, 2]))
ttls = st.sampled_from([None, None, 1, 2])
expiries = st.sampled_from([None, None, None, 1500])
positions = st.integers(0, 60)

# A run without streams is soon told.
with_streams = precondition(lambda self: self.model.newest)


class EngineMachine(RuleBasedStateMachine):
    """Whatever is asked of the engine in whatever order, it answers as the model does."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.storage = self.new_storage()
        self.engine = self.new_engine()
        self.model = Model()
        self.creations: dict[int, Create] = {}
        self.followers: list[Follower] = []
        self.answers: list[Answer] = []
        self.released: list[int] = []

    expiring = True
    """Whether streams get lifetimes."""

    def new_storage(self) -> MemoryStorage:
        raise NotImplementedError

    def new_engine(self) -> Engine:
        return Engine(self.storage, self.scheduler, self.clock, LIMITS)

    # Commanding

    def _command(self, command: Command, predict: Callable[[], str]) -> None:
        """Let the engine decide, and compare with what the model predicts."""
        expected = _attempt(predict) if not self.model.failed else Unavailable.__name__
        assert _attempt(lambda: type(self.engine.execute(command)).__name__) == expected
        answer = Answer(self.engine.last_change)
        self.answers.append(answer)
        self.engine.when_durable(answer.number, lambda failure: self._tell(answer, failure))

    def _tell(self, answer: Answer, failure: Unavailable | None) -> None:
        """An answer is told when what it rests on is durable, in order, and only then."""
        answer.told.append(failure)
        if failure is None:
            assert answer.number <= self.engine.durable_change
            self.released.append(answer.number)

    def _name(self, place: int) -> bytes:
        """Choose a name, mostly one that a stream has."""
        taken = list(self.model.newest)
        return taken[place % len(taken)] if taken and place >= 2 else NAMES[place % len(NAMES)]

    @initialize(json=st.booleans(), batch=initial, ttl=ttls)
    def begin(self, *, json: bool, batch: Messages, ttl: int | None) -> None:
        """There is a stream to begin with."""
        self.create(name=b"a", json=json, batch=batch, closed=False, ttl=ttl, expiry=None)

    @rule(name=names, json=st.booleans(), batch=initial, closed=rarely, ttl=ttls, expiry=expiries)
    def create(
        self, *, name: bytes, json: bool, batch: Messages, closed: bool, ttl: int | None, expiry: int | None
    ) -> None:
        now, incarnation = self.clock.now(), self.engine.new_incarnation()
        ttl = ttl if self.expiring else None
        expires_at = now + expiry if self.expiring and expiry and ttl is None else None
        body, stored = _encode(batch, json=json)
        content_type = b"application/json" if json else b"text/plain"
        command = Create(name, now, incarnation, content_type, body, closed, ttl, expires_at)
        appends = (stored,) if stored else ()
        wanted = ModelStream(name, incarnation, json, ttl, expires_at, None, appends, closed)
        self._command(command, lambda: self.model.create(wanted, now))
        self.creations[incarnation] = command

    @with_streams
    @rule(name=names, place=places, at=positions, exact=st.booleans(), skip=st.integers(0, 3), batch=initial, ttl=ttls)
    def fork(
        self, *, name: bytes, place: int, at: int, exact: bool, skip: int, batch: Messages, ttl: int | None
    ) -> None:
        now, incarnation, source = self.clock.now(), self.engine.new_incarnation(), self._name(place)
        present, origin = self.model.newest.get(name), self.model.newest.get(source)
        if present and not self.model.ended(present, now):
            return
        anchor = self._position(origin, at, exact=exact) if origin else at
        body, stored = _encode(batch, json=origin is not None and origin.json)
        ttl = ttl if self.expiring else None
        request = ForkFrom(source, anchor, skip if anchor is not None else 0)
        command = Create(name, now, incarnation, body=body, ttl_secs=ttl, fork=request)
        wanted = ModelStream(name, incarnation, json=False, ttl_secs=ttl, appends=(stored,) if stored else ())
        self._command(command, lambda: self.model.fork(wanted, source, anchor, request.sub_offset, now))
        self.creations[incarnation] = command

    def _position(self, stream: ModelStream, at: int, *, exact: bool) -> int | None:
        """Choose a boundary of a stream, or any offset up to a little beyond its tail, or none."""
        if exact:
            choices: list[int | None] = [None, *stream.boundaries]
            return choices[at % len(choices)]
        return at % (stream.tail + 3)

    @with_streams
    @rule(place=places)
    def create_again(self, *, place: int) -> None:
        """The request that made a stream finds it, unless it was closed since."""
        now, present = self.clock.now(), self.model.newest.get(self._name(place))
        if present and not self.model.ended(present, now):
            made = self.creations[present.incarnation]
            command = replace(made, now=now, incarnation=self.engine.new_incarnation())
            outcome = "Existing" if present.closed == made.closed else "StreamExists"
            self._command(command, lambda: outcome)

    @with_streams
    @rule(place=places, batch=batches)
    def append(self, *, place: int, batch: Messages) -> None:
        self._append(self._name(place), batch)

    @with_streams
    @rule(place=places, batch=batches, claimed=claims)
    def produce(self, *, place: int, batch: Messages, claimed: tuple[bytes, int, int]) -> None:
        name = self._name(place)
        self._append(name, batch, self._claim(self.model.newest.get(name), claimed))

    @with_streams
    @rule(place=places, batch=batches, seq=st.sampled_from([b"1", b"10", b"2"]))
    def append_in_sequence(self, *, place: int, batch: Messages, seq: bytes) -> None:
        self._append(self._name(place), batch, seq=seq)

    @precondition(lambda self: sum(not stream.closed for stream in self.model.newest.values()) > 1)
    @rule(place=places, batch=initial, claimed=st.none() | claims)
    def close(self, *, place: int, batch: Messages, claimed: tuple[bytes, int, int] | None) -> None:
        name = self._name(place)
        self._append(name, batch, self._claim(self.model.newest.get(name), claimed), close=True)

    @with_streams
    @rule(place=places)
    def append_an_empty_array(self, *, place: int) -> None:
        name, now = self._name(place), self.clock.now()
        present = self.model.newest.get(name)
        if present and present.json:
            command = Append(name, now, b"application/json", b"[]")
            self._command(command, lambda: self.model.append(name, (), None, None, now, close=False))

    def _append(
        self,
        name: bytes,
        batch: Messages,
        claim: Claim | None = None,
        *,
        seq: bytes | None = None,
        close: bool = False,
    ) -> None:
        now, present = self.clock.now(), self.model.newest.get(name)
        json = present is not None and present.json
        body, stored = _encode(batch, json=json)
        content_type = b"application/json" if json else b"text/plain"
        command = Append(name, now, content_type, body, close, claim, seq)
        sent = stored if body else None
        self._command(command, lambda: self.model.append(name, sent, claim, seq, now, close=close))

    def _claim(self, stream: ModelStream | None, claimed: tuple[bytes, int, int] | None) -> Claim | None:
        """Choose an epoch and a sequence near those that the producer is at."""
        if claimed is None:
            return None
        producer_id, later_epoch, later_seq = claimed
        epoch, seq = (stream.producers if stream else {}).get(producer_id, (1, -1))
        if later_epoch:
            seq = -1
        return Claim(producer_id, max(0, epoch + later_epoch), max(0, seq + later_seq))

    @precondition(lambda self: len(self.model.newest) > 1)
    @rule(place=places)
    def delete(self, *, place: int) -> None:
        self._delete(self._name(place))

    def _delete(self, name: bytes) -> None:
        now = self.clock.now()
        self._command(Delete(name, now), lambda: self.model.delete(name, now))

    # Reading

    @with_streams
    @rule(place=places, at=positions, exact=st.booleans())
    def read(self, *, place: int, at: int, exact: bool) -> None:
        """Read from somewhere to the tail: only what is durable, whole messages, in bounded pages."""
        opened = self._open(self._name(place))
        if opened is None:
            return
        stream, expected = opened
        start = self._position(expected, at, exact=exact)
        if start is not None and start < expected.tail and start not in expected.boundaries:
            assert _attempt(lambda: str(self.engine.page(stream, start))) == InvalidOffset.__name__
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
            assert _attempt(lambda: str(self.engine.open(name, now))) in {"StreamNotFound", "StreamGone"}
            return None
        assert self.engine.find(name, now).committed.tail == expected.tail
        self.model.touched[expected.incarnation] = now
        return self.engine.open(name, now), expected

    def _read_pages(self, stream: Stream, expected: ModelStream, start: int | None) -> bytes:
        page = self.engine.page(stream, Sentinel.NOW if start is None else start)
        read = self.engine.read(stream, page)
        boundaries = expected.boundaries
        while not page.up_to_date:
            messages = boundaries.index(page.end) - boundaries.index(page.start)
            assert messages > 0
            assert messages == 1 or page.end - page.start <= PAGE_BYTES
            page = self.engine.page(stream, page.end)
            read += self.engine.read(stream, page)
        assert page.end == expected.tail
        assert page.final == expected.closed
        return read

    @with_streams
    @rule(place=places)
    def follow(self, *, place: int) -> None:
        opened = self._open(self._name(place))
        if opened is None or opened[1].closed:
            return
        stream = opened[0]
        follower = Follower(self.engine, stream, self.engine.durable_change, self._touch_left)
        self.engine.join(stream, follower)
        self.followers.append(follower)

    def _touch_left(self, follower: Follower) -> None:
        """The last one who follows a stream has read it until the moment of leaving (§5.1)."""
        if not any(other.follows and other.incarnation == follower.incarnation for other in self.followers):
            self.model.touched[follower.incarnation] = self.clock.now()

    @precondition(lambda self: self.followers)
    @rule(which=positions)
    def leave(self, *, which: int) -> None:
        self.followers[which % len(self.followers)].leave()

    # Time

    @rule()
    def turn(self) -> None:
        self._turn()

    def _turn(self) -> int:
        """Take a turn of the loop. Deadlines are looked at after what was to happen soon."""
        run = self.scheduler.run_soon()
        self.count_followers()
        self.model.sweep(self.clock.now())
        return run + self.scheduler.run_timers()

    def settle(self) -> None:
        while self._turn():
            pass

    @rule(millis=st.sampled_from([1, 499, 1000, 1500, 2000]))
    def pass_time(self, *, millis: int) -> None:
        """Let time pass, with every deadline seen in time."""
        end = self.clock.now() + millis
        self.settle()
        while (deadline := self.model.next_deadline(self.clock.now())) is not None and deadline <= end:
            self.clock.micros = deadline * 1000
            self.settle()
        self.clock.micros = end * 1000

    @rule(millis=st.sampled_from([1, 1000, 2000]))
    def stall(self, *, millis: int) -> None:
        """Let time pass while the loop does not get to anything."""
        self.clock.micros += millis * 1000

    # Starting again

    @precondition(lambda self: self.engine.last_change == self.engine.durable_change and not self.model.failed)
    @rule()
    def restart(self) -> None:
        """A new engine on the same storage goes on; times to live begin anew."""
        self.settle()
        if self.engine.last_change > self.engine.durable_change:
            return
        for follower in self.followers:
            follower.leave()
        self.engine.close()
        self.clock.micros += 1000
        self.engine = self.new_engine()
        self.model.history = [self.model.newest]
        self.followers, self.answers, self.released = [], [], []
        for name, stream in self.model.newest.items():
            assert self.engine._streams.stream(name) is not None
            self.model.touched[stream.incarnation] = self.clock.now()

    # What always holds

    @invariant()
    def count_followers(self) -> None:
        """A stream is followed while a reader waits at its tail."""
        self.model.followers.clear()
        self.model.followers.update(follower.incarnation for follower in self.followers if follower.follows)

    @invariant()
    def as_many_changes_as_in_the_model(self) -> None:
        if not self.model.failed:
            assert self.engine.last_change == len(self.model.history) - 1

    @invariant()
    def answers_are_told_once_when_durable_and_in_order(self) -> None:
        for answer in self.answers:
            settled = answer.number <= self.engine.durable_change or self.model.failed
            assert len(answer.told) == (answer.refused or settled)
        assert self.released == sorted(self.released)

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

    def _check_that_followers_have_everything(self) -> None:
        for follower in self.followers:
            if follower.follows:
                assert follower.received == self._content_from(follower)

    def finish(self) -> None:
        """Let everything that is on its way arrive."""
        self.settle()

    def teardown(self) -> None:
        """Everybody has got everything; and when all streams go, nothing is left of them."""
        self.finish()
        if sys.exc_info()[0] is None:
            self._check_the_end()
        self.engine.close()

    def _check_the_end(self) -> None:
        self._check_that_followers_have_everything()
        if not self.model.failed:
            self._delete_everything()
            assert self.storage.used_bytes == 0
            assert residents(self.engine) == []

    def _delete_everything(self) -> None:
        for follower in self.followers:
            follower.leave()
        self.finish()
        for name in tuple(self.model.newest):
            stream = self.model.newest.get(name)
            if stream and not self.model.ended(stream, self.clock.now()):
                self._delete(name)
        self.finish()
        assert self.model.newest == {}


def _attempt(call: Callable[[], str]) -> str:
    """Give what a call gives, or the name of what it raises."""
    try:
        return call()
    except ProtocolError as error:
        return type(error).__name__


def _encode(batch: Messages, *, json: bool) -> tuple[bytes, Messages]:
    """Give the body that sends a batch, and the messages that are stored of it."""
    if json and batch:
        return b"[%b]" % b",".join(batch), tuple(b"%b," % message for message in batch)
    body = b"".join(batch)
    return body, (body,) if body else ()
