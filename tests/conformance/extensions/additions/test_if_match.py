"""Appending only if nobody else has: If-Match on POST."""

import pytest

from tests.conformance.extensions.streams import Namespace, Stream

pytestmark = pytest.mark.extension("if-match")


@pytest.mark.parametrize("written", ['"{}"', "{}", "*"])
def test_an_append_at_the_expected_tail_is_taken(stream: Stream, written: str) -> None:
    """Ours: quotes optional, `*` matches any."""
    tail = stream.append(b"one")
    assert stream.post(b"two", if_match=written.format(tail)).status == 204
    assert stream.read().body == b"onetwo"


def test_an_append_at_a_tail_that_moved_is_412(stream: Stream) -> None:
    """Ours: 412 tail_moved with Stream-Next-Offset when the tail is another."""
    before = stream.append(b"one")
    now = stream.append(b"two")
    answer = stream.post(b"three", if_match=f'"{before}"')
    assert answer.refusal == (412, "tail_moved")
    assert answer.next_offset == now
    assert stream.read().body == b"onetwo"


def test_of_two_who_saw_the_same_tail_one_appends(namespace: Namespace) -> None:
    """Ours: 412 tells the second one."""
    stream = namespace.fresh("application/json", b"1")
    tail = stream.tail
    assert [stream.post(b"2", if_match=tail).status, stream.post(b"3", if_match=tail).status] == [204, 412]
    assert stream.read().json == [1, 2]


def test_a_close_can_be_conditional_too(stream: Stream) -> None:
    """Ours: any POST."""
    before = stream.append(b"one")
    stream.append(b"two")
    answer = stream.client.request("POST", stream.path, stream_closed="true", if_match=before)
    assert answer.status == 412
    assert "stream-closed" not in stream.head().headers


def test_a_duplicate_is_known_before_the_tail_is_looked_at(stream: Stream) -> None:
    """Ours: duplicates of a producer come first."""
    tail = stream.append(b"one")
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0", "if_match": tail}
    assert [stream.post(b"two", **claim).status for _ in range(2)] == [200, 204]
    assert stream.read().body == b"onetwo"


def test_other_refusals_come_first(stream: Stream) -> None:
    """Ours: checked last."""
    before = stream.append(b"one")
    stream.append(b"two")
    assert stream.post(b"x", if_match=before, content_type="text/csv").status == 409
    stream.close()
    assert stream.post(b"x", if_match=before).refusal == (409, "stream_closed")
