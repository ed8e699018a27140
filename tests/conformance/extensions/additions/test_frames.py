"""The framed read: each message with its offsets, its time and its bytes, whatever the content type."""

import struct
import time

import pytest

from tests.conformance.extensions.additions.frames import CONTENT_TYPE, Message, parse_frames
from tests.conformance.extensions.streams import Namespace, Stream

pytestmark = pytest.mark.extension("frames")

MESSAGES = {
    "text/plain": [b"one", b"two words", b"\r\n", b"x" * 300],
    "application/octet-stream": [b"\x00", b"\xff\xfe", b"{}", b"\n"],
    "application/json": [b'{"n": 1}', b"2", b'"three, [four]"', b"[[5],6]"],
}


def framed(stream: Stream, **parameters: object) -> list[Message]:
    answer = stream.read(format="frames", **parameters)
    assert (answer.status, answer.headers["content-type"]) == (200, CONTENT_TYPE), answer
    return parse_frames(answer.body)


@pytest.mark.parametrize("content_type", MESSAGES)
def test_frames_are_the_messages_and_their_offsets(namespace: Namespace, content_type: str) -> None:
    """Ours: offset, length, time and payload of each message."""
    stream = namespace.stream("s").create(content_type)
    wrapper = b"[%b]" if content_type == "application/json" else b"%b"
    ends = [int(stream.append(wrapper % message)) for message in MESSAGES[content_type]]
    messages = framed(stream, offset="-1")
    assert [message.payload for message in messages] == MESSAGES[content_type]
    assert [message.end for message in messages] == ends
    assert [message.start for message in messages] == [0, *ends[:-1]]


@pytest.mark.parametrize("content_type, trailer", [("text/plain", 0), ("application/json", 1)])
def test_the_head_of_a_page_is_as_documented(namespace: Namespace, content_type: str, trailer: int) -> None:
    """Ours: magic, version, trailer, count, first."""
    stream = namespace.fresh(content_type, b"1", b"22")
    page = stream.read(offset="-1", format="frames").body
    assert struct.unpack_from("<4sBBHIIQ", page) == (b"EBF1", 1, trailer, 0, 2, 0, 0)
    assert page[24 + 2 * 16 :] == (b"1,22," if trailer else b"122")


def test_times_are_those_of_the_appends(stream: Stream) -> None:
    """Ours: milliseconds since the epoch."""
    before = time.time_ns() // 1_000_000
    stream.append(b"one", b"two")
    times = [message.time_ms for message in framed(stream)]
    assert before - 60_000 <= times[0] <= times[1] <= before + 60_000


def test_messages_of_one_append_have_its_time(namespace: Namespace) -> None:
    """Ours: the time of each append."""
    messages = framed(namespace.fresh("application/json", b"[1,2,3]"))
    assert [message.payload for message in messages] == [b"1", b"2", b"3"]
    assert len({message.time_ms for message in messages}) == 1


def test_a_page_of_frames_begins_where_it_is_asked_to(stream: Stream) -> None:
    """Ours: first is the offset of the first message."""
    middle = stream.append(b"one")
    end = stream.append(b"two")
    answer = stream.read(offset=middle, format="frames")
    assert (answer.next_offset, answer.up_to_date) == (end, True)
    assert [(message.start, message.payload) for message in parse_frames(answer.body)] == [(3, b"two")]


def test_a_page_without_messages_has_no_frames(stream: Stream) -> None:
    """Ours: count is zero at the tail."""
    stream.append(b"one")
    assert framed(stream, offset=stream.tail) == framed(stream, offset="now") == []


def test_frames_go_with_bounded_reads(namespace: Namespace) -> None:
    """Ours: with until, last and skip."""
    stream = namespace.stream("s").create("application/json")
    offsets = [stream.append(b"%d" % number) for number in range(5)]
    assert [message.payload for message in framed(stream, offset=offsets[0], until=offsets[2])] == [b"1", b"2"]
    assert [message.payload for message in framed(stream, last=2)] == [b"3", b"4"]
    assert [message.payload for message in framed(stream, offset="-1", skip=3)] == [b"3", b"4"]


def test_frames_come_in_pages(stream: Stream) -> None:
    """Ours: one page as columns."""
    messages = [b"%d:" % number + b"x" * 300_000 for number in range(5)]
    stream.append(*messages)
    found, offset = list[Message](), "-1"
    while True:
        answer = stream.read(offset=offset, format="frames")
        found += parse_frames(answer.body)
        if answer.up_to_date:
            break
        assert found[-1].end == int(answer.next_offset)
        offset = answer.next_offset
    assert [message.payload for message in found] == messages


def test_what_is_gone_is_gone_in_frames_too(stream: Stream) -> None:
    """Ours: any read mode with an offset below the earliest is 410."""
    offset = stream.published(stream.append(b"one"))
    stream.append(b"two")
    assert stream.read(offset="-1", format="frames").status == 410
    assert [(message.start, message.payload) for message in framed(stream, offset=offset)] == [(3, b"two")]


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_live_frames_are_400(stream: Stream, live: str) -> None:
    """Ours: not with live."""
    assert stream.read(offset="-1", format="frames", live=live).status == 400


@pytest.mark.parametrize("value", ["json", "", "Frames", "frames2"])
def test_other_formats_are_400(stream: Stream, value: str) -> None:
    """Ours: other format values 400."""
    assert stream.read(offset="-1", format=value).status == 400
