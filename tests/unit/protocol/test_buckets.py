"""Buckets: namespaces that are created before there is a stream in them, and deleted when there is none."""

import pytest

from everbrook.protocol import (
    Append,
    Create,
    CreateBucket,
    Created,
    Delete,
    DeleteBucket,
    Deleted,
    Retention,
    bucket_record,
)
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import BucketExists, BucketNotEmpty, BucketNotFound, StreamNotFound
from everbrook.protocol.lifetime import living_stream
from tests.kit.views import NOW, TEXT, Streams

STREAM = b"/ds/agents/user-1"
POLICY = Retention(max_messages=5)


def with_bucket(retention: Retention | None = None) -> Streams:
    streams = Streams()
    streams.bucket(b"agents", retention)
    return streams


def test_a_bucket_is_created_once() -> None:
    """002 §1.2: 409 if it exists."""
    streams = Streams()

    outcome = streams.run(CreateBucket(b"agents", NOW, 1, POLICY))
    head = streams.kept[bucket_record(b"agents")].head
    assert outcome == Created(head)
    assert (head.identity.created_at, head.identity.retention) == (NOW, POLICY)
    with pytest.raises(BucketExists, match="the bucket 'agents' exists"):
        decide(streams, CreateBucket(b"agents", NOW, 2, POLICY))


def test_a_stream_does_not_create_its_bucket() -> None:
    """002 §1.2: buckets are created explicitly."""
    with pytest.raises(BucketNotFound, match="there is no bucket 'agents'"):
        decide(Streams(), Create(STREAM, NOW, 1))


def test_a_stream_is_created_in_its_bucket() -> None:
    """002 §1.6."""
    streams = with_bucket()

    assert streams.hold(STREAM, b"data").stored == b"data"


def test_what_is_in_no_bucket_says_so() -> None:
    """002 §1.6: 404 for the bucket before there is one, for the stream after."""
    with pytest.raises(BucketNotFound):
        living_stream(Streams(), STREAM, NOW)
    with pytest.raises(StreamNotFound):
        living_stream(with_bucket(), STREAM, NOW)
    with pytest.raises(BucketNotFound):
        decide(Streams(), Append(STREAM, NOW, TEXT, b"x"))


@pytest.mark.parametrize("own, policy", [(None, POLICY), (Retention(max_bytes=9), Retention(max_bytes=9))])
def test_a_stream_without_a_policy_has_its_buckets(own: Retention | None, policy: Retention) -> None:
    """Ours: the default for its streams."""
    assert with_bucket(POLICY).hold(STREAM, retention=own).head.identity.retention == policy


def test_a_policy_of_a_bucket_is_not_for_others() -> None:
    streams = with_bucket(POLICY)
    streams.bucket(b"others")

    assert streams.hold(b"/ds/others/user-1").head.identity.retention is None
    assert streams.hold(b"/v1/stream/a").head.identity.retention is None


def test_an_empty_bucket_is_deleted_and_can_be_created_again() -> None:
    """002 §1.5."""
    streams = with_bucket()

    assert streams.run(DeleteBucket(b"agents", NOW)) == Deleted()
    assert streams.kept == {}
    streams.bucket(b"agents")


def test_a_bucket_that_is_not_there_is_not_deleted() -> None:
    """002 §1.5: 404."""
    with pytest.raises(BucketNotFound, match="there is no bucket 'agents'"):
        decide(Streams(), DeleteBucket(b"agents", NOW))


def test_a_bucket_with_a_stream_is_not_deleted() -> None:
    """002 §1.5: 409 until the last one has gone."""
    streams = with_bucket()
    streams.hold(STREAM)

    with pytest.raises(BucketNotEmpty, match="streams are in the bucket 'agents'"):
        decide(streams, DeleteBucket(b"agents", NOW))
    streams.run(Delete(STREAM, NOW))
    assert isinstance(streams.run(DeleteBucket(b"agents", NOW)), Deleted)


def test_a_bucket_whose_name_begins_another_ones_is_empty_all_the_same() -> None:
    """002 §1.5: its own streams count, nobody else's."""
    streams = with_bucket()
    streams.bucket(b"agents-of-others")
    streams.hold(b"/ds/agents-of-others/user-1")

    assert isinstance(streams.run(DeleteBucket(b"agents", NOW)), Deleted)
