"""Commands at random: whatever is asked of the engine in whatever order, it decides as the model does."""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from msgspec.structs import replace

from everbrook.engine import Engine, EngineTuning
from everbrook.engine.limits import Limits
from everbrook.engine.tuning import ExpiryTuning
from everbrook.protocol import Append, Claim, Command, Create, Delete, ForkFrom, Retention, bucket_of
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.storage import MemoryStorage
from tests.kit.fakes import FakeClock, FakeScheduler, HandWorker
from tests.unit.engine.model.actors import Answer, Follower
from tests.unit.engine.model.model_stream import Messages, ModelStream
from tests.unit.engine.model.retaining import RetainingModel

PAGE_BYTES = 7
# What is held is bounded far beyond what comes, so that it is counted.
LIMITS = Limits(max_page_bytes=PAGE_BYTES, max_total_bytes=2**60, max_bucket_bytes=2**60)

NAMES = [b"a", b"b", b"c", b"/ds/agents/a", b"/ds/agents/b"]

names = st.sampled_from(NAMES)
places = st.integers(0, 19)
rarely = st.sampled_from([False] * 9 + [True])
batches = st.lists(st.integers(0, 999).map(b"%d".__mod__), min_size=1, max_size=4).map(tuple)
initial = st.just(()) | batches
claims = st.tuples(st.sampled_from([b"p", b"q"]), st.sampled_from([0, 0, 0, 1, -1]), st.sampled_from([1, 1, 1, 0, 2]))
ttls = st.sampled_from([None, None, 1, 2])
expiries = st.sampled_from([None, None, None, 1500])
positions = st.integers(0, 60)
policies = st.sampled_from(
    [None, None, None, Retention(max_messages=2), Retention(max_bytes=6), Retention(max_age_secs=1)]
)

# A run without streams is soon told.
with_streams = precondition(lambda self: self.model.names)


class CommandingMachine(RuleBasedStateMachine):
    """Creates, forks, appends, closes and deletes."""

    # Policies are applied by a rule of their own, at whatever time.
    tuning = EngineTuning(expiry=ExpiryTuning(trim_delay_ms=10**9))

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(self.clock)
        self.storage = self.new_storage()
        self.engine = self.new_engine()
        self.model = RetainingModel()
        self.creations: dict[int, Create] = {}
        self.followers: list[Follower] = []
        self.answers: list[Answer] = []
        self.released: list[int] = []

    expiring = True
    """Whether streams get lifetimes."""

    def new_storage(self) -> MemoryStorage:
        raise NotImplementedError

    def new_engine(self) -> Engine:
        self.worker, self.commits = HandWorker(), HandWorker()
        return Engine(
            self.storage,
            self.scheduler,
            self.clock,
            LIMITS,
            tuning=self.tuning,
            commit_executor=self.commits,
            blob_executor=self.worker,
        )

    def _command(self, command: Command, predict: Callable[[], str]) -> None:
        """Let the engine decide, and compare with what the model predicts."""
        self.call(lambda: type(self.engine.execute(command)).__name__, predict)

    def call(self, call: Callable[[], str], predict: Callable[[], str]) -> bool:
        """Call the engine, and compare with what the model predicts. Tells whether it did what it was asked."""
        before = len(self.model.history)
        expected = attempt(predict) if not self.model.failed else Unavailable.__name__
        assert attempt(call) == expected
        self._await_durability()
        return len(self.model.history) > before

    def _await_durability(self) -> None:
        answer = Answer(self.engine.last_change)
        self.answers.append(answer)
        self.engine.when_durable(answer.number, lambda failure: self._tell(answer, failure))

    def _tell(self, answer: Answer, failure: Unavailable | None) -> None:
        """An answer is told when what it rests on is durable, in order, and only then."""
        answer.told.append(failure)
        if failure is None:
            assert answer.number <= self.engine.durable_change
            self.released.append(answer.number)

    def name(self, place: int) -> bytes:
        """Choose a name, mostly one that a stream has."""
        taken = self.model.names
        return taken[place % len(taken)] if taken and place >= 2 else NAMES[place % len(NAMES)]

    @initialize(json=st.booleans(), batch=initial, ttl=ttls)
    def begin(self, *, json: bool, batch: Messages, ttl: int | None) -> None:
        """There is a stream to begin with."""
        self.create(name=b"a", json=json, batch=batch, closed=False, ttl=ttl, expiry=None, policy=None)

    @rule(name=names, json=st.booleans(), batch=initial, closed=rarely, ttl=ttls, expiry=expiries, policy=policies)
    def create(
        self,
        *,
        name: bytes,
        json: bool,
        batch: Messages,
        closed: bool,
        ttl: int | None,
        expiry: int | None,
        policy: Retention | None,
    ) -> None:
        now, incarnation = self.clock.now(), self.engine.new_incarnation()
        ttl = ttl if self.expiring else None
        expires_at = now + expiry if self.expiring and expiry and ttl is None else None
        body, stored = encode(batch, json=json)
        content_type = b"application/json" if json else b"text/plain"
        command = Create(name, now, incarnation, content_type, body, closed, ttl, expires_at, None, policy)
        appends, times = ((stored,), (now,)) if stored else ((), ())
        wanted = ModelStream(
            name, incarnation, json, ttl, expires_at, None, appends, closed, times=times, retention=policy
        )
        self._command(command, lambda: self.model.create(wanted, now))
        self.creations[incarnation] = command

    @with_streams
    @rule(name=names, place=places, at=positions, exact=st.booleans(), skip=st.integers(0, 3), batch=initial, ttl=ttls)
    def fork(
        self, *, name: bytes, place: int, at: int, exact: bool, skip: int, batch: Messages, ttl: int | None
    ) -> None:
        now, incarnation, source = self.clock.now(), self.engine.new_incarnation(), self.name(place)
        if exact:
            name = self.neighbour(name, source)
        present, origin = self.model.newest.get(name), self.model.newest.get(source)
        if present and not self.model.ended(present, now):
            return
        anchor = self.position(origin, at, exact=exact) if origin else at
        body, stored = encode(batch, json=origin is not None and origin.json)
        ttl = ttl if self.expiring else None
        request = ForkFrom(source, anchor, skip if anchor is not None else 0)
        command = Create(name, now, incarnation, body=body, ttl_secs=ttl, fork=request)
        appends, times = ((stored,), (now,)) if stored else ((), ())
        wanted = ModelStream(name, incarnation, json=False, ttl_secs=ttl, appends=appends, times=times)
        self._command(command, lambda: self.model.fork(wanted, source, anchor, request.sub_offset, now))
        self.creations[incarnation] = command

    @staticmethod
    def neighbour(name: bytes, other: bytes) -> bytes:
        """Choose a name that is where another one is, in the bucket or outside."""
        choices = [each for each in NAMES if bucket_of(each) == bucket_of(other)]
        return choices[NAMES.index(name) % len(choices)]

    def position(self, stream: ModelStream, at: int, *, exact: bool) -> int | None:
        """Choose a boundary of a stream, or any offset up to a little beyond its tail, or none."""
        if exact:
            choices: list[int | None] = [None, *stream.boundaries]
            return choices[at % len(choices)]
        return at % (stream.tail + 3)

    @with_streams
    @rule(place=places)
    def create_again(self, *, place: int) -> None:
        """The request that made a stream finds it, unless it was closed since."""
        now, present = self.clock.now(), self.model.newest.get(self.name(place))
        if present and not self.model.ended(present, now):
            made = self.creations[present.incarnation]
            command = replace(made, now=now, incarnation=self.engine.new_incarnation())
            outcome = "Existing" if present.closed == made.closed else "StreamExists"
            self._command(command, lambda: outcome)

    @with_streams
    @rule(place=places, batch=batches)
    def append(self, *, place: int, batch: Messages) -> None:
        self._append(self.name(place), batch)

    @with_streams
    @rule(place=places, batch=batches, claimed=claims)
    def produce(self, *, place: int, batch: Messages, claimed: tuple[bytes, int, int]) -> None:
        name = self.name(place)
        self._append(name, batch, self._claim(self.model.newest.get(name), claimed))

    @with_streams
    @rule(place=places, batch=batches, seq=st.sampled_from([b"1", b"10", b"2"]))
    def append_in_sequence(self, *, place: int, batch: Messages, seq: bytes) -> None:
        self._append(self.name(place), batch, seq=seq)

    @with_streams
    @rule(place=places, batch=batches, since=st.sampled_from([0, 0, 1, 5]))
    def append_at(self, *, place: int, batch: Messages, since: int) -> None:
        """Append only if the tail is where it is believed to be."""
        name = self.name(place)
        present = self.model.newest.get(name)
        self._append(name, batch, expected_tail=max(0, present.tail - since) if present else since)

    @precondition(lambda self: sum(not self.model.newest[name].closed for name in self.model.names) > 1)
    @rule(place=places, batch=initial, claimed=st.none() | claims)
    def close(self, *, place: int, batch: Messages, claimed: tuple[bytes, int, int] | None) -> None:
        name = self.name(place)
        self._append(name, batch, self._claim(self.model.newest.get(name), claimed), close=True)

    @with_streams
    @rule(place=places)
    def append_an_empty_array(self, *, place: int) -> None:
        name, now = self.name(place), self.clock.now()
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
        expected_tail: int | None = None,
    ) -> None:
        now, present = self.clock.now(), self.model.newest.get(name)
        json = present is not None and present.json
        body, stored = encode(batch, json=json)
        content_type = b"application/json" if json else b"text/plain"
        command = Append(name, now, content_type, body, close, claim, seq, expected_tail)
        sent = stored if body else None
        self._command(
            command,
            lambda: self.model.append(name, sent, claim, seq, now, close=close, expected_tail=expected_tail),
        )

    def _claim(self, stream: ModelStream | None, claimed: tuple[bytes, int, int] | None) -> Claim | None:
        """Choose an epoch and a sequence near those that the producer is at."""
        if claimed is None:
            return None
        producer_id, later_epoch, later_seq = claimed
        epoch, seq = (stream.producers if stream else {}).get(producer_id, (1, -1))
        if later_epoch:
            seq = -1
        return Claim(producer_id, max(0, epoch + later_epoch), max(0, seq + later_seq))

    @precondition(lambda self: len(self.model.names) > 1)
    @rule(place=places)
    def delete(self, *, place: int) -> None:
        self.remove(self.name(place))

    def remove(self, name: bytes) -> None:
        now = self.clock.now()
        self._command(Delete(name, now), lambda: self.model.delete(name, now))


def attempt(call: Callable[[], str]) -> str:
    """Give what a call gives, or the name of what it raises."""
    try:
        return call()
    except ProtocolError as error:
        return type(error).__name__


def encode(batch: Messages, *, json: bool) -> tuple[bytes, Messages]:
    """Give the body that sends a batch, and the messages that are stored of it."""
    if json and batch:
        return b"[%b]" % b",".join(batch), tuple(b"%b," % message for message in batch)
    body = b"".join(batch)
    return body, (body,) if body else ()
