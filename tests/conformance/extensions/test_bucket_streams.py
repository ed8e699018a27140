"""The base protocol's operations on streams in buckets (002 §1.6). Their details are the base protocol's own matter."""

import json

from tests.conformance.extensions.client import query
from tests.conformance.extensions.streams import Namespace

REQUESTS = [
    ("PUT", ""),
    ("POST", ""),
    ("GET", ""),
    ("GET", "?offset=now&live=long-poll"),
    ("GET", "?offset=-1&live=sse"),
    ("HEAD", ""),
    ("DELETE", ""),
    ("GET", "/snapshot"),
    ("GET", "/snapshot/0000000000000000"),
    ("PUT", "/snapshot/0000000000000000"),
    ("DELETE", "/snapshot/0000000000000000"),
    ("GET", "/bootstrap"),
]


def ask(namespace: Namespace, method: str, rest: str) -> int:
    """Give the status that an operation on a stream of this namespace gets."""
    body = b"x" if method in {"PUT", "POST"} else None
    headers = {"content_type": "text/plain"} if body else {}
    return namespace.client.request(method, namespace.stream("s").path + rest, body, **headers).status


def test_without_its_bucket_every_operation_is_404(missing: Namespace) -> None:
    """002 §1.6: when the bucket does not exist, the server MUST return 404 Not Found."""
    assert {request: ask(missing, *request) for request in REQUESTS} == dict.fromkeys(REQUESTS, 404)


def test_a_deleted_bucket_is_missing(bucket: Namespace) -> None:
    """002 §1.6: when the bucket does not exist, the server MUST return 404 Not Found."""
    bucket.stream("s").create().delete()
    assert bucket.client.request("DELETE", bucket.path).status == 204
    assert {request: ask(bucket, *request) for request in REQUESTS} == dict.fromkeys(REQUESTS, 404)


def test_a_stream_is_created_once(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (create)."""
    stream = bucket.stream("s")
    created = stream.put(content_type="text/plain")
    assert (created.status, created.headers["content-type"]) == (201, "text/plain")
    assert bucket.client.locate(created, stream.path) == stream.path
    assert stream.put(content_type="text/plain").status == 200
    assert stream.put(content_type="text/csv").status == 409


def test_what_is_appended_is_read(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (append, read)."""
    stream = bucket.stream("s").create()
    middle = stream.append(b"one")
    end = stream.append(b"two")
    page = stream.read(offset=middle)
    assert (page.status, page.body, page.next_offset, page.up_to_date) == (200, b"two", end, True)
    assert stream.read().body == b"onetwo"


def test_json_messages_are_read_as_an_array(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (JSON mode)."""
    stream = bucket.fresh("application/json", b'{"n": 1}', b'[2,"3"]')
    assert stream.read(offset="-1").json == [{"n": 1}, 2, "3"]


def test_a_reader_at_the_tail_gets_what_comes(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (long-poll)."""
    stream = bucket.stream("s").create()
    waiting = bucket.client.upload("GET", query(stream.path, offset=stream.tail, live="long-poll"), 0)
    end = stream.append(b"news")
    answer = waiting.answer()
    assert (answer.status, answer.body, answer.next_offset) == (200, b"news", end)


def test_a_follower_gets_what_is_there_and_what_comes(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (SSE)."""
    stream = bucket.fresh("text/plain", b"old")
    head, events = bucket.client.follow(query(stream.path, offset="-1", live="sse"))
    assert (head.status, head.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    assert next(event.data for event in events if event.type == "data") == "old"
    end = stream.append(b"new")
    assert next(event.data for event in events if event.type == "data") == "new"
    assert json.loads(next(events).data)["streamNextOffset"] == end


def test_a_closed_stream_says_so_and_takes_no_more(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (close)."""
    stream = bucket.fresh("text/plain", b"last words")
    stream.close()
    assert stream.head().headers["stream-closed"] == "true"
    assert stream.post(b"more").status == 409


def test_a_deleted_stream_is_gone_and_can_be_created_anew(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (delete)."""
    stream = bucket.fresh("text/plain", b"old")
    assert stream.delete().status == 204
    assert stream.head().status == 404
    stream.create()
    assert stream.read(offset="-1").body == b""


def test_a_producer_appends_once(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (idempotent producers)."""
    stream = bucket.stream("s").create()
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    assert (stream.post(b"x", **claim).status, stream.post(b"x", **claim).status) == (200, 204)
    assert stream.read(offset="-1").body == b"x"


def test_the_same_id_in_two_buckets_is_two_streams(bucket: Namespace, missing: Namespace) -> None:
    """002 §1: the stream URL takes the form {base_url}/ds/{bucket_id}/{stream_id}."""
    bucket.stream("s").create("text/plain", b"here")
    missing.make().stream("s").create("text/plain", b"there")
    assert bucket.stream("s").read().body == b"here"
    assert missing.stream("s").read().body == b"there"


def test_an_operation_on_a_stream_that_its_bucket_does_not_have_is_404(bucket: Namespace) -> None:
    """002 §1.6: all stream operations defined in the base protocol apply (a missing stream)."""
    missing = bucket.stream("s")
    answers = [missing.read(), missing.head(), missing.post(b"x"), missing.delete()]
    assert [answer.status for answer in answers] == [404] * 4
