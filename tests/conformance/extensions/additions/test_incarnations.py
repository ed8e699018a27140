"""Which of the streams that had a name an answer is about, and a request is meant for: Stream-Incarnation."""

import pytest

from tests.conformance.extensions.client import Answer, query
from tests.conformance.extensions.streams import Namespace, Stream

pytestmark = pytest.mark.extension("incarnation")


def incarnation(answer: Answer) -> str:
    return answer.headers["stream-incarnation"]


def answers(stream: Stream) -> list[Answer]:
    """Answers of every kind about one stream that has data."""
    head, _ = stream.client.follow(query(stream.path, offset="-1", live="sse"))
    tail = stream.tail
    read = stream.read(offset="-1")
    again = stream.client.get(query(stream.path, offset="-1"), if_none_match=read.headers["etag"])
    found = [stream.read(offset="-1", live="long-poll"), stream.read(offset="now"), stream.bootstrap()]
    found += [stream.publish(tail, stream_snapshot_history="keep"), stream.latest(), stream.snapshot(tail)]
    found += [stream.delete_snapshot(tail), stream.publish(tail), stream.retain(tail)]
    found += [stream.client.get(stream.resource("producers"))]
    return [head, read, again, *found, stream.head(), stream.post(b"more")]


def test_every_answer_names_the_same_incarnation(namespace: Namespace) -> None:
    """Ours: Stream-Incarnation on every answer about a stream, and in lists."""
    stream = namespace.stream("one")
    made = stream.put(b"data", content_type="text/plain")
    told = {incarnation(answer) for answer in answers(stream)}
    (entry,) = namespace.listed(prefix=namespace.entry_id("one")).json["streams"]
    assert told == {incarnation(made), entry["incarnation"]}


def test_a_stream_that_is_made_again_is_another(namespace: Namespace) -> None:
    """Ours: after DELETE and PUT the incarnation is new."""
    stream = namespace.stream("again")
    first = incarnation(stream.put(b"one", content_type="text/plain"))
    stream.delete()
    assert incarnation(stream.put(b"two", content_type="text/plain")) != first
    assert incarnation(stream.head()) != first


def test_a_request_for_an_earlier_incarnation_is_412(namespace: Namespace) -> None:
    """Ours: a precondition on reads, appends and deletion; the answer names the incarnation that is there."""
    stream, client = namespace.stream("moved"), namespace.client
    earlier = incarnation(stream.put(b"one", content_type="text/plain"))
    stream.delete()
    now = incarnation(stream.put(b"two", content_type="text/plain"))
    refused = [client.get(query(stream.path, offset="-1", live="sse"), stream_incarnation=earlier)]
    refused += [client.get(stream.path, stream_incarnation=earlier), stream.post(b"x", stream_incarnation=earlier)]
    refused += [client.request("DELETE", stream.path, stream_incarnation=earlier)]
    stream.publish(stream.tail, stream_incarnation=now)
    refused += [stream.publish(stream.tail, stream_incarnation=earlier)]
    refused += [stream.retain(stream.tail, stream_incarnation=earlier)]
    refused += [stream.delete_snapshot(stream.tail, stream_incarnation=earlier)]
    for resource in ("bootstrap", "snapshot", f"snapshot/{stream.tail}", "producers"):
        refused.append(client.get(stream.resource(resource), stream_incarnation=earlier))
    assert {answer.refusal for answer in refused} == {(412, "incarnation_mismatch")}
    assert {incarnation(answer) for answer in refused} == {now}
    assert client.request("HEAD", stream.path, stream_incarnation=earlier).status == 412
    assert stream.bootstrap().status == 200


def test_a_request_for_the_incarnation_that_is_there_is_answered(stream: Stream) -> None:
    """Ours: case does not matter."""
    there = incarnation(stream.head()).upper()
    assert stream.post(b"more", stream_incarnation=there).status == 204
    assert stream.client.get(stream.path, stream_incarnation=there).body == b"more"
    assert stream.client.request("DELETE", stream.path, stream_incarnation=there).status == 204


def test_a_stream_that_is_not_there_is_404_whatever_incarnation_is_asked_for(stream: Stream) -> None:
    """Ours: there is nothing to compare."""
    there = incarnation(stream.head())
    stream.delete()
    assert stream.post(b"more", stream_incarnation=there).status == 404
