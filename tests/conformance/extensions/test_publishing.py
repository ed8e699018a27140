"""Publishing a snapshot (002 §2.2)."""

import pytest

from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.servers import Server
from tests.conformance.extensions.streams import Namespace, Stream, beyond


@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=utf-8", "image/png", "X-a/b.c+d"])
def test_a_snapshot_keeps_its_content_type(stream: Stream, content_type: str) -> None:
    """002 §2.2: servers MUST store this value and return it on subsequent reads."""
    offset = stream.published(stream.append(b"one"), b"{}", content_type=content_type)
    for _ in range(2):
        assert stream.snapshot(offset).headers["content-type"] == content_type


def test_a_snapshot_has_a_content_type_of_its_own(namespace: Namespace) -> None:
    """002 §2.2: the content type of the snapshot blob."""
    stream = namespace.fresh("application/json", b"1")
    offset = stream.published(stream.tail, b"not json", content_type="text/plain")
    assert stream.snapshot(offset).body == b"not json"
    assert stream.head().headers["content-type"] == "application/json"


def test_a_snapshot_without_a_content_type_is_bytes(stream: Stream) -> None:
    """002 §2.2: defaults to application/octet-stream."""
    offset = stream.published(stream.append(b"one"))
    assert stream.snapshot(offset).headers["content-type"] == "application/octet-stream"


# Response codes


def test_publishing_is_204(stream: Stream) -> None:
    """002 §2.2: 204 No Content."""
    answer = stream.publish(stream.append(b"one"))
    assert (answer.status, answer.body) == (204, b"")


def test_a_snapshot_may_be_empty(stream: Stream) -> None:
    """002 §2.2: 204 No Content."""
    offset = stream.published(stream.append(b"one"), b"")
    assert stream.snapshot(offset).body == b""


def test_a_snapshot_may_lie_anywhere_between_messages(namespace: Namespace) -> None:
    """002 §2.2: 204 No Content."""
    stream = namespace.fresh("application/json", b"[1,22,333]")
    middle = beyond(stream.tail, -len("333,"))
    assert [stream.publish(middle).status, stream.publish(stream.tail).status] == [204, 204]


def test_publishing_at_something_that_is_no_offset_is_400(stream: Stream) -> None:
    """002 §2.2: 400 Bad Request: snapshot_offset is invalid."""
    stream.append(b"one")
    invalid = ["abc", "1.5", "0x10", "%20", "-2", "+1", "1,2", "%F0%9F%8C%8A"]
    assert {offset: stream.publish(offset).status for offset in invalid} == dict.fromkeys(invalid, 400)


@pytest.mark.parametrize("content_type, message", [("text/plain", b"words"), ("application/json", b'{"a":1}')])
def test_publishing_inside_a_message_is_400(namespace: Namespace, content_type: str, message: bytes) -> None:
    """002 §2.2: 400 Bad Request: not aligned to a committed message boundary."""
    stream = namespace.fresh(content_type, message)
    assert stream.publish(beyond(stream.tail, -2)).status == 400
    assert stream.latest().status == 404


def test_publishing_for_a_missing_stream_is_404(namespace: Namespace) -> None:
    """002 §2.2: 404 Not Found."""
    offset = namespace.fresh("text/plain", b"one").tail
    assert namespace.stream("missing").publish(offset).status == 404


def test_publishing_beyond_the_tail_is_409(stream: Stream) -> None:
    """002 §2.2: 409 Conflict: snapshot_offset exceeds the current tail."""
    stream.append(b"one")
    assert stream.publish(beyond(stream.tail)).status == 409
    assert stream.latest().status == 404


def test_publishing_below_the_earliest_offset_is_410(stream: Stream) -> None:
    """002 §2.2: 410 Gone: snapshot_offset is older than the current earliest retained offset."""
    older = stream.append(b"one")
    stream.published(stream.append(b"two"), b"both")
    assert stream.publish(older).status == 410
    assert stream.client.get(stream.client.locate(stream.latest(), stream.path)).body == b"both"


def test_a_snapshot_above_the_limit_is_413(server: Server, stream: Stream) -> None:
    """002 §2.2: 413 Payload Too Large."""
    if server.max_snapshot_bytes is None:
        pytest.skip("--max-snapshot-bytes does not say what is too large")
    offset = stream.append(b"one")
    assert stream.publish(offset, b"x" * (server.max_snapshot_bytes + 1)).status == 413
    assert stream.latest().status == 404
    assert stream.publish(offset, b"x" * server.max_snapshot_bytes).status == 204


# Replacing


def test_a_new_snapshot_replaces_the_visible_one_at_once(stream: Stream) -> None:
    """002 §2.2: publishing a new snapshot replaces the previously visible snapshot immediately."""
    stream.published(stream.append(b"one"), b"first")
    second = stream.published(stream.append(b"two"), b"second")
    assert stream.head().headers["stream-snapshot-offset"] == second
    assert stream.client.locate(stream.latest(), stream.path).endswith(f"/snapshot/{second}")
    answer = stream.bootstrap()
    assert [part.body for part in parse_bootstrap(answer.headers["content-type"], answer.body)] == [b"second"]


def test_a_snapshot_at_the_same_offset_replaces_the_visible_one(stream: Stream) -> None:
    """002 §2.2: publishing a new snapshot replaces the previously visible snapshot immediately."""
    offset = stream.published(stream.append(b"one"), b"first", content_type="text/plain")
    stream.published(offset, b"second", content_type="text/csv")
    answer = stream.snapshot(offset)
    assert (answer.body, answer.headers["content-type"]) == (b"second", "text/csv")


# Concurrency


def test_appends_go_on_while_a_snapshot_is_on_its_way(stream: Stream) -> None:
    """002 §2.2: snapshot creation MUST NOT block concurrent appends."""
    offset = stream.append(b"one")
    upload = stream.client.upload("PUT", stream.resource(f"snapshot/{offset}"), 6)
    upload.send(b"fol")
    assert stream.append(b"two") > offset
    assert stream.read(offset="-1").body == b"onetwo"
    upload.send(b"ded")
    assert upload.answer().status == 204
    assert stream.snapshot(offset).body == b"folded"


def test_later_messages_are_not_folded_into_a_snapshot(stream: Stream) -> None:
    """002 §2.2: updates at or beyond that offset MUST NOT be folded into the snapshot."""
    offset = stream.append(b"one")
    stream.append(b"two", b"three")
    stream.published(offset, b"one, folded")
    stream.append(b"four")
    assert stream.snapshot(offset).body == b"one, folded"
    assert stream.read(offset=offset).body == b"twothreefour"
