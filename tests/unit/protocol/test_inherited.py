"""What a fork inherits beside bytes: how much of the past there is, the snapshot of it, the policy, the bucket."""

import pytest

from everbrook.protocol import WHOLE, Append, Create, ForkFrom, Retention, Trim
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import InvalidHeader, OffsetGone, SnapshotBeyondFork
from tests.kit.views import NOW, TEXT, Streams


def cut_source(earliest: int, snapshot: int | None = None) -> Streams:
    """A stream of messages that end at 3, 8 and 10, cut and with a snapshot."""
    streams = Streams()
    streams.hold(b"s", b"one", b"three", b"me")
    streams.publish(b"s", earliest)
    if snapshot is not None:
        streams.publish(b"s", snapshot, keep_history=True)
    return streams


@pytest.mark.parametrize("offset", [8, 10, None])
def test_a_fork_has_what_its_source_has_of_the_past(offset: int | None) -> None:
    """002 §3.4: its bootstrap is whole too."""
    streams = cut_source(3, 8)
    source = streams.kept[b"s"].head.kept

    fork = streams.fork(b"f", b"s", offset).head
    assert (fork.kept, fork.identity.first_kept) == (source, source)


def test_a_fork_keeps_what_it_inherited_when_its_source_lets_go() -> None:
    """§4.2: source and fork go their own ways."""
    streams = cut_source(3, 8)
    inherited = streams.fork(b"f", b"s").head.kept
    streams.publish(b"s", 10)

    assert streams.kept[b"f"].head.kept == inherited
    assert streams.publish(b"f", 10).head.identity.first_kept == inherited


@pytest.mark.parametrize("offset", [0, 3, 4])
def test_a_fork_at_what_was_cut_is_refused(offset: int) -> None:
    """002 §2.2: 410."""
    streams = cut_source(8)

    with pytest.raises(OffsetGone):
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s", offset)))


def test_a_fork_before_the_snapshot_of_a_cut_source_conflicts() -> None:
    """Ours: the snapshot would cover more than the fork has, and what it covers is gone."""
    streams = cut_source(3, 8)

    with pytest.raises(SnapshotBeyondFork, match="fork at 0000000000000008 or later") as refusal:
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s", 3)))
    assert refusal.value.headers == ((b"Stream-Snapshot-Offset", b"0000000000000008"),)


@pytest.mark.parametrize("offset, inherits", [(0, False), (3, False), (8, True), (10, True)])
def test_a_fork_before_the_snapshot_of_a_whole_source_has_none(offset: int, inherits: object) -> None:
    """002 §3.4: everything that the snapshot would cover is there by itself."""
    streams = cut_source(0, 8)

    fork = streams.fork(b"f", b"s", offset).head
    assert (fork.kept != WHOLE) is inherits
    assert fork.kept.earliest == 0


def test_a_sub_offset_counts_from_what_is_retained() -> None:
    """§4.2: the fork has part of the message behind the cut."""
    streams = cut_source(3)

    fork = streams.fork(b"f", b"s", 3, 2)
    assert (fork.head.tail, fork.head.kept.earliest) == (5, 3)


@pytest.mark.parametrize(
    "own, policy", [(None, Retention(max_messages=2)), (Retention(max_bytes=9), Retention(max_bytes=9))]
)
def test_a_fork_has_the_policy_asked_for_or_its_sources(own: Retention | None, policy: Retention) -> None:
    """Ours: as the lifetime."""
    streams = Streams()
    streams.hold(b"s", b"one", retention=Retention(max_messages=2))
    streams.run(Create(b"f", NOW, 9, fork=ForkFrom(b"s"), retention=own))

    assert streams.kept[b"f"].head.identity.retention == policy


def test_a_policy_cuts_what_a_fork_inherited_from_the_fork_alone() -> None:
    """§4.2: source and fork go their own ways."""
    streams = Streams()
    streams.hold(b"s", b"one", b"two")
    streams.run(Create(b"f", NOW, 9, TEXT, b"three", fork=ForkFrom(b"s"), retention=Retention(max_messages=1)))
    streams.run(Trim(b"f", NOW))

    assert (streams.kept[b"f"].head.kept.earliest, streams.kept[b"s"].head.kept) == (6, WHOLE)


@pytest.mark.parametrize(
    "source, fork",
    [
        (b"/ds/agents/s", b"/ds/others/f"),
        (b"/ds/agents/s", b"/v1/stream/f"),
        (b"/v1/stream/s", b"/ds/agents/f"),
    ],
)
def test_a_fork_stays_in_its_sources_bucket(source: bytes, fork: bytes) -> None:
    """Ours: a bucket without streams has nothing that others need."""
    streams = Streams()
    streams.bucket(b"agents")
    streams.bucket(b"others")
    streams.hold(source, b"one")

    with pytest.raises(InvalidHeader, match="a fork stays in its source's bucket"):
        decide(streams, Create(fork, NOW, 9, fork=ForkFrom(source)))


def test_a_fork_is_made_within_a_bucket() -> None:
    """002 §1.6: all operations of the base protocol."""
    streams = Streams()
    streams.bucket(b"agents", Retention(max_bytes=5))
    streams.hold(b"/ds/agents/s", b"one")

    fork = streams.fork(b"/ds/agents/f", b"/ds/agents/s")
    assert (fork.stored, fork.head.identity.retention) == (b"one", Retention(max_bytes=5))


def test_the_times_of_a_fork_never_go_back() -> None:
    """They are searched, across what it inherited and what is its own: the clock may have been set back."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(Append(b"s", NOW + 5, TEXT, b"one"))
    streams.run(Create(b"f", NOW, 9, TEXT, b"two", fork=ForkFrom(b"s")))
    streams.run(Append(b"f", NOW + 1, TEXT, b"three"))

    times = streams.kept[b"f"].times
    assert times == sorted(times)
