"""Creating a stream, or finding it as described."""

import pytest

from everbrook.protocol import (
    Append,
    Appended,
    Create,
    Created,
    Delete,
    Drop,
    Existing,
    ForkFrom,
    Head,
    Identity,
    Write,
)
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import BadRequest, InvalidHeader, InvalidJson, InvalidPath, PathBlocked, StreamExists
from tests.kit.views import BYTES, JSON, NOW, TEXT, KeptStream, Streams, head_of

LATER = NOW + 1000


def test_a_new_stream_is_open_and_empty() -> None:
    """§5.1."""
    streams = Streams()

    head = Head(Identity(b"s", 7, TEXT, TEXT, NOW), tail=0, written_at=NOW)
    assert streams.run(Create(b"s", NOW, 7, TEXT)) == Created(head)
    assert streams.kept[b"s"].head == head


@pytest.mark.parametrize("content_type", [None, b""])
def test_a_stream_without_a_content_type_holds_octets(content_type: bytes | None) -> None:
    """§5.1, gap G-06."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, content_type))

    identity = streams.kept[b"s"].head.identity
    assert (identity.content_type, identity.media_type) == (BYTES, BYTES)


def test_a_content_type_is_kept_as_it_was_sent() -> None:
    """§5.1: it is given back on reads."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, b"Application/JSON; charset=utf-8"))

    identity = streams.kept[b"s"].head.identity
    assert (identity.content_type, identity.media_type) == (b"Application/JSON; charset=utf-8", JSON)


def test_a_malformed_content_type_is_refused() -> None:
    """§5.1: 400."""
    with pytest.raises(InvalidHeader):
        decide(Streams(), Create(b"s", NOW, 1, b"text"))


@pytest.mark.parametrize(
    "content_type, body, stored, ends",
    [
        (TEXT, b"hello", b"hello", [5]),
        (JSON, b'[1, {"a":2}]', b'1,{"a":2},', [2, 10]),
        (JSON, b"[]", b"", []),
    ],
)
def test_a_body_is_the_first_content(content_type: bytes, body: bytes, stored: bytes, ends: list[int]) -> None:
    """§5.1; an empty array is no messages, and valid here (§9.1.3)."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, content_type, body))

    assert (streams.kept[b"s"].stored, streams.kept[b"s"].ends) == (stored, ends)


def test_a_body_that_is_not_json_creates_nothing() -> None:
    """§9.1.4."""
    with pytest.raises(InvalidJson):
        decide(Streams(), Create(b"s", NOW, 1, JSON, b"{"))


@pytest.mark.parametrize("body", [b"", b"all of it"])
def test_a_stream_can_be_born_closed(body: bytes) -> None:
    """§5.1: create and close in one step."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, TEXT, body, closed=True))

    assert (streams.kept[b"s"].head.closed, streams.kept[b"s"].stored) == (True, body)


@pytest.mark.parametrize("present", [False, True])
def test_ttl_and_expiry_together_are_refused(present: object) -> None:
    """§5.1: 400, whether or not the stream exists."""
    streams = Streams()
    if present:
        streams.hold(b"s")

    with pytest.raises(BadRequest, match="either Stream-TTL or Stream-Expires-At"):
        decide(streams, Create(b"s", NOW, 9, TEXT, ttl_secs=0, expires_at=0))


@pytest.mark.parametrize(
    "command",
    [
        Create(b"s", NOW, 1, TEXT),
        Create(b"s", NOW, 1, None),
        Create(b"s", NOW, 1, TEXT, ttl_secs=60),
        Create(b"s", NOW, 1, TEXT, ttl_secs=1, closed=True),
        Create(b"s", NOW, 1, TEXT, expires_at=NOW + 5000),
        Create(b"s", NOW, 1, JSON, b"[1]", closed=True),
    ],
)
def test_a_creation_asked_for_again_finds_the_stream(command: Create) -> None:
    """§5.1: 200, and nothing changes."""
    streams = Streams()
    streams.run(command)

    decision = decide(streams, command)
    assert (decision.outcome, decision.change) == (Existing(streams.kept[b"s"].head), ())


@pytest.mark.parametrize("content_type", [b"TEXT/PLAIN", b"text/plain; charset=utf-8"])
def test_another_spelling_of_the_content_type_finds_the_stream(content_type: bytes) -> None:
    """Gap G-19."""
    streams = Streams()
    streams.hold(b"s", b"data")

    assert streams.run(Create(b"s", NOW, 9, content_type)) == Existing(streams.kept[b"s"].head)


def test_the_body_of_a_creation_that_finds_the_stream_is_left_alone() -> None:
    """Gap G-20: neither appended nor compared, nor even read."""
    streams = Streams()
    streams.hold(b"s", b"1", content_type=JSON)

    assert isinstance(streams.run(Create(b"s", NOW, 9, JSON, b"{")), Existing)
    assert streams.kept[b"s"].stored == b"1,"


@pytest.mark.parametrize(
    "command, difference",
    [
        (Create(b"s", NOW, 9, JSON, ttl_secs=60), "content type"),
        (Create(b"s", NOW, 9, None, ttl_secs=60), "content type"),
        (Create(b"s", NOW, 9, TEXT, ttl_secs=61), "TTL"),
        (Create(b"s", NOW, 9, TEXT), "TTL"),
        (Create(b"s", NOW, 9, TEXT, expires_at=NOW + 60_000), "TTL, expiry"),
        (Create(b"s", NOW, 9, TEXT, ttl_secs=60, closed=True), "closure"),
        (Create(b"s", NOW, 9, JSON, closed=True), "content type, TTL, closure"),
    ],
)
def test_another_configuration_conflicts_and_says_in_what(command: Create, difference: str) -> None:
    """§5.1: 409."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=60)

    with pytest.raises(StreamExists, match=f"the stream exists with another {difference}$"):
        decide(streams, command)


def test_another_expiry_conflicts() -> None:
    """§5.1: 409."""
    streams = Streams()
    streams.run(Create(b"s", NOW, 1, TEXT, expires_at=NOW + 1))

    for expires_at in (NOW + 2, None):
        with pytest.raises(StreamExists, match=r"another expiry$"):
            decide(streams, Create(b"s", NOW, 9, TEXT, expires_at=expires_at))


def test_an_open_creation_conflicts_with_a_stream_closed_since() -> None:
    """§5.1: closure status is part of what is compared."""
    streams = Streams()
    streams.hold(b"s")
    streams.run(Append(b"s", NOW, close=True))

    with pytest.raises(StreamExists, match=r"another closure$"):
        decide(streams, Create(b"s", NOW, 9, TEXT))
    assert isinstance(streams.run(Create(b"s", NOW, 9, TEXT, closed=True)), Existing)


def test_a_deleted_stream_makes_room_at_once() -> None:
    """Where the texts disagree, DELETE then PUT: allowed, no old data, a new incarnation."""
    streams = Streams()
    streams.hold(b"s", b"old")
    streams.run(Delete(b"s", NOW))

    assert isinstance(streams.run(Create(b"s", NOW, 9, JSON)), Created)
    assert (streams.kept[b"s"].stored, streams.kept[b"s"].head.identity.incarnation) == (b"", 9)


def test_an_expired_stream_makes_room_before_it_was_swept_away() -> None:
    """§5.1: the old one is dropped and the new one written in one change."""
    streams = Streams()
    old = streams.hold(b"s", b"old", ttl_secs=1).head

    decision = decide(streams, Create(b"s", LATER, 9, JSON, b"2"))
    new = Head(Identity(b"s", 9, JSON, JSON, LATER), 2, LATER)
    assert decision.outcome == Created(new)
    assert decision.change == (Drop(old), Write(new, b"2,", (2,), created=True))


def test_a_soft_deleted_stream_blocks_its_path() -> None:
    """§4.2: 409, even for the same configuration."""
    streams = Streams()
    streams.hold(b"s")
    streams.fork(b"f", b"s")
    streams.run(Delete(b"s", NOW))

    with pytest.raises(PathBlocked, match="'s' was deleted, but forks still read it"):
        decide(streams, Create(b"s", NOW, 9, TEXT))


def test_an_expired_stream_that_forks_read_blocks_its_path() -> None:
    """Gap G-07."""
    streams = Streams()
    streams.hold(b"s", ttl_secs=1)
    streams.run(Create(b"f", NOW, 2, fork=ForkFrom(b"s"), ttl_secs=60))

    with pytest.raises(PathBlocked):
        decide(streams, Create(b"s", LATER, 9, TEXT, ttl_secs=1))


def test_creating_over_an_expired_fork_takes_its_soft_deleted_sources_with_it() -> None:
    """§4.2: the cascade goes up the chain, however the last fork ended."""
    streams = Streams()
    streams.hold(b"a", ttl_secs=1)
    streams.fork(b"b", b"a")
    streams.fork(b"c", b"b")
    streams.run(Delete(b"a", NOW))
    streams.run(Delete(b"b", NOW))

    streams.run(Create(b"c", LATER, 9, TEXT))
    assert set(streams.kept) == {b"c"}


SNAPSHOT = b"/v1/stream/doc/a/snapshot/0000000000004096"


@pytest.mark.parametrize("fork", [None, ForkFrom(b"s")])
def test_the_path_of_a_snapshot_names_no_new_stream(fork: ForkFrom | None) -> None:
    """Gap G-62: who publishes as in a bucket is told where, and finds no stream later."""
    streams = Streams()
    streams.hold(b"s")

    with pytest.raises(InvalidPath, match=r"published at /v1/stream/doc/a/__ds/snapshot/0000000000004096$"):
        streams.run(Create(SNAPSHOT, NOW, 2, fork=fork))
    assert streams.stream(SNAPSHOT) is None


@pytest.mark.parametrize(
    "name",
    [
        SNAPSHOT + b"0",
        SNAPSHOT[:-1],
        SNAPSHOT + b"/a",
        SNAPSHOT.replace(b"/snapshot", b"/a-snapshot"),
        b"/v1/stream/snapshot/0000000000004096",
    ],
)
def test_a_path_that_only_looks_like_a_snapshots_names_a_stream(name: bytes) -> None:
    assert isinstance(Streams().run(Create(name, NOW, 1)), Created)


def test_a_stream_at_the_path_of_a_snapshot_that_is_there_stays() -> None:
    """Earlier versions created them."""
    streams = Streams()
    streams.kept[SNAPSHOT] = KeptStream(head_of(BYTES, name=SNAPSHOT))

    assert isinstance(streams.run(Create(SNAPSHOT, NOW, 2)), Existing)
    assert isinstance(streams.run(Append(SNAPSHOT, NOW, BYTES, b"x")), Appended)
