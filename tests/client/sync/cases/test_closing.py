# Written by tools/mirror.py from tests/client/async_/cases/test_closing.py: change that file, not this one.
"""The end of a stream (§4.1, §5.2, §5.3): said once, seen by everybody, and nothing comes after it."""

import pytest

from everbrook.client import Mode
from everbrook.client._sync.stream import Stream
from everbrook.protocol.errors import StreamClosed, StreamNotFound
from tests.kit.faults.writer import Writer

every_mode = pytest.mark.parametrize("mode", ["auto", "sse", "long-poll"])


def test_an_empty_stream_can_be_closed(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    assert stream.close() == writer.tail
    assert stream.head().closed


def test_a_stream_can_be_closed_behind_its_content(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"content")
    assert stream.close() == writer.tail
    assert writer.content() == b"content"
    assert writer.send("HEAD").headers["Stream-Closed"] == "true"


@pytest.mark.parametrize("way", ["close", "append"])
def test_a_stream_can_be_closed_with_a_last_message(writer: Writer, stream: Stream[object], way: str) -> None:
    writer.create("application/json", b"1")
    offset = stream.close(2) if way == "close" else stream.append(2, close=True)
    assert writer.messages() == [1, 2]
    assert offset == writer.tail


def test_closing_twice_is_closing_once(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"x")
    assert stream.close() == stream.close() == writer.tail


def test_nothing_comes_after_the_end(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"x").close()
    with pytest.raises(StreamClosed, match="closed") as refusal:
        stream.append("more")
    assert refusal.value.status == 409
    with pytest.raises(StreamClosed):
        stream.close("more")


def test_a_stream_that_is_not_there_cannot_be_closed(writer: Writer, stream: Stream[object]) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        stream.close()


def test_a_read_tells_whether_it_saw_the_end(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"x")
    reader = stream.read()
    reader.all()
    assert (reader.up_to_date, reader.closed) == (True, False)
    writer.close()
    for offset in ("-1", reader.offset, writer.tail, "now"):
        again = stream.read(offset)
        again.all()
        assert (again.up_to_date, again.closed, again.offset) == (True, True, writer.tail)


def test_the_head_of_a_closed_stream_tells_its_tail(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"x").close()
    head = stream.head()
    assert (head.closed, head.offset) == (True, writer.tail)


@every_mode
def test_a_follower_ends_with_the_stream(writer: Writer, stream: Stream[object], mode: Mode) -> None:
    writer.create("application/json", b"1").later(b"2", close=True)
    reader = stream.follow(mode=mode)
    assert reader.all() == [1, 2]
    assert (reader.closed, reader.offset) == (True, writer.tail)


@every_mode
@pytest.mark.parametrize("at", ["-1", "tail", "now"])
def test_a_follower_of_a_closed_stream_ends_at_once(
    writer: Writer, stream: Stream[object], mode: Mode, at: str
) -> None:
    writer.create("application/json", b"1").close()
    reader = stream.follow(writer.tail if at == "tail" else at, mode=mode)
    pages = list(reader.pages())
    assert [value for page in pages for value in page.values] == ([1] if at == "-1" else [])
    assert pages[-1].closed


def test_a_page_within_a_stream_is_not_its_end(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json", b"1", b"2")
    reader = stream.read()
    for _ in reader:
        break
    assert (reader.closed, reader.up_to_date) == (False, False)
    rest = stream.read(reader.offset)
    assert rest.all() == [2]
    assert (rest.closed, rest.up_to_date) == (False, True)
