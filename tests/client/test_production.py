"""What a producer sends arrives once and in order, or it says that it cannot know, whatever happens to its requests."""

from enum import Enum

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from everbrook.client.production import Batching, ProducerBatch, Production


class Answer(Enum):
    """What a server says to a batch."""

    ACCEPTED = 1
    DUPLICATE = 2
    GAP = 3
    FENCED = 4


class Server:
    """The rules of §5.2.1 for one producer."""

    def __init__(self) -> None:
        self.epoch = -1
        self.last_seq = -1
        self.log: list[bytes] = []
        self.closed = False

    def post(self, batch: ProducerBatch) -> Answer:
        if batch.epoch < self.epoch:
            return Answer.FENCED
        if batch.epoch > self.epoch:
            assert batch.seq == 0, "a new epoch begins at 0"
            self.epoch, self.last_seq = batch.epoch, -1
        if batch.seq <= self.last_seq:
            return Answer.DUPLICATE
        if batch.seq > self.last_seq + 1:
            return Answer.GAP
        assert not self.closed, "nothing follows the end"
        self.last_seq = batch.seq
        self.log += batch.messages
        self.closed = batch.closes
        return Answer.ACCEPTED


class AnyProduction(RuleBasedStateMachine):
    """A producer with several requests under way, which arrive in any order, get lost, and are made again."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.now = 0.0
        self.production = Production("p", 0, 0, Batching(max_batch_bytes=40, max_batch_items=3, max_in_flight=3))
        self.added: list[bytes] = []
        self.under_way: list[ProducerBatch] = []
        self.uncertain: set[int] = set()
        self.failed = False
        self.ended = False

    @precondition(lambda self: not self.ended and self.production.room)
    @rule(count=st.integers(1, 9), size=st.integers(1, 50))
    def add(self, count: int, size: int) -> None:
        for _ in range(count):
            message = b"%d" % len(self.added) + b"." * size
            self.added.append(message)
            self.production.add(message, self.now)

    @precondition(lambda self: not self.ended)
    @rule(last=st.booleans())
    def end(self, last: bool) -> None:  # noqa: FBT001
        message = b"the end" if last else None
        self.added += [message] if message else []
        self.production.end(message)
        self.ended = True

    @rule(secs=st.sampled_from([0.001, 0.005, 1.0]))
    def wait(self, secs: float) -> None:
        self.now += secs

    @rule()
    def flush(self) -> None:
        self.production.mark()

    @precondition(lambda self: self.production.ready(self.now))
    @rule()
    def take(self) -> None:
        while self.production.ready(self.now):
            self.under_way.append(self.production.take())

    @precondition(lambda self: self.under_way and not self.failed)
    @rule(which=st.integers(0, 2), lost=st.sampled_from(["", "", "", "request", "answer"]))
    def send(self, which: int, lost: str) -> None:
        batch = self.under_way[which % len(self.under_way)]
        answer = self.server.post(batch) if lost != "request" else None
        if lost:
            self.uncertain.add(batch.place)
        elif answer in {Answer.ACCEPTED, Answer.DUPLICATE}:
            self.under_way.remove(batch)
            self.production.accepted(batch)
        elif answer is Answer.GAP:
            assert self.production.follows(batch), "a gap that nothing under way can fill"
        elif batch.place in self.uncertain:
            self.failed = True
        else:
            self.under_way.remove(batch)
            self.production.fenced(batch, self.server.epoch)

    @precondition(lambda self: len(self.under_way) > 1 and not self.failed)
    @rule()
    def fence_all_but_the_first(self) -> None:
        """Somebody else takes over, when the first of those under way is there, and its answer is not."""
        first = self.under_way[0]
        answer = self.server.post(first)
        self.fence()
        for batch in self.under_way[:0:-1]:
            self.send(self.under_way.index(batch), "")
        if answer in {Answer.ACCEPTED, Answer.DUPLICATE} and not self.failed:
            self.under_way.remove(first)
            self.production.accepted(first)

    @precondition(lambda self: self.server.epoch >= 0)
    @rule()
    def fence(self) -> None:
        """Somebody else takes over."""
        self.server.epoch, self.server.last_seq = self.server.epoch + 1, -1

    @invariant()
    def everything_arrives_once_and_in_order(self) -> None:
        assert self.server.log == self.added[: len(self.server.log)]

    @invariant()
    def no_more_is_under_way_than_allowed(self) -> None:
        assert len(self.under_way) <= 3

    @invariant()
    def whoever_waits_knows_for_what(self) -> None:
        """Nothing is looked at in a hurry: time alone makes it ready, or else somebody else does."""
        secs = self.production.wait_secs(self.now)
        assert secs is None or secs > 0 or self.production.ready(self.now)

    def teardown(self) -> None:
        mark = self.production.mark()
        while not self.failed and not self.production.idle:
            assert not self.production.arrived(mark)
            self.take()
            self.send(0, "")
        assert self.failed or self.server.log == self.added
        assert self.failed or self.production.arrived(mark)
        assert self.failed or self.server.closed == self.ended


TestAnyProduction = AnyProduction.TestCase
TestAnyProduction.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)


def production(*, seq: int = 0, **batching: float) -> Production:
    return Production("p", 0, seq, Batching(**batching))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["max_batch_bytes", "max_batch_items", "max_in_flight"])
def test_a_bound_of_nothing_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Batching(**{name: 0})


def test_time_does_not_run_backwards() -> None:
    with pytest.raises(ValueError, match="linger_secs must not be negative, got -1"):
        Batching(linger_secs=-1)


def test_a_producer_has_an_id() -> None:
    with pytest.raises(ValueError, match="the id of a producer must not be empty"):
        Production("", 0, 0, Batching())


@pytest.mark.parametrize("producer_id", ["schön", "a\nb"])
def test_an_id_that_no_header_can_carry_is_refused(producer_id: str) -> None:
    with pytest.raises(ValueError, match="must be printable ASCII"):
        Production(producer_id, 0, 0, Batching())


@pytest.mark.parametrize("epoch, seq", [(-1, 0), (0, -1)])
def test_numbers_begin_at_0(epoch: int, seq: int) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        Production("p", epoch, seq, Batching())


def test_messages_linger_for_others() -> None:
    writes = production(linger_secs=1)
    assert writes.add(b"a", 10.0)
    assert not writes.add(b"b", 10.5)
    assert (writes.ready(10.9), writes.wait_secs(10.75)) == (False, 0.25)
    assert writes.ready(11.0)
    assert writes.take().messages == [b"a", b"b"]


def test_a_full_batch_does_not_linger() -> None:
    writes = production(linger_secs=60, max_batch_items=2)
    writes.add(b"a", 0.0)
    assert writes.add(b"b", 0.0)
    assert writes.ready(0.0)


def test_a_message_that_does_not_fit_begins_another_batch() -> None:
    writes = production(linger_secs=60, max_batch_bytes=10)
    writes.add(b"small", 0.0)
    assert writes.add(b"larger than that", 0.0)
    assert writes.take().messages == [b"small"]


def test_a_flush_lets_nothing_linger() -> None:
    writes = production(linger_secs=60)
    writes.add(b"a", 0.0)
    writes.mark()
    assert writes.ready(0.0)


def test_a_flush_does_not_wait_for_what_comes_after_it() -> None:
    writes = production(linger_secs=0)
    writes.add(b"a", 0.0)
    mark = writes.mark()
    writes.add(b"b", 0.0)
    assert not writes.arrived(mark)
    writes.accepted(writes.take())
    assert writes.arrived(mark)


def test_the_first_batch_goes_alone_and_others_together() -> None:
    writes = production(max_batch_items=1, max_in_flight=2)
    for message in (b"a", b"b", b"c", b"d"):
        writes.add(message, 0.0)
    first = writes.take()
    assert not writes.ready(0.0)
    writes.accepted(first)
    assert [writes.take().seq, writes.take().seq] == [1, 2]
    assert not writes.ready(0.0)


def test_what_closes_the_stream_goes_when_everything_before_has_arrived() -> None:
    sending = production(max_batch_items=1, max_in_flight=3)
    sending.add(b"1", 0.0)
    sending.accepted(sending.take())
    sending.add(b"2", 0.0)
    under_way = sending.take()
    sending.end(None)
    assert not sending.ready(0.0)
    sending.accepted(under_way)
    assert sending.ready(0.0)
    assert sending.take().closes


def test_nobody_looks_at_the_clock_while_all_slots_are_taken() -> None:
    writes = production(linger_secs=0)
    writes.add(b"a", 0.0)
    writes.take()
    writes.add(b"b", 0.0)
    assert writes.wait_secs(5.0) is None


def test_there_is_room_until_much_waits() -> None:
    writes = production(max_batch_bytes=10)
    rooms = []
    for _ in range(8):
        rooms.append(writes.room)
        writes.add(b"0123456789", 0.0)
    rooms.append(writes.room)
    writes.take()
    assert [*rooms, writes.room] == [True] * 8 + [False, True]


def test_a_known_sequence_is_gone_on_with() -> None:
    writes = production(seq=7)
    writes.end(b"last")
    batch = writes.take()
    assert (batch.seq, batch.closes, batch.messages) == (7, True, [b"last"])


def test_a_claim_waits_for_an_answer_that_is_late() -> None:
    writes = production(max_batch_items=1)
    for message in (b"a", b"b", b"c"):
        writes.add(message, 0.0)
    writes.accepted(writes.take())
    second, third = writes.take(), writes.take()
    writes.fenced(third, 4)
    assert not writes.ready(0.0)
    writes.accepted(second)
    again = writes.take()
    assert (again.messages, again.epoch, again.seq) == ([b"c"], 5, 0)


def test_who_is_fenced_again_while_taking_over_keeps_the_order() -> None:
    writes = production(max_batch_items=1)
    for message in (b"a", b"b", b"c"):
        writes.add(message, 0.0)
    writes.accepted(writes.take())
    second, third = writes.take(), writes.take()
    writes.fenced(third, 4)
    writes.fenced(second, 4)
    writes.fenced(writes.take(), 9)
    again = writes.take()
    assert (again.messages, again.epoch, again.seq) == ([b"b"], 10, 0)
    writes.accepted(again)
    assert (writes.take().messages, third.epoch, third.seq) == ([b"c"], 10, 1)
