"""Appends: what is given is what is stored, in its order (§5.2), and appends at the same time share requests."""

import pytest

from everbrook.client._async.concurrency import spawn
from everbrook.client._async.stream import AsyncStream
from everbrook.protocol.errors import (
    EmptyAppend,
    PayloadTooLarge,
    ProtocolError,
    SequenceRegression,
    StreamNotFound,
    TailMoved,
)
from tests.kit.faults.kinds import Delayed
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio

VALUES: list[object] = [{"a": 1}, [1, [2]], "text", 1.5, None, True, [], {}, "ü\n🌍", 9007199254740993]


@pytest.mark.parametrize("text", ["hello", "Grüße, 世界 🌍", "line\nline\r\n", "\u2028\u0085", " "])
async def test_text_is_stored_as_it_is(writer: Writer, stream: AsyncStream[object], text: str) -> None:
    writer.create()
    offset = await stream.append(text)
    assert writer.content().decode() == text
    assert offset == writer.tail


async def test_bytes_are_stored_as_they_are(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/octet-stream")
    await stream.append(bytes(range(256)))
    assert writer.content() == bytes(range(256))


async def test_each_value_is_a_message(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/json")
    for value in VALUES:
        await stream.append(value)
    assert writer.messages() == VALUES


async def test_many_values_are_as_many_messages(writer: Writer, proxy: Proxy, shaky: AsyncStream[object]) -> None:
    writer.create("application/json")
    offset = await shaky.extend(VALUES)
    assert writer.messages() == VALUES
    assert offset == writer.tail
    assert len(proxy.asked("POST")) == 1


async def test_nothing_is_no_message(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"before")
    with pytest.raises(EmptyAppend):
        await stream.append("")
    assert await stream.extend([]) == writer.tail


async def test_a_large_message_arrives(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/octet-stream")
    await stream.append(b"x" * 1_000_000)
    assert len(await stream.read().bytes()) == 1_000_000


async def test_a_message_that_is_too_large_is_refused(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("application/octet-stream")
    with pytest.raises((PayloadTooLarge, ProtocolError), match="bytes"):
        await stream.append(b"x" * 50_000_000)


async def test_many_large_values_go_in_several_requests(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    await shaky.extend(["x" * 100_000 for _ in range(30)])
    assert len(await shaky.read().all()) == 30
    assert len(proxy.asked("POST")) > 2


async def test_appends_keep_their_order(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create()
    offsets = [await stream.append(f"{number},") for number in range(20)]
    assert writer.content() == b"".join(b"%d," % number for number in range(20))
    assert offsets == sorted(set(offsets))


async def test_a_sequence_orders_writers(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create()
    for seq in ("001", "002", "100", "9007199254740991"):
        await stream.append(seq, seq=seq)
    for seq in ("9007199254740991", "5"):
        with pytest.raises(SequenceRegression):
            await stream.append("late", seq=seq)
    await stream.append("-without")
    assert writer.content() == b"0010021009007199254740991-without"


async def test_an_append_may_depend_on_the_tail(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"one")
    offset = await stream.append("two", if_match=writer.tail)
    writer.append(b"meanwhile")
    with pytest.raises(TailMoved):
        await stream.append("three", if_match=offset)


async def test_appends_to_a_stream_that_is_not_there_are_refused(writer: Writer, stream: AsyncStream[object]) -> None:
    for asked in (stream.append, stream.extend):
        with pytest.raises(StreamNotFound, match=writer.name):
            await asked("1")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_appends_at_the_same_time_all_arrive(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object], content_type: str
) -> None:
    writer.create(content_type)
    proxy.arm(Delayed(0.1), method="POST")
    tasks = [spawn(shaky.append, f"item{number}", name="append") for number in range(10)]
    for task in tasks:
        await task.join()
    content = writer.content().decode()
    assert sorted(content.count(f"item{number}") for number in range(10)) == [1] * 10
    if content_type == "application/json":
        assert len(proxy.asked("POST")) <= 4


async def test_one_that_is_refused_does_not_harm_the_others(
    writer: Writer, proxy: Proxy, shaky: AsyncStream[object]
) -> None:
    writer.create("application/json")
    refused: list[ProtocolError] = []

    async def append(value: object) -> None:
        try:
            await shaky.append(value)
        except ProtocolError as error:
            refused.append(error)

    proxy.arm(Delayed(0.1), method="POST")
    tasks = [spawn(append, value, name="append") for value in (1, 2, b"{broken", 3)]
    for task in tasks:
        await task.join()
    assert sorted(writer.messages()) == [1, 2, 3]
    assert [error.status for error in refused] == [400]


async def test_a_sequence_that_is_refused_does_not_harm_the_others(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create()
    await stream.append("existing ", seq="1")
    await stream.append("new1 ", seq="2")
    with pytest.raises(SequenceRegression):
        await stream.append("conflict ", seq="1")
    await stream.append("new2", seq="3")
    assert writer.content() == b"existing new1 new2"


@pytest.mark.parametrize("value", [1, {"a": 1}, None])
async def test_a_text_stream_takes_no_values(writer: Writer, stream: AsyncStream[object], value: object) -> None:
    writer.create()
    with pytest.raises(TypeError, match="takes str or bytes"):
        await stream.append(value)
