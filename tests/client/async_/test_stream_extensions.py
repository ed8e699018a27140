"""What our servers know beyond the base protocol, through the client: bounds, times, frames, forks, lifetimes."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.concurrency import sleep
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import InvalidAnswer, StreamRewound
from everbrook.protocol.errors import BadRequest, StreamExists, TailMoved

pytestmark = pytest.mark.anyio

_numbers = count()


class Order(msgspec.Struct):
    id: int


class OrderModel(BaseModel):
    id: int


def named(client: AsyncClient, **how: str) -> AsyncStream[object]:
    return client.stream(f"extensions-{next(_numbers)}", **how)


async def filled(client: AsyncClient, values: int = 5) -> tuple[AsyncStream[object], list[str]]:
    """A JSON stream of numbers, and the offsets behind them."""
    stream = named(client)
    await stream.create()
    return stream, [await stream.append(value) for value in range(values)]


async def test_a_long_stream_is_read_a_megabyte_at_a_time(client: AsyncClient) -> None:
    """The server would give all of it at once, which the client would then hold."""
    stream = named(client)
    await stream.create()
    for _ in range(3):
        await stream.extend(["x" * 100_000] * 10)
    sizes = [len(page.data) async for page in stream.read().pages()]
    assert max(sizes) <= 1024 * 1024 + 2
    assert sum(sizes) > 3_000_000


async def test_a_range_is_read_exactly(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    assert await stream.read(offsets[0], until=offsets[3]).all() == [1, 2, 3]


async def test_a_range_of_nothing_is_empty(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    assert await stream.read(offsets[1], until=offsets[1]).all() == []


async def test_the_last_messages_are_read(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    assert await stream.read(last=2).all() == [3, 4]
    assert await stream.read(last=3, skip=1).all() == [3, 4]


async def test_messages_are_skipped(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    assert await stream.read(offsets[0], skip=2).all() == [3, 4]


async def test_what_came_since_a_time_is_read(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    assert await stream.read(at=datetime.now(UTC) - timedelta(hours=1)).all() == [0, 1, 2, 3, 4]
    assert await stream.read(at=datetime.now(UTC) + timedelta(hours=1)).all() == []
    assert await stream.read(at=0).all() == [0, 1, 2, 3, 4]


async def test_the_last_messages_come_before_what_is_followed(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    await stream.append(5, close=True)
    assert await stream.follow(last=2).all() == [4, 5]


async def test_the_offset_of_each_value_is_known_within_what_is_read_from_the_end(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    reader = stream.read(last=2)
    assert [reader.offset async for _ in reader] == offsets[3:]


async def test_an_append_happens_only_at_the_expected_tail(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    assert await stream.append(5, if_match=offsets[4]) > offsets[4]
    with pytest.raises(TailMoved):
        await stream.append(6, if_match=offsets[4])


async def test_frames_say_when_and_where_each_message_is(client: AsyncClient) -> None:
    stream = named(client)
    await stream.create(content_type="text/plain")
    offsets = [int(await stream.append(text)) for text in ("a", "bcd")]
    (page,) = [page async for page in stream.frames()]
    assert [frame.payload for frame in page] == [b"a", b"bcd"]
    assert list(page.ends) == offsets


async def test_frames_end_where_they_are_told_to(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    pages = [page async for page in stream.frames(offsets[0], until=offsets[2])]
    assert [frame.payload for page in pages for frame in page] == [b"1", b"2"]


async def test_frames_begin_where_a_read_does(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    beginnings: list[dict[str, Any]] = [{"last": 3}, {"offset": offsets[0], "skip": 1}, {"at": 0, "skip": 2}]
    for beginning in beginnings:
        pages = [page async for page in stream.frames(**beginning)]
        assert [frame.payload for page in pages for frame in page] == [b"2", b"3", b"4"], beginning


async def test_frames_are_of_one_incarnation(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    before = (await stream.head()).incarnation
    assert len([page async for page in stream.frames(incarnation=before)]) == 1
    await stream.delete()
    await stream.create(data=[1, 2, 3, 4])
    with pytest.raises(StreamRewound, match=f"had incarnation {before} and has"):
        [page async for page in stream.frames(offsets[0], incarnation=before)]


async def test_a_fork_begins_as_its_source_and_goes_its_own_way(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    fork = await stream.fork(f"{stream.name}-fork", offset=offsets[1])
    await fork.append("mine")
    await stream.append("theirs")
    assert await fork.read().all() == [0, 1, "mine"]


async def test_a_fork_without_an_offset_is_of_everything(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    fork = await stream.fork(f"{stream.name}-fork", closed=True)
    assert await fork.follow().all() == [0, 1, 2, 3, 4]


async def test_a_fork_of_a_name_with_odd_characters_finds_its_source(client: AsyncClient) -> None:
    stream = client.stream(f"extensions-{next(_numbers)}/a b/ü%")
    await stream.create(data=1)
    assert await (await stream.fork(f"{stream.name}-fork")).read().all() == [1]


async def test_a_fork_may_begin_between_the_bytes_of_an_append(client: AsyncClient) -> None:
    stream = named(client)
    await stream.create(content_type="text/plain")
    first = await stream.append("ab")
    await stream.append("cdef")
    fork = await stream.fork(f"{stream.name}-fork", offset=first, sub_offset=2)
    assert await fork.read().text() == "abcd"


async def test_a_lifetime_is_told(client: AsyncClient) -> None:
    stream = named(client)
    await stream.create(ttl_secs=timedelta(hours=1))
    assert (await stream.head()).ttl_secs == 3600


async def test_an_end_is_told(client: AsyncClient) -> None:
    stream, noon = named(client), datetime(2100, 1, 1, 12, tzinfo=UTC)
    await stream.create(expires_at=noon)
    assert (await stream.head()).expires_at == noon


async def test_a_stream_whose_time_is_over_is_gone(client: AsyncClient) -> None:
    stream = named(client)
    await stream.create(expires_at=datetime.now(UTC) + timedelta(seconds=1.5))
    assert await stream.exists()
    await sleep(2)
    assert not await stream.exists()


async def test_two_lifetimes_are_refused(client: AsyncClient) -> None:
    with pytest.raises(BadRequest):
        await named(client).create(ttl_secs=5, expires_at=datetime(2100, 1, 1, tzinfo=UTC))


async def test_a_policy_of_retention_is_told(client: AsyncClient) -> None:
    stream = named(client)
    await stream.create(retention="max-messages=3")
    assert (await stream.head()).retention == "max-messages=3"


async def test_a_stream_that_must_be_new_is_refused_if_it_is_not(client: AsyncClient) -> None:
    stream = named(client)
    assert (await stream.create(exist_ok=False)).created
    assert not (await stream.create()).created
    with pytest.raises(StreamExists, match=stream.name):
        await stream.create(exist_ok=False)


async def test_a_head_names_what_the_server_knows(client: AsyncClient) -> None:
    stream, offsets = await filled(client)
    head = await stream.head()
    assert {"buckets", "frames", "if-match"} <= head.extensions
    assert (head.offset, head.content_type) == (offsets[4], "application/json")


async def test_values_are_of_the_users_type(client: AsyncClient) -> None:
    name = f"extensions-{next(_numbers)}"
    structs, models = client.stream(name, type=Order), client.stream(name, type=OrderModel)
    await structs.create()
    await structs.append(Order(1))
    await models.append(OrderModel(id=2))
    assert await structs.read().all() == [Order(1), Order(2)]
    assert await models.read().all() == [OrderModel(id=1), OrderModel(id=2)]


async def test_values_of_another_type_are_named(client: AsyncClient) -> None:
    stream, _ = await filled(client)
    with pytest.raises(InvalidAnswer, match="Expected `object`, got `int`"):
        await client.stream(stream.name, type=Order).read().all()
