"""Offsets and the boundaries of messages (002 §2.1)."""

import pytest

from tests.conformance.extensions.multipart import parse_bootstrap
from tests.conformance.extensions.streams import Namespace, Stream, beyond

MESSAGES = {
    "text/plain": [b"one", b"\r\n", b"three words here", b"4" * 300],
    "application/json": [b'{"n": 1}', b"2", b'"three"', b"[[4]]"],
}


def boundaries(stream: Stream, messages: list[bytes]) -> list[str]:
    """Append messages, and give the offsets before, between and after them."""
    return [stream.tail, *(stream.append(message) for message in messages)]


@pytest.mark.parametrize("content_type", MESSAGES)
def test_every_offset_after_a_message_is_a_boundary_for_reads_snapshots_and_bootstrap(
    namespace: Namespace, content_type: str
) -> None:
    """002 §2.1: servers MUST use one consistent retained-message boundary model."""
    stream = namespace.stream("s").create(content_type)
    for index, offset in enumerate(boundaries(stream, MESSAGES[content_type])):
        read = stream.read(offset=offset)
        stream.published(offset, b"up to %d" % index)
        answer = stream.bootstrap()
        first, *updates = parse_bootstrap(answer.headers["content-type"], answer.body)
        assert (first.body, len(updates)) == (b"up to %d" % index, len(MESSAGES[content_type]) - index)
        assert (answer.next_offset, stream.read(offset=offset).body) == (read.next_offset, read.body)


def test_offsets_inside_a_message_are_no_boundaries(stream: Stream) -> None:
    """002 §2.1: servers MUST use one consistent retained-message boundary model."""
    start = stream.append(b"one")
    end = stream.append(b"three")
    inside = [beyond(start, by) for by in range(1, int(end) - int(start))]
    assert [stream.publish(offset).status for offset in inside] == [400] * 4
    assert stream.publish(end).status == 204


def test_offsets_sort_as_text_as_they_do_as_numbers(stream: Stream) -> None:
    """002 §2.1: servers MUST maintain consistency between numeric semantics and lexicographic ordering."""
    offsets = [stream.append(b"x" * size) for size in (1, 8, 1, 89, 1, 900)]
    assert offsets == sorted(offsets)
    assert [int(offset) for offset in offsets] == sorted({int(offset) for offset in offsets})
    assert len({len(offset) for offset in offsets}) == 1


def test_the_difference_of_two_offsets_is_the_payload_between_them(stream: Stream) -> None:
    """002 §2.1: clients MAY subtract offsets to compute the payload bytes between two boundaries."""
    before = stream.append(b"one")
    after = stream.append(b"x" * 1000, b"five!")
    assert int(after) - int(before) == 1005


def test_the_reserved_offset_counts_as_zero(stream: Stream) -> None:
    """002 §2.1: the reserved offset -1 is treated as 0 in this arithmetic."""
    assert int(stream.append(b"12345")) == 5
    assert stream.read(offset="-1").body == stream.read(offset=beyond(stream.tail, -5)).body == b"12345"
