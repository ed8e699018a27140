"""A fork asked for again: found as described, or a conflict."""

import pytest

from everbrook.protocol import Append, Create, Delete, Existing, ForkFrom, Retention
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import StreamExists
from tests.kit.views import NOW, TEXT, Streams


@pytest.mark.parametrize(
    "fork, again",
    [
        (ForkFrom(b"s"), ForkFrom(b"s")),
        (ForkFrom(b"s", 5), ForkFrom(b"s", 5)),
        (ForkFrom(b"s", 0, 3), ForkFrom(b"s", 0, 3)),
        (ForkFrom(b"s"), ForkFrom(b"s", 11)),
        (ForkFrom(b"s", 11), ForkFrom(b"s")),
    ],
)
def test_a_fork_asked_for_again_is_found(fork: ForkFrom, again: ForkFrom) -> None:
    """§4.2: 200 for a matching source and offset; no offset is the tail."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")
    streams.run(Create(b"f", NOW, 2, TEXT, fork=fork))

    decision = decide(streams, Create(b"f", NOW, 9, fork=again))
    assert (decision.outcome, decision.change) == (Existing(streams.kept[b"f"].head), ())


def test_a_fork_without_an_offset_is_found_though_its_source_grew() -> None:
    """Gap G-21."""
    streams = Streams()
    streams.hold(b"s", b"first")
    streams.fork(b"f", b"s")
    streams.run(Append(b"s", NOW, TEXT, b"second"))

    assert isinstance(streams.run(Create(b"f", NOW, 9, fork=ForkFrom(b"s"))), Existing)


def test_a_fork_is_found_though_its_source_was_deleted() -> None:
    """§4.2: a fork outlives its source; who asks for it again learns that it is there."""
    streams = Streams()
    streams.hold(b"s", b"first", ttl_secs=60)
    streams.fork(b"f", b"s", 0)
    streams.run(Delete(b"s", NOW))

    assert isinstance(streams.run(Create(b"f", NOW, 9, TEXT, fork=ForkFrom(b"s", 0))), Existing)


def test_a_fork_is_found_by_the_offset_it_was_given_though_its_source_was_deleted() -> None:
    """§4.2: 200 for the same `Stream-Fork-Offset`, asked for or not the first time."""
    streams = Streams()
    streams.hold(b"s", b"first")
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))

    assert isinstance(streams.run(Create(b"f", NOW, 9, fork=ForkFrom(b"s", 5))), Existing)


@pytest.mark.parametrize(
    "command",
    [
        Create(b"f", NOW, 9, fork=ForkFrom(b"s", 0)),
        Create(b"f", NOW, 9, fork=ForkFrom(b"s", 5, 1)),
        Create(b"f", NOW, 9, fork=ForkFrom(b"s")),
        Create(b"f", NOW, 9, fork=ForkFrom(b"other", 5)),
        Create(b"f", NOW, 9, TEXT),
    ],
)
def test_another_point_to_branch_off_conflicts(command: Create) -> None:
    """§4.2: 409."""
    streams = Streams()
    for name in (b"s", b"other"):
        streams.hold(name, b"first", b"second")
    streams.fork(b"f", b"s", 5)

    with pytest.raises(StreamExists, match=r"another fork$"):
        decide(streams, command)


def test_a_fork_conflicts_with_a_stream_that_is_none() -> None:
    """§4.2: the target path is in use."""
    streams = Streams()
    streams.hold(b"s")
    streams.hold(b"f")

    with pytest.raises(StreamExists, match=r"another fork$"):
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s")))


def test_a_stream_is_no_fork_of_itself() -> None:
    """§4.2: its own path is in use."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(StreamExists, match=r"another fork$"):
        decide(streams, Create(b"s", NOW, 9, fork=ForkFrom(b"s")))


@pytest.mark.parametrize("own", [Create(b"f", NOW, 2, ttl_secs=60), Create(b"f", NOW, 2, expires_at=NOW + 60_000)])
def test_a_fork_asked_for_again_without_its_own_lifetime_conflicts(own: Create) -> None:
    """§4.2, §5.1: without one it would have its source's."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(Create(b"f", NOW, 2, ttl_secs=own.ttl_secs, expires_at=own.expires_at, fork=ForkFrom(b"s")))

    with pytest.raises(StreamExists, match=r"another (TTL|expiry)$"):
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s")))


def test_a_fork_that_inherits_is_found_by_naming_what_it_inherited() -> None:
    """§4.2: the lifetime is the same, whoever set it."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=60)
    streams.fork(b"f", b"s")

    assert isinstance(streams.run(Create(b"f", NOW, 9, ttl_secs=60, fork=ForkFrom(b"s"))), Existing)
    with pytest.raises(StreamExists, match=r"another TTL$"):
        decide(streams, Create(b"f", NOW, 9, ttl_secs=61, fork=ForkFrom(b"s")))


def test_a_fork_closed_since_conflicts_with_an_open_one() -> None:
    """§5.1: closure status matches as for any stream."""
    streams = Streams()
    streams.hold(b"s")
    streams.fork(b"f", b"s")
    streams.run(Append(b"f", NOW, close=True))

    with pytest.raises(StreamExists, match=r"another closure$"):
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s")))


def test_a_fork_is_found_though_its_source_has_cut_what_it_began_with() -> None:
    """002 §2.2: what a fork inherited stays, and so does how it was asked for."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")
    streams.fork(b"f", b"s", 5)
    streams.publish(b"s", 11)

    assert isinstance(streams.run(Create(b"f", NOW, 9, fork=ForkFrom(b"s", 5))), Existing)


@pytest.mark.parametrize("policy", [Retention(max_bytes=9), Retention(max_bytes=8, max_age_secs=1)])
def test_another_policy_conflicts(policy: Retention) -> None:
    """Ours: 409, as for a lifetime."""
    streams = Streams()
    streams.hold(b"s", retention=Retention(max_bytes=8))
    streams.fork(b"f", b"s")

    with pytest.raises(StreamExists, match=r"another retention$"):
        decide(streams, Create(b"s", NOW, 9, TEXT, retention=policy))
    with pytest.raises(StreamExists, match=r"another retention$"):
        decide(streams, Create(b"f", NOW, 9, fork=ForkFrom(b"s"), retention=policy))


@pytest.mark.parametrize("policy", [None, Retention(max_bytes=8)])
def test_a_stream_with_its_buckets_policy_is_found_by_naming_it_or_not(policy: Retention | None) -> None:
    """Ours: the policy is the same, whoever set it."""
    streams = Streams()
    streams.bucket(b"agents", Retention(max_bytes=8))
    streams.hold(b"/ds/agents/s")

    assert isinstance(streams.run(Create(b"/ds/agents/s", NOW, 9, TEXT, retention=policy)), Existing)


def test_no_policy_conflicts_with_one() -> None:
    """Ours: on the base surface there is no default."""
    streams = Streams()
    streams.hold(b"s", retention=Retention(max_bytes=8))

    with pytest.raises(StreamExists, match=r"another retention$"):
        decide(streams, Create(b"s", NOW, 9, TEXT))
