# Written by tools/mirror.py from tests/client/async_/cases/test_reading.py: change that file, not this one.
"""Reads of what is there (§5.6): the same bytes for the same offset, however often, and offsets that can be kept."""

import pytest

from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import StreamRewound
from everbrook.protocol.errors import InvalidOffset, StreamNotFound
from tests.kit.faults.writer import Writer

PIECES = [b"first ", b"second ", b"third"]


def test_an_empty_stream_has_nothing_and_is_up_to_date(writer: Writer, stream: Stream[object]) -> None:
    writer.create()
    reader = stream.read()
    assert reader.all() == []
    assert (reader.up_to_date, reader.closed, reader.offset) == (True, False, writer.tail)


def test_everything_is_read_from_the_beginning(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", *PIECES)
    assert stream.read().text() == "first second third"
    assert stream.read("-1").text() == "first second third"


def test_a_read_begins_at_an_offset(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", PIECES[0])
    offset = writer.tail
    writer.append(*PIECES[1:])
    assert stream.read(offset).text() == "second third"


def test_a_read_from_the_end_is_empty(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", *PIECES)
    for offset in (writer.tail, "now", stream.head().offset):
        reader = stream.read(offset)
        assert reader.all() == []
        assert (reader.up_to_date, reader.offset) == (True, writer.tail)


def test_an_offset_is_gone_on_from(writer: Writer, client: Client, stream: Stream[object]) -> None:
    """It may be kept over runs of the program."""
    writer.create("text/plain", PIECES[0])
    reader = stream.read()
    reader.all()
    writer.append(*PIECES[1:])
    with Client(client.url) as another:
        assert another.stream(writer.name).read(reader.offset).text() == "second third"


def test_each_offset_is_exact(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/octet-stream")
    contents = [bytes(range(size)) for size in (1, 7, 200)]
    offsets = ["-1"]
    for content in contents:
        writer.append(content)
        offsets.append(writer.tail)
    for number, offset in enumerate(offsets):
        assert stream.read(offset).bytes() == b"".join(contents[number:])
    assert offsets[1:] == sorted(offsets[1:])


def test_what_was_read_once_is_read_again(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json", b"[1,2]")
    offset = writer.tail
    first = list(stream.read().pages())
    writer.append(b"[3]")
    assert stream.read(until=offset).all() == [1, 2]
    for _ in range(3):
        assert stream.read().all() == [1, 2, 3]
        assert stream.read(offset).all() == [3]
    assert first[0].values == [1, 2]


def test_pages_say_where_they_are(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", *PIECES)
    (page,) = list(stream.read().pages())
    assert (page.data, page.text, page.next_offset) == (b"first second third", "first second third", writer.tail)
    assert (page.up_to_date, page.closed, page.content_type) == (True, False, "text/plain")


@pytest.mark.parametrize(
    "content_type, written, read",
    [
        ("application/json", '[{"a": 1}, "ü", null]'.encode(), [{"a": 1}, "ü", None]),
        ("text/plain", "Grüße 世界 🌍".encode(), ["Grüße 世界 🌍"]),
        ("application/octet-stream", bytes(range(256)), [bytes(range(256))]),
        ("application/x-ndjson", b'{"a": 1}\n', ['{"a": 1}\n']),
    ],
)
def test_values_are_of_the_kind_of_the_stream(
    writer: Writer, stream: Stream[object], content_type: str, written: bytes, read: list[object]
) -> None:
    writer.create(content_type, written)
    assert stream.read().all() == read


def test_many_messages_keep_their_order(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json")
    for start in range(0, 1000, 100):
        writer.append(str(list(range(start, start + 100))).encode())
    assert stream.read().all() == list(range(1000))


def test_a_read_may_begin_near_the_end(writer: Writer, stream: Stream[object]) -> None:
    writer.create("application/json", b"[1,2,3,4,5]")
    assert stream.read(last=2).all() == [4, 5]
    assert stream.read(skip=3).all() == [4, 5]


@pytest.mark.parametrize("offset", ["-1", "now"])
def test_a_stream_that_is_not_there_is_named(writer: Writer, stream: Stream[object], offset: str) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        stream.read(offset).all()


@pytest.mark.parametrize("offset", ["not-an-offset", "ffffffffffffffff", "1,2", "../x", " "])
def test_an_offset_that_is_none_is_refused(writer: Writer, stream: Stream[object], offset: str) -> None:
    writer.create("text/plain", b"data")
    with pytest.raises(InvalidOffset, match=r"[Oo]ffset"):
        stream.read(offset).all()


def test_an_offset_beyond_the_end_is_refused_with_a_clear_word(writer: Writer, stream: Stream[object]) -> None:
    writer.create("text/plain", b"small")
    with pytest.raises(StreamRewound, match=r"ends at offset 0{15}5, before 9{16}"):
        stream.read("9999999999999999").all()
