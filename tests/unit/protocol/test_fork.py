"""Forking: a stream that begins with another stream's bytes."""

import pytest
from hypothesis import given, strategies as st

from everbrook.protocol import Append, Appended, Create, Created, Delete, Fork, ForkFrom
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import (
    ContentTypeMismatch,
    InvalidOffset,
    SourceDeleted,
    SourceNotFound,
)
from tests.kit.generated import generated
from tests.kit.views import JSON, NOW, TEXT, Streams, numbered

TTL = 60
DEADLINE = NOW + 60_000


def test_a_fork_inherits_everything_up_to_the_tail_by_default() -> None:
    """§4.2."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")

    fork = streams.fork(b"f", b"s")
    assert (fork.stored, fork.head.tail, fork.head.identity.fork) == (b"firstsecond", 11, Fork(b"s", 1, 11))


def test_a_fork_inherits_up_to_its_offset() -> None:
    """§4.2: up to, not including; what was asked for is remembered."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")

    fork = streams.fork(b"f", b"s", 5)
    assert (fork.stored, fork.head.identity.fork) == (b"first", Fork(b"s", 1, 5, anchor=5))


def test_an_empty_source_can_be_forked() -> None:
    """§4.2."""
    streams = Streams()
    streams.hold(b"s")

    assert streams.fork(b"f", b"s", 0).head.tail == 0


def test_a_fork_goes_on_in_the_offsets_of_its_source() -> None:
    """§8: one offset space, no translation."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")
    fork = streams.fork(b"f", b"s", 5)

    streams.run(Append(b"f", NOW, TEXT, b"own"))
    assert (fork.stored, fork.head.tail, fork.ends) == (b"firstown", 8, [5, 8])


def test_the_body_of_a_fork_follows_what_it_inherits() -> None:
    """§5.1: initial content, after the prefix."""
    streams = Streams()
    streams.hold(b"s", b"hello")

    outcome = streams.run(Create(b"f", NOW, 2, TEXT, b"XY", fork=ForkFrom(b"s", 0, 3)))
    assert outcome == Created(streams.kept[b"f"].head)
    assert (streams.kept[b"f"].stored, streams.kept[b"f"].ends) == (b"helXY", [3, 5])


def test_a_closed_stream_gives_an_open_fork() -> None:
    """§4.2."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, TEXT, b"all", closed=True))

    assert not streams.fork(b"f", b"s").head.closed


def test_a_fork_can_be_born_closed() -> None:
    """§5.1: as any stream."""
    streams = Streams()
    streams.hold(b"s", b"x")
    streams.run(Create(b"f", NOW, 2, closed=True, fork=ForkFrom(b"s")))

    assert streams.kept[b"f"].head.closed


def test_a_fork_knows_no_writer_of_its_source() -> None:
    """§4.2: neither producer state nor `Stream-Seq`."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(numbered(0, epoch=3))
    streams.run(Append(b"s", NOW, TEXT, b"y", stream_seq=b"9"))
    fork = streams.fork(b"f", b"s")

    assert (fork.producers, fork.head.stream_seq, fork.head.closed_by) == ({}, None, None)
    own = Append(b"f", NOW, TEXT, b"z", claim=numbered(0).claim, stream_seq=b"1")
    assert isinstance(streams.run(own), Appended)


@pytest.mark.parametrize("content_type", [None, TEXT, b"TEXT/plain; charset=utf-8"])
def test_a_fork_has_its_sources_content_type(content_type: bytes | None) -> None:
    """§4.2: inherited, or the same."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(Create(b"f", NOW, 2, content_type, fork=ForkFrom(b"s")))

    assert streams.kept[b"f"].head.identity.content_type == TEXT


@pytest.mark.parametrize("present", [False, True])
def test_another_content_type_than_the_sources_conflicts(present: object) -> None:
    """§4.2: 409."""
    streams = Streams()
    streams.hold(b"s")
    if present:
        streams.fork(b"f", b"s")

    with pytest.raises(ContentTypeMismatch, match="a fork has its source's content type, 'text/plain', got"):
        decide(streams, Create(b"f", NOW, 9, JSON, fork=ForkFrom(b"s")))


@pytest.mark.parametrize(
    "source, request_, lifetime",
    [
        ((None, None), (None, None), (None, None)),
        ((None, None), (TTL, None), (TTL, None)),
        ((None, None), (None, DEADLINE), (None, DEADLINE)),
        ((TTL, None), (None, None), (TTL, None)),
        ((TTL, None), (TTL * 2, None), (TTL * 2, None)),
        ((TTL, None), (None, DEADLINE * 2), (None, DEADLINE * 2)),
        ((None, DEADLINE), (None, None), (None, DEADLINE)),
        ((None, DEADLINE), (TTL * 2, None), (TTL * 2, None)),
        ((None, DEADLINE), (None, DEADLINE * 2), (None, DEADLINE * 2)),
        ((TTL, None), (0, None), (0, None)),
    ],
)
def test_a_fork_has_the_lifetime_asked_for_or_its_sources(
    source: tuple[int | None, int | None],
    request_: tuple[int | None, int | None],
    lifetime: tuple[int | None, int | None],
) -> None:
    """§4.2: the nine rows of the table, and a TTL of zero is one."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, TEXT, b"", False, *source))  # noqa: FBT003 - the lifetimes come after it
    streams.run(Create(b"f", NOW, 2, TEXT, b"", False, *request_, ForkFrom(b"s")))  # noqa: FBT003

    identity = streams.kept[b"f"].head.identity
    assert (identity.ttl_secs, identity.expires_at) == lifetime


def test_a_fork_counts_an_inherited_ttl_from_its_own_creation() -> None:
    """§4.2: the same window, refreshed independently."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)
    streams.run(Create(b"f", NOW + 900, 2, fork=ForkFrom(b"s")))

    assert (streams.kept[b"f"].head.identity.created_at, streams.kept[b"f"].touched_at) == (NOW + 900, NOW + 900)
    assert streams.kept[b"s"].touched_at == NOW


def test_a_source_that_is_not_there_is_not_found() -> None:
    """§4.2: 404."""
    with pytest.raises(SourceNotFound, match="no stream at 's' to fork from"):
        decide(Streams(), Create(b"f", NOW, 1, fork=ForkFrom(b"s")))


def test_an_expired_source_is_not_found() -> None:
    """§4.2, §5.1: 404."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)

    with pytest.raises(SourceNotFound):
        decide(streams, Create(b"f", NOW + 1000, 2, fork=ForkFrom(b"s")))


def test_a_soft_deleted_source_conflicts() -> None:
    """§4.2: 409."""
    streams = Streams()
    streams.hold(b"s")
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))

    with pytest.raises(SourceDeleted, match="'s' was deleted and cannot be forked"):
        decide(streams, Create(b"g", NOW, 9, fork=ForkFrom(b"s")))


def test_an_offset_beyond_the_sources_tail_is_refused() -> None:
    """§4.2: 400."""
    streams = Streams()
    streams.hold(b"s", b"first")

    with pytest.raises(InvalidOffset, match="beyond the source's tail, 0000000000000005"):
        decide(streams, Create(b"f", NOW, 2, fork=ForkFrom(b"s", 6)))


@pytest.mark.parametrize("offset", [1, 4, 6])
def test_an_offset_inside_a_message_is_refused(offset: int) -> None:
    """§8: servers may validate alignment; better than the reference."""
    streams = Streams()
    streams.hold(b"s", b"first", b"second")

    with pytest.raises(InvalidOffset, match="lies inside a message"):
        decide(streams, Create(b"f", NOW, 2, fork=ForkFrom(b"s", offset)))


@generated
@given(st.lists(st.tuples(st.sampled_from([b"x", b"yy", b"zzz"]), st.integers(0, 9)), min_size=1, max_size=6))
def test_a_chain_of_forks_keeps_each_ones_prefix(links: list[tuple[bytes, int]]) -> None:
    """§4.2: a source may itself be a fork."""
    streams = Streams()
    expected = b""
    streams.hold(b"0")
    for number, (body, pick) in enumerate(links):
        streams.run(Append(b"%d" % number, NOW, TEXT, body))
        expected += body
        boundaries = sorted({0, *streams.kept[b"%d" % number].ends})
        offset = boundaries[pick % len(boundaries)]
        fork = streams.fork(b"%d" % (number + 1), b"%d" % number, offset)
        expected = expected[:offset]
        assert (fork.stored, fork.head.tail) == (expected, offset)
