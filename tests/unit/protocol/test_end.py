"""The end of a stream: deletion, expiry, and the cascade up a chain of forks."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from everbrook.protocol import Create, Delete, Deleted, Drop, Expire, ForkFrom, Untouched, Write
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import ProtocolError, StreamGone, StreamNotFound
from tests.kit.generated import generated
from tests.kit.views import NOW, TEXT, Streams

LATER = NOW + 1000


def chain(*, ttl_secs: int | None = None) -> Streams:
    """Streams a, b that forks a, and c that forks b."""
    streams = Streams()
    streams.hold(b"a", b"data", ttl_secs=ttl_secs)
    streams.fork(b"b", b"a")
    streams.fork(b"c", b"b")
    return streams


def test_a_deleted_stream_is_dropped_with_its_bytes() -> None:
    """§5.4."""
    streams = Streams()
    head = streams.hold(b"s", b"data").head

    decision = decide(streams, Delete(b"s", NOW))
    assert (decision.outcome, decision.change) == (Deleted(), (Drop(head),))


def test_deleting_what_is_not_there_is_not_found() -> None:
    """§5.4: 404."""
    with pytest.raises(StreamNotFound):
        decide(Streams(), Delete(b"s", NOW))


def test_a_stream_that_forks_read_is_soft_deleted() -> None:
    """§5.4: the bytes stay, and nothing else of it changes."""
    streams = Streams()
    head = streams.hold(b"s", b"data").head
    streams.fork(b"f", b"s")

    decision = decide(streams, Delete(b"s", LATER))
    assert (decision.outcome, decision.change) == (Deleted(), (Write(replace(head, deleted=True)),))


def test_deleting_a_soft_deleted_stream_is_gone() -> None:
    """§5.4: 410."""
    streams = chain()
    streams.run(Delete(b"a", NOW))

    with pytest.raises(StreamGone):
        decide(streams, Delete(b"a", NOW))


def test_deleting_an_expired_stream_is_not_found() -> None:
    """§5.4."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)

    with pytest.raises(StreamNotFound):
        decide(streams, Delete(b"s", LATER))


def test_the_end_of_a_fork_leaves_a_living_source_alone() -> None:
    """§4.2."""
    streams = chain()
    streams.run(Delete(b"c", NOW))

    assert set(streams.kept) == {b"a", b"b"}


def test_the_last_fork_takes_its_soft_deleted_sources_with_it_in_one_change() -> None:
    """§4.2: the cascade continues up the chain."""
    streams = chain()
    streams.run(Delete(b"a", NOW))
    streams.run(Delete(b"b", NOW))

    change = decide(streams, Delete(b"c", NOW)).change
    assert change == tuple(Drop(streams.kept[name].head) for name in (b"c", b"b", b"a"))


def test_the_cascade_stops_at_a_source_that_lives() -> None:
    """§4.2."""
    streams = chain()
    streams.run(Delete(b"b", NOW))
    streams.run(Delete(b"c", NOW))

    assert set(streams.kept) == {b"a"}


def test_the_cascade_stops_at_a_source_that_another_fork_reads() -> None:
    """§4.2: reference count above zero."""
    streams = chain()
    streams.fork(b"sibling", b"b")
    streams.run(Delete(b"a", NOW))
    streams.run(Delete(b"b", NOW))
    streams.run(Delete(b"c", NOW))

    assert set(streams.kept) == {b"a", b"b", b"sibling"}


def test_a_fork_that_forks_read_is_soft_deleted_and_its_source_stays() -> None:
    """§4.2."""
    streams = chain()
    streams.run(Delete(b"a", NOW))
    streams.run(Delete(b"b", NOW))

    assert [stream.head.deleted for stream in streams.kept.values()] == [True, True, False]


def test_an_expired_stream_is_dropped() -> None:
    """§5.1."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)

    assert streams.run(Expire(b"s", LATER)) == Deleted()
    assert not streams.kept


def test_an_expired_stream_that_forks_read_is_soft_deleted() -> None:
    """Gap G-07."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)
    streams.run(Create(b"f", NOW, 2, ttl_secs=60, fork=ForkFrom(b"s")))

    assert streams.run(Expire(b"s", LATER)) == Deleted()
    assert streams.kept[b"s"].head.deleted


def test_the_expiry_of_the_last_fork_cascades_too() -> None:
    """§4.2."""
    streams = chain(ttl_secs=1)
    for name in (b"a", b"b", b"c"):
        streams.run(Expire(name, LATER))

    assert not streams.kept


@pytest.mark.parametrize("now", [NOW, LATER - 1])
def test_a_stream_whose_time_has_not_run_out_is_left_alone(now: int) -> None:
    """§5.1: it was touched since the sweep set out, perhaps."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)

    decision = decide(streams, Expire(b"s", now))
    assert (decision.outcome, decision.change) == (Untouched(), ())


def test_a_sweep_that_comes_too_late_changes_nothing() -> None:
    """Gone, or soft-deleted already."""
    streams = chain(ttl_secs=1)
    streams.run(Delete(b"a", NOW))

    for name in (b"a", b"nothing"):
        decision = decide(streams, Expire(name, LATER))
        assert (decision.outcome, decision.change) == (Untouched(), ())


@dataclass
class Family:
    """Who forked whom and what became of them, in the words of §4.2."""

    source: dict[str, str | None] = field(default_factory=dict)
    state: dict[str, str] = field(default_factory=dict)

    def forked(self, name: str) -> bool:
        return name in self.source.values()

    def end(self, name: str) -> None:
        """End a stream: it stays, soft-deleted, for as long as forks read it."""
        self.state[name] = "deleted"
        while unread := [name for name, state in self.state.items() if state == "deleted" and not self.forked(name)]:
            for lost in unread:
                del self.source[lost], self.state[lost]

    def conflict(self, source: str | None) -> int:
        """Say what a creation that cannot be gets: 404 only where its source never was, or is quite gone."""
        missing = source is not None and self.state.get(source) != "living" and not self.forked(source)
        return 404 if missing else 409

    def put(self, name: str, source: str | None) -> int:
        state = self.state.get(name)
        if state == "living":
            return 200 if self.source[name] == source else self.conflict(source)
        if state is not None and self.forked(name):
            return 409
        if source is not None and self.state.get(source) != "living":
            return self.conflict(source)
        if state is not None:
            self.end(name)
        self.source[name], self.state[name] = source, "living"
        return 201

    def delete(self, name: str) -> int:
        if self.state.get(name) != "living":
            return 410 if self.forked(name) else 404
        self.end(name)
        return 204

    def sweep(self, name: str) -> int:
        if self.state.get(name) == "expired":
            self.end(name)
        return 0


def answer(streams: Streams, command: Create | Delete | Expire) -> int:
    statuses = {"Created": 201, "Existing": 200, "Deleted": 204}
    try:
        return statuses.get(type(streams.run(command)).__name__, 0)
    except ProtocolError as refusal:
        return refusal.status


names = st.sampled_from("abcd")
steps = st.one_of(
    st.tuples(st.just("put"), names, st.one_of(st.none(), names)),
    st.tuples(st.sampled_from(["delete", "sweep", "run out"]), names, st.none()),
)


@generated
@given(st.lists(steps, max_size=25))
def test_streams_live_and_end_as_their_family_tree_says(history: list[tuple[str, str, str | None]]) -> None:
    """§4.2, §5.4: whoever creates, forks, deletes or lets expire in whichever order."""
    family, streams = Family(), Streams()
    for verb, name, source in history:
        key = name.encode()
        if verb == "run out":
            if family.state.get(name) == "living":
                family.state[name], streams.kept[key].touched_at = "expired", NOW - 1000
        elif verb == "put":
            fork = ForkFrom(source.encode(), 0) if source else None
            create = Create(key, NOW, streams.next_incarnation(), TEXT, ttl_secs=1, fork=fork)
            assert answer(streams, create) == family.put(name, source)
        elif verb == "delete":
            assert answer(streams, Delete(key, NOW)) == family.delete(name)
        else:
            streams.run(Expire(key, NOW))
            family.sweep(name)
        assert {name.decode() for name in streams.kept} == set(family.state)
