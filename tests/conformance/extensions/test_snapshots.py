"""Finding, reading and deleting snapshots (002 §2.3 to §2.6)."""

import pytest

from tests.conformance.extensions.client import Answer
from tests.conformance.extensions.streams import Namespace, Stream, beyond

BINARY = bytes(range(256)) * 40 + b"\r\n--boundary--\r\n"


def location(stream: Stream, answer: Answer) -> str:
    return stream.client.locate(answer, stream.resource("snapshot"))


# The latest (§2.3)


def test_the_latest_snapshot_is_a_redirect_to_it(stream: Stream) -> None:
    """002 §2.3: 307 Temporary Redirect when a latest snapshot exists; Location points to it."""
    offset = stream.published(stream.append(b"one"), b"folded")
    answer = stream.latest()
    assert answer.status == 307
    assert location(stream, answer) == stream.resource(f"snapshot/{offset}")
    assert stream.client.get(location(stream, answer)).body == b"folded"


def test_there_is_no_latest_snapshot_before_the_first(stream: Stream) -> None:
    """002 §2.3: 404 Not Found when no snapshot exists."""
    stream.append(b"one")
    assert stream.latest().status == 404


def test_a_missing_stream_has_no_latest_snapshot(namespace: Namespace) -> None:
    """002 §2.3: 404 Not Found when no snapshot exists."""
    assert namespace.stream("missing").latest().status == 404


def test_a_stream_created_anew_has_no_snapshot_of_its_predecessor(stream: Stream) -> None:
    """002 §2.3: 404 Not Found when no snapshot exists."""
    offset = stream.published(stream.append(b"one"))
    stream.delete()
    stream.create()
    assert (stream.latest().status, stream.snapshot(offset).status) == (404, 404)
    assert stream.read(offset="-1").status == 200


# On HEAD (§2.4)


def test_head_names_the_latest_snapshot(stream: Stream) -> None:
    """002 §2.4: servers SHOULD include Stream-Snapshot-Offset when a latest visible snapshot exists."""
    offset = stream.published(stream.append(b"one"))
    stream.append(b"two")
    assert stream.head().headers["stream-snapshot-offset"] == offset


def test_head_names_no_snapshot_where_there_is_none(stream: Stream) -> None:
    """002 §2.4: absence of Stream-Snapshot-Offset means the stream has no visible snapshot."""
    stream.append(b"one")
    assert "stream-snapshot-offset" not in stream.head().headers


def test_head_names_the_snapshot_to_which_the_latest_resolves(stream: Stream) -> None:
    """002 §2.4: the value MUST refer to the same snapshot that GET {stream_url}/snapshot would resolve to."""
    for message in (b"one", b"two", b"three"):
        stream.published(stream.append(message))
        named = stream.head().headers["stream-snapshot-offset"]
        assert location(stream, stream.latest()) == stream.resource(f"snapshot/{named}")


# Reading (§2.5)


@pytest.mark.parametrize("blob", [b"", b"text", BINARY], ids=["empty", "text", "binary"])
def test_reading_a_snapshot_is_200(stream: Stream, blob: bytes) -> None:
    """002 §2.5: 200 OK: the snapshot blob at the specified offset."""
    answer = stream.snapshot(stream.published(stream.append(b"one"), blob))
    assert (answer.status, answer.body) == (200, blob)


def test_a_snapshot_has_its_offset_and_the_next_one_in_its_headers(stream: Stream) -> None:
    """002 §2.5: Content-Type, Stream-Snapshot-Offset, Stream-Next-Offset."""
    offset = stream.published(stream.append(b"one"), content_type="text/csv")
    stream.append(b"two")
    headers = stream.snapshot(offset).headers
    assert (headers["content-type"], headers["stream-snapshot-offset"]) == ("text/csv", offset)
    assert stream.read(offset=headers["stream-next-offset"]).body == b"two"


def test_a_snapshot_at_the_tail_is_up_to_date(stream: Stream) -> None:
    """002 §2.5: Stream-Up-To-Date: whether the stream has updates beyond the snapshot."""
    offset = stream.published(stream.append(b"one"))
    assert stream.snapshot(offset).up_to_date
    stream.append(b"two")
    assert not stream.snapshot(offset).up_to_date


def test_a_snapshot_that_was_never_published_is_404(stream: Stream) -> None:
    """002 §2.5: 404 Not Found: snapshot does not exist."""
    older = stream.append(b"one")
    stream.published(stream.append(b"two"))
    later = stream.append(b"three")
    assert [stream.snapshot(offset).status for offset in (older, later)] == [404, 404]


def test_a_snapshot_of_a_missing_stream_is_404(namespace: Namespace, stream: Stream) -> None:
    """002 §2.5: 404 Not Found: snapshot does not exist."""
    assert namespace.stream("missing").snapshot(stream.tail).status == 404


# Deleting (§2.6)


def test_deleting_a_snapshot_that_does_not_exist_is_404(stream: Stream) -> None:
    """002 §2.6: 404 Not Found: snapshot does not exist."""
    offset = stream.append(b"one")
    assert stream.delete_snapshot(offset).status == 404
    stream.published(offset)
    assert stream.delete_snapshot(beyond(offset, 100)).status == 404


def test_deleting_a_superseded_snapshot_is_404(stream: Stream) -> None:
    """002 §2.6: 404 Not Found: snapshot has been superseded."""
    older = stream.published(stream.append(b"one"))
    stream.published(stream.append(b"two"), b"both")
    assert stream.delete_snapshot(older).status == 404
    assert stream.client.get(location(stream, stream.latest())).body == b"both"


def test_deleting_the_latest_snapshot_is_409(stream: Stream) -> None:
    """002 §2.6: 409 Conflict: /bootstrap would become incomplete."""
    offset = stream.published(stream.append(b"one"), b"folded")
    assert stream.delete_snapshot(offset).status == 409
    assert stream.snapshot(offset).body == b"folded"
    assert stream.bootstrap().headers["stream-snapshot-offset"] == offset
