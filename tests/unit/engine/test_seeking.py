"""Seeking in a lineage: by time and by number of messages, whoever of a chain holds them, durable or on their way."""

from itertools import product

from hypothesis import given, settings, strategies as st

from everbrook.engine import Stream
from everbrook.engine.faults import Faults
from everbrook.engine.limits import Limits
from everbrook.engine.streams import Streams
from everbrook.protocol import Append, Change, Command, Create, ForkFrom
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import InvalidHeader
from everbrook.storage import MemoryStorage
from tests.kit import views
from tests.kit.fakes import START_MS, Bystander, FakeClock, FakeScheduler
from tests.unit.engine.rig import JSON, TEXT, Rig

generated = settings(max_examples=60, deadline=None, database=None)

steps = st.lists(
    st.tuples(st.sampled_from(["append", "append", "fork"]), st.integers(0, 99), st.integers(0, 5)), max_size=12
)


class Tree:
    """The same streams twice: as the engine has them, and as plain lists. Some changes may be on their way."""

    def __init__(self, *, json: bool) -> None:
        self._storage = MemoryStorage()
        self.streams = Streams(
            self._storage, FakeClock(), Limits(), Bystander(), Faults(FakeClock(), FakeScheduler(FakeClock()))
        )
        self.naive = views.Streams()
        self.json = json
        self.names = [b"0"]
        self._changes: list[Change] = []
        self.now = START_MS
        self.run(Create(b"0", self.now, self.naive.next_incarnation(), JSON if json else TEXT))

    def run(self, command: Command) -> None:
        change = decide(self.streams, command).change
        self.naive.run(command)
        self.streams.prepare(change)
        self._changes.append(change)

    def take(self, step: str, place: int, number: int) -> None:
        self.now += number % 3
        name = self.names[place % len(self.names)]
        if step == "append":
            body = b"[%b]" % b",".join([b"7" * (number + 1)] * (place % 3 + 1)) if self.json else b"x" * (number + 1)
            self.run(Append(name, self.now, JSON if self.json else TEXT, body))
            return
        boundaries = (0, *self.naive.kept[name].ends)
        fork = ForkFrom(name, boundaries[place % len(boundaries)], number)
        new = b"%d" % len(self.names)
        try:
            self.run(Create(new, self.now, self.naive.next_incarnation(), fork=fork))
        except InvalidHeader:
            return
        self.names.append(new)

    def let_arrive(self, count: int) -> None:
        """Let the oldest changes become durable."""
        for change in self._changes[: max(1, count)]:
            self._storage.apply((change,))
            self.streams.publish((change,))

    def visible_pairs(self) -> list[tuple[views.KeptStream, Stream]]:
        """Give those that readers see."""
        return [(naive, stream) for naive, stream in self.pairs() if self.streams.visible(stream.head.identity.name)]

    def pairs(self) -> list[tuple[views.KeptStream, Stream]]:
        return [(self.naive.kept[name], found) for name in self.names if (found := self.streams.stream(name))]


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree = Tree(json=draw(st.booleans()))
    taken = draw(steps)
    for step, place, number in taken:
        tree.take(step, place, number)
    tree.let_arrive(draw(st.integers(0, len(taken) + 1)))
    return tree


@generated
@given(trees())
def test_every_boundary_is_where_the_messages_end(tree: Tree) -> None:
    """§8: also those that a fork's divergence point makes, and those on their way."""
    for naive, stream in tree.pairs():
        tail = naive.head.tail
        assert [stream.lineage.is_boundary(at) for at in range(tail + 1)] == [
            naive.is_boundary(at) for at in range(tail + 1)
        ]
        for offset in range(tail):
            assert stream.lineage.boundary_at_or_before(offset) == naive.boundary_at_or_before(offset)
            assert stream.lineage.boundary_after(offset) == naive.boundary_after(offset)
            assert stream.lineage.append_end(offset) == naive.append_end(offset)


@generated
@given(trees())
def test_every_byte_has_the_time_of_its_append(tree: Tree) -> None:
    for naive, stream in tree.pairs():
        times = dict(zip(naive.ends, naive.times, strict=True))
        for offset in range(naive.head.tail):
            assert stream.lineage.time_at(offset) == times[naive.boundary_after(offset)]


@generated
@given(trees())
def test_going_back_counts_messages(tree: Tree) -> None:
    """Across divergence points, one message that they cut included, and what is on its way."""
    for naive, stream in tree.pairs():
        boundaries = (0, *naive.ends)
        for offset, bound, count in product(boundaries, boundaries, range(len(boundaries) + 1)):
            if bound <= offset:
                assert stream.lineage.seek(offset, -count, bound) == naive.seek(offset, -count, bound)


@generated
@given(trees())
def test_going_on_counts_messages(tree: Tree) -> None:
    """A reader goes on in what is durable."""
    for naive, stream in tree.visible_pairs():
        boundaries = [at for at in (0, *naive.ends) if at <= stream.committed.tail]
        for offset, bound, count in product(boundaries, boundaries, range(len(boundaries) + 1)):
            if offset <= bound:
                assert stream.lineage.seek(offset, count, bound) == naive.seek(offset, count, bound)


@generated
@given(trees())
def test_the_first_message_since_a_time_is_found(tree: Tree) -> None:
    for naive, stream in tree.pairs():
        boundaries = (0, *naive.ends)
        for start, end, time in product(boundaries, boundaries, {0, *naive.times, tree.now + 1}):
            if start <= end:
                assert stream.lineage.first_since(start, end, time) == naive.first_since(start, end, time)


@generated
@given(trees())
def test_the_messages_between_two_boundaries_are_given_with_their_times(tree: Tree) -> None:
    for naive, stream in tree.visible_pairs():
        boundaries = [at for at in (0, *naive.ends) if at <= stream.committed.tail]
        known = list(zip(naive.ends, naive.times, strict=True))
        for start, end in product(boundaries, boundaries):
            if start <= end:
                found = stream.lineage.messages(start, end)
                expected = [message for message in known if start < message[0] <= end]
                assert list(zip(found.ends, found.times, strict=True)) == expected


def test_a_message_that_a_fork_cuts_counts_as_one(rig: Rig) -> None:
    """§4.2: the fork has its first bytes."""
    rig.create(b"a", b"hello")
    rig.append(b"a", b"world")
    rig.fork(b"f", b"a", 5, 2, body=b"x")
    stream = rig.open(b"f")
    assert list(stream.lineage.messages(0, 8).ends) == [5, 7, 8]
    assert [stream.lineage.seek(8, -count, 0) for count in range(4)] == [8, 7, 5, 0]
    assert [stream.lineage.seek(0, count, 8) for count in range(5)] == [0, 5, 7, 8, 8]


def test_what_was_cut_is_not_sought(rig: Rig) -> None:
    """002 §2.2: the earliest retained offset is the bound."""
    rig.create(b"a", b"1")
    for _ in range(4):
        rig.append(b"a", b"2")
    rig.publish(b"a", 3)
    stream = rig.open(b"a")
    assert [stream.lineage.seek(5, -count, 3) for count in (1, 2, 9)] == [4, 3, 3]
    assert stream.lineage.first_since(3, 5, 0) == 3
