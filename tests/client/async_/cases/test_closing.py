"""The end of a stream (§4.1, §5.2, §5.3): said once, seen by everybody, and nothing comes after it."""

import pytest

from everbrook.client import Mode
from everbrook.client._async.stream import AsyncStream
from everbrook.protocol.errors import StreamClosed, StreamNotFound
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

every_mode = pytest.mark.parametrize("mode", ["auto", "sse", "long-poll"])


async def test_an_empty_stream_can_be_closed(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create()
    assert await stream.close() == writer.tail
    assert (await stream.head()).closed


async def test_a_stream_can_be_closed_behind_its_content(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"content")
    assert await stream.close() == writer.tail
    assert writer.content() == b"content"
    assert writer.send("HEAD").headers["Stream-Closed"] == "true"


@pytest.mark.parametrize("way", ["close", "append"])
async def test_a_stream_can_be_closed_with_a_last_message(
    writer: Writer, stream: AsyncStream[object], way: str
) -> None:
    writer.create("application/json", b"1")
    offset = await (stream.close(2) if way == "close" else stream.append(2, close=True))
    assert writer.messages() == [1, 2]
    assert offset == writer.tail


async def test_closing_twice_is_closing_once(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"x")
    assert await stream.close() == await stream.close() == writer.tail


async def test_nothing_comes_after_the_end(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"x").close()
    with pytest.raises(StreamClosed, match="closed") as refusal:
        await stream.append("more")
    assert refusal.value.status == 409
    with pytest.raises(StreamClosed):
        await stream.close("more")


async def test_a_stream_that_is_not_there_cannot_be_closed(writer: Writer, stream: AsyncStream[object]) -> None:
    with pytest.raises(StreamNotFound, match=writer.name):
        await stream.close()


async def test_a_read_tells_whether_it_saw_the_end(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"x")
    reader = stream.read()
    await reader.all()
    assert (reader.up_to_date, reader.closed) == (True, False)
    writer.close()
    for offset in ("-1", reader.offset, writer.tail, "now"):
        again = stream.read(offset)
        await again.all()
        assert (again.up_to_date, again.closed, again.offset) == (True, True, writer.tail)


async def test_the_head_of_a_closed_stream_tells_its_tail(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"x").close()
    head = await stream.head()
    assert (head.closed, head.offset) == (True, writer.tail)


@every_mode
async def test_a_follower_ends_with_the_stream(writer: Writer, stream: AsyncStream[object], mode: Mode) -> None:
    writer.create("application/json", b"1").later(b"2", close=True)
    reader = stream.follow(mode=mode)
    assert await reader.all() == [1, 2]
    assert (reader.closed, reader.offset) == (True, writer.tail)


@every_mode
@pytest.mark.parametrize("at", ["-1", "tail", "now"])
async def test_a_follower_of_a_closed_stream_ends_at_once(
    writer: Writer, stream: AsyncStream[object], mode: Mode, at: str
) -> None:
    writer.create("application/json", b"1").close()
    reader = stream.follow(writer.tail if at == "tail" else at, mode=mode)
    pages = [page async for page in reader.pages()]
    assert [value for page in pages for value in page.values] == ([1] if at == "-1" else [])
    assert pages[-1].closed


async def test_a_page_within_a_stream_is_not_its_end(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json", b"1", b"2")
    reader = stream.read()
    async for _ in reader:
        break
    assert (reader.closed, reader.up_to_date) == (False, False)
    rest = stream.read(reader.offset)
    assert await rest.all() == [2]
    assert (rest.closed, rest.up_to_date) == (False, True)
