"""Trimming: what a policy does not retain goes, and never more than a snapshot covers."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Append, Delete, DeleteSnapshot, Kept, Retain, Retention, Snapshot, Trim, Untouched
from everbrook.protocol.decide import decide
from tests.kit.generated import generated
from tests.kit.views import JSON, NOW, TEXT, KeptStream, Streams

SECOND = 1000


def held(retention: Retention | None = None) -> Streams:
    """A stream of four messages, appended a second after each other, which end at 3, 8, 10 and 14."""
    streams = Streams()
    streams.hold(b"s", retention=retention)
    for place, body in enumerate((b"one", b"three", b"me", b"four")):
        streams.run(Append(b"s", NOW + place * SECOND, TEXT, body))
    return streams


def trimmed(streams: Streams, later: int = 3 * SECOND) -> Kept:
    streams.run(Trim(b"s", NOW + later))
    return streams.kept[b"s"].head.kept


@pytest.mark.parametrize("max_bytes, earliest", [(1, 14), (3, 14), (4, 10), (5, 10), (6, 8), (11, 3), (13, 3), (14, 0)])
def test_a_stream_keeps_the_newest_bytes_in_whole_messages(max_bytes: int, earliest: int) -> None:
    assert trimmed(held(Retention(max_bytes=max_bytes))).earliest == earliest


@pytest.mark.parametrize("max_messages, earliest", [(1, 10), (2, 8), (3, 3), (4, 0), (9, 0)])
def test_a_stream_keeps_the_newest_messages(max_messages: int, earliest: int) -> None:
    assert trimmed(held(Retention(max_messages=max_messages))).earliest == earliest


@pytest.mark.parametrize(
    "later, earliest", [(1000, 0), (1001, 3), (2000, 3), (2001, 8), (3001, 10), (4000, 10), (4001, 14)]
)
def test_a_stream_keeps_the_messages_that_are_young(later: int, earliest: int) -> None:
    assert trimmed(held(Retention(max_age_secs=1)), later).earliest == earliest


@pytest.mark.parametrize(
    "policy, earliest",
    [
        (Retention(max_bytes=11, max_messages=2), 8),
        (Retention(max_bytes=4, max_messages=3), 10),
        (Retention(max_age_secs=1, max_messages=3), 8),
        (Retention(max_age_secs=1, max_bytes=5), 10),
        (Retention(1, 3, 1), 14),
    ],
)
def test_all_bounds_of_a_policy_hold(policy: Retention, earliest: int) -> None:
    assert trimmed(held(policy)).earliest == earliest


def test_a_policy_publishes_an_empty_snapshot_at_its_cut() -> None:
    """002 §3.4: a bootstrap must be whole."""
    streams = held(Retention(max_messages=2))

    assert trimmed(streams) == Kept(8, Snapshot(8, NOW + 3 * SECOND))
    streams.run(Append(b"s", NOW + 4 * SECOND, TEXT, b"5"))
    assert trimmed(streams, 5 * SECOND) == Kept(10, Snapshot(10, NOW + 5 * SECOND))


def test_a_policy_does_not_pass_a_clients_snapshot() -> None:
    """002 §3.4: what that does not cover is nowhere else."""
    streams = held(Retention(max_messages=1))
    snapshot = streams.publish(b"s", 8, keep_history=True).head.kept.snapshot

    assert trimmed(streams) == Kept(8, snapshot)
    assert decide(streams, Trim(b"s", NOW)).outcome == Untouched()


def test_a_policy_leaves_a_clients_snapshot_that_covers_more() -> None:
    streams = held(Retention(max_messages=2))
    snapshot = streams.publish(b"s", 14, keep_history=True).head.kept.snapshot

    assert trimmed(streams) == Kept(8, snapshot)


def test_a_client_can_publish_after_a_policy_has_cut() -> None:
    streams = held(Retention(max_messages=2))
    trimmed(streams)

    assert streams.publish(b"s", 10).head.kept.earliest == 10


@pytest.mark.parametrize(
    "policy", [None, Retention(max_bytes=14), Retention(max_messages=4), Retention(max_age_secs=4)]
)
def test_a_stream_within_its_bounds_is_left_alone(policy: Retention | None) -> None:
    decision = decide(held(policy), Trim(b"s", NOW + 4 * SECOND))

    assert (decision.outcome, decision.change) == (Untouched(), ())


def test_a_stream_that_is_not_there_is_left_alone() -> None:
    streams = held(Retention(max_messages=1))
    assert decide(streams, Trim(b"other", NOW)).outcome == Untouched()
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))

    assert decide(streams, Trim(b"s", NOW)).outcome == Untouched()


@pytest.mark.parametrize("policy", [Retention(max_bytes=1), Retention(max_messages=1), Retention(max_age_secs=1)])
def test_an_empty_stream_is_left_alone(policy: Retention) -> None:
    streams = Streams()
    streams.hold(b"s", retention=policy)

    assert decide(streams, Trim(b"s", NOW + 9 * SECOND)).outcome == Untouched()


def test_a_policy_counts_the_messages_of_a_batch() -> None:
    """§9.1: each element is one."""
    streams = Streams()
    streams.hold(b"s", b"[1,22,333]", content_type=JSON, retention=Retention(max_messages=2))

    assert trimmed(streams).earliest == 2


# Whatever the order

steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "publish", "keep", "retain", "trim", "trim", "delete snapshot", "fork"]),
        st.integers(0, 12),
    ),
    max_size=20,
)
small = st.none() | st.integers(1, 12)
small_policies = st.builds(Retention, st.none() | st.integers(1, 3), small, st.none() | st.integers(1, 4))


class Story:
    """A stream to which one thing happens after the other."""

    def __init__(self, policy: Retention) -> None:
        self.streams = Streams()
        self.streams.hold(b"s", b"one", retention=policy)
        self.now = NOW
        self.name = b"s"

    @property
    def stream(self) -> KeptStream:
        return self.streams.kept[self.name]

    def take(self, step: str, number: int) -> None:
        self.now += number * 100
        retained = [end for end in (0, *self.stream.ends) if end >= self.stream.head.kept.earliest]
        offset = retained[number % len(retained)]
        snapshot = self.stream.head.kept.snapshot
        if step == "append":
            self.streams.run(Append(self.name, self.now, TEXT, b"x" * (number + 1)))
        elif step in {"publish", "keep"} and (snapshot is None or snapshot.offset <= offset):
            self.streams.publish(self.name, offset, keep_history=step == "keep")
        elif step == "retain" and snapshot and snapshot.offset >= offset:
            self.streams.run(Retain(self.name, self.now, offset))
        elif step == "delete snapshot" and snapshot and not self.stream.head.kept.earliest:
            self.streams.run(DeleteSnapshot(self.name, self.now, snapshot.offset))
        elif step == "fork" and (snapshot is None or snapshot.offset <= offset):
            fork = self.name + b"'"
            self.streams.fork(fork, self.name, offset)
            self.name = fork
        elif step == "trim":
            self.trim()

    def trim(self) -> None:
        before = self.stream.head.kept
        self.streams.run(Trim(self.name, self.now))
        kept, policy = self.stream.head.kept, self.stream.head.identity.retention
        if before.snapshot and not before.snapshot.automatic:
            assert kept.snapshot == before.snapshot
            assert kept.earliest <= before.snapshot.offset
        else:
            assert self.within(kept, policy or Retention())

    def within(self, kept: Kept, policy: Retention) -> bool:
        """Tell whether every bound holds. Views and decisions count each in their own way."""
        retained = [time for end, time in zip(self.stream.ends, self.stream.times, strict=True) if end > kept.earliest]
        return (
            (policy.max_bytes is None or self.stream.head.tail - kept.earliest <= policy.max_bytes)
            and (policy.max_messages is None or len(retained) <= policy.max_messages)
            and all(policy.max_age_secs is None or self.now - time <= policy.max_age_secs * 1000 for time in retained)
        )


@generated
@given(small_policies, steps)
def test_whatever_happens_nothing_is_cut_that_no_snapshot_covers(
    policy: Retention, taken: list[tuple[str, int]]
) -> None:
    """002 §3.4: the view checks after every change that a snapshot covers what was cut."""
    story = Story(policy)
    for step, number in taken:
        story.take(step, number)
    kept = story.stream.head.kept

    assert kept.earliest == 0 or (kept.snapshot and kept.snapshot.offset >= kept.earliest)


@generated
@given(small_policies, steps)
def test_a_policy_cuts_no_more_than_it_must(policy: Retention, taken: list[tuple[str, int]]) -> None:
    """The newest messages that all bounds allow stay."""
    story = Story(policy)
    for step, number in taken:
        story.take(step, number)
    before = story.stream.head.kept.earliest
    story.trim()
    kept = story.stream.head.kept

    earlier = [end for end in (0, *story.stream.ends) if before <= end < kept.earliest]
    assert not any(story.within(Kept(offset), policy) for offset in earlier)
