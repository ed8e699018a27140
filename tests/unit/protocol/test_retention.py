"""Retention: letting go of the beginning of a stream, on wish or by policy."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Cut, Kept, Retain, Retention
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import InvalidHeader, InvalidOffset, OffsetGone, RetentionBeyondSnapshot, StreamNotFound
from everbrook.protocol.retention import format_retention, parse_retention
from tests.kit.generated import generated
from tests.kit.views import NOW, Streams

bounds = st.none() | st.integers(1, 10**15 - 1)
policies = st.builds(Retention, bounds, bounds, bounds).filter(lambda policy: policy != Retention())


def held() -> Streams:
    """A stream of four messages, which end at 3, 8, 10 and 14."""
    streams = Streams()
    streams.hold(b"s", b"one", b"three", b"me", b"four")
    return streams


# The header


@generated
@given(policies)
def test_a_policy_is_read_as_it_is_written(policy: Retention) -> None:
    assert parse_retention(format_retention(policy)) == policy


@pytest.mark.parametrize(
    "text, policy",
    [
        (None, None),
        (b"max-age=86400", Retention(max_age_secs=86400)),
        (b"max-bytes=1", Retention(max_bytes=1)),
        (b"max-messages=500,max-age=2", Retention(max_age_secs=2, max_messages=500)),
        (b" max-bytes=10 ,\tmax-messages=3 ", Retention(max_bytes=10, max_messages=3)),
    ],
)
def test_a_policy_is_any_of_three_bounds(text: bytes | None, policy: Retention | None) -> None:
    assert parse_retention(text) == policy


def test_a_policy_is_written_in_one_order() -> None:
    assert format_retention(Retention(1, 2, 3)) == b"max-age=1, max-bytes=2, max-messages=3"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b",",
        b"max-age",
        b"max-age=",
        b"max-age=0",
        b"max-age=-1",
        b"max-age=1.5",
        b"max-age=01",
        b"max-age=1000000000000000",
        b"max-age = 1",
        b"max-age=1,",
        b"max-age=1, max-age=1",
        b"max-size=1",
        b"Max-Age=1",
        b"max-age=1; max-bytes=2",
    ],
)
def test_another_policy_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidHeader, match="Stream-Retention must be max-age, max-bytes and max-messages"):
        parse_retention(text)


# On wish


def test_what_a_snapshot_covers_can_be_let_go_of() -> None:
    """Ours: history that was kept goes later."""
    streams = held()
    snapshot = streams.publish(b"s", 10, keep_history=True).head.kept.snapshot

    assert streams.run(Retain(b"s", NOW, 3)) == Cut(streams.kept[b"s"].head)
    assert streams.kept[b"s"].head.kept == Kept(3, snapshot)
    streams.run(Retain(b"s", NOW, 10))
    assert streams.kept[b"s"].head.kept == Kept(10, snapshot)


def test_letting_go_of_nothing_more_changes_nothing() -> None:
    streams = held()
    assert decide(streams, Retain(b"s", NOW, 0)).change == ()
    streams.publish(b"s", 8)

    decision = decide(streams, Retain(b"s", NOW, 8))
    assert (decision.outcome, decision.change) == (Cut(streams.kept[b"s"].head), ())


@pytest.mark.parametrize("published, where", [((), "there is none"), ((8,), "the latest one is at 0000000000000008")])
def test_what_no_snapshot_covers_is_kept(published: tuple[int, ...], where: str) -> None:
    """002 §3.4: a bootstrap is whole."""
    streams = held()
    for offset in published:
        streams.publish(b"s", offset, keep_history=True)

    with pytest.raises(RetentionBeyondSnapshot, match=where):
        decide(streams, Retain(b"s", NOW, 10))


def test_a_cut_inside_a_message_is_refused() -> None:
    """002 §2.1: one model of boundaries."""
    streams = held()
    streams.publish(b"s", 10, keep_history=True)

    with pytest.raises(InvalidOffset, match="lies inside a message"):
        decide(streams, Retain(b"s", NOW, 9))


def test_what_is_gone_is_not_let_go_of_again() -> None:
    """002 §2.2: 410."""
    streams = held()
    streams.publish(b"s", 10)

    with pytest.raises(OffsetGone):
        decide(streams, Retain(b"s", NOW, 8))


def test_a_stream_that_is_not_there_lets_nothing_go() -> None:
    with pytest.raises(StreamNotFound):
        decide(held(), Retain(b"other", NOW, 0))
