"""From the creation of a stream to its deletion: what is asked for is what is there (§5.1, §5.4, §5.5)."""

from datetime import UTC, datetime, timedelta

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.protocol.errors import Conflict, StreamExists, StreamNotFound
from tests.kit.faults.proxy import Proxy
from tests.kit.faults.writer import Writer

pytestmark = pytest.mark.anyio


async def test_a_stream_is_of_json_unless_said_otherwise(stream: AsyncStream[object]) -> None:
    head = await stream.create()
    assert (head.created, head.content_type, head.closed) == (True, "application/json", False)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/octet-stream", "text/plain; charset=utf-8", "image/png"]
)
async def test_a_content_type_is_kept(writer: Writer, stream: AsyncStream[object], content_type: str) -> None:
    await stream.create(content_type=content_type)
    assert writer.send("HEAD").headers["Content-Type"] == content_type
    assert (await stream.head()).content_type == content_type


async def test_creating_twice_is_creating_once(stream: AsyncStream[object]) -> None:
    assert (await stream.create()).created
    assert not (await stream.create()).created


async def test_creating_twice_is_refused_when_asked_for(stream: AsyncStream[object]) -> None:
    await stream.create()
    with pytest.raises(StreamExists, match=stream.name):
        await stream.create(exist_ok=False)


async def test_another_configuration_is_a_conflict(stream: AsyncStream[object]) -> None:
    await stream.create()
    with pytest.raises(Conflict):
        await stream.create(content_type="text/plain")


async def test_a_lifetime_is_kept(stream: AsyncStream[object]) -> None:
    await stream.create(ttl_secs=3600)
    assert (await stream.head()).ttl_secs == 3600


async def test_an_end_is_kept(stream: AsyncStream[object]) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    await stream.create(expires_at=tomorrow)
    assert (await stream.head()).expires_at == tomorrow


async def test_a_stream_may_begin_with_data(writer: Writer, stream: AsyncStream[object]) -> None:
    head = await stream.create(data=[1, 2])
    assert writer.messages() == [[1, 2]]
    assert head.offset == writer.tail


@pytest.mark.parametrize("ttl_secs", [None, 60])
async def test_a_stream_may_be_closed_from_the_start(stream: AsyncStream[object], ttl_secs: int | None) -> None:
    await stream.create(closed=True, ttl_secs=ttl_secs)
    head = await stream.head()
    assert (head.closed, head.ttl_secs) == (True, ttl_secs)


async def test_a_closed_stream_may_have_content_from_the_start(stream: AsyncStream[object]) -> None:
    await stream.create(content_type="text/plain", closed=True, data="all of it")
    reader = stream.read()
    assert await reader.text() == "all of it"
    assert reader.closed


async def test_headers_go_with_every_request(writer: Writer, proxy: Proxy) -> None:
    async with AsyncClient(proxy.origin, headers={"X-Trace": "7"}) as client:
        stream = client.stream(writer.name)
        await stream.create()
        await stream.append(1)
        await stream.head()
        await stream.read().all()
        await stream.delete()
    assert {(request.method, request.headers.get("x-trace")) for request in proxy.requests} == {
        (method, "7") for method in ("PUT", "POST", "HEAD", "GET", "DELETE")
    }


async def test_a_head_tells_the_tail_and_an_etag(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"seven b")
    head = await stream.head()
    assert (head.offset, head.content_type, head.closed) == (writer.tail, "text/plain", False)
    assert head.etag == writer.send("HEAD").headers.get("ETag")


async def test_the_head_of_an_empty_stream_is_its_beginning(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create()
    assert (await stream.head()).offset == writer.tail
    assert await stream.read((await stream.head()).offset).all() == []


async def test_a_stream_that_is_not_there_says_so(writer: Writer, stream: AsyncStream[object]) -> None:
    assert not await stream.exists()
    for asked in (stream.head, stream.delete):
        with pytest.raises(StreamNotFound, match=writer.name):
            await asked()


async def test_a_deleted_stream_is_gone(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"data")
    await stream.delete()
    for asked in (stream.read().all, stream.delete, stream.head):
        with pytest.raises(StreamNotFound):
            await asked()
    with pytest.raises(StreamNotFound, match=writer.name):
        await stream.append("more")


async def test_a_deletion_may_find_nothing(stream: AsyncStream[object]) -> None:
    await stream.delete(missing_ok=True)


async def test_a_stream_made_again_has_nothing_of_the_old_one(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"old")
    await stream.delete()
    await stream.create(content_type="application/json")
    await stream.append("new")
    assert await stream.read().all() == ["new"]


async def test_a_closed_stream_can_be_deleted(writer: Writer, stream: AsyncStream[object]) -> None:
    writer.create("text/plain", b"end").close()
    await stream.delete()
    assert not await stream.exists()


async def test_streams_do_not_mix(client: AsyncClient, writer: Writer) -> None:
    names = [f"{writer.name}/{number}" for number in range(3)]
    for name in names:
        stream = client.stream(name)
        await stream.create()
        await stream.append(name)
    assert [await client.stream(name).read().all() for name in names] == [[name] for name in names]


async def test_a_whole_life(stream: AsyncStream[object]) -> None:
    await stream.create()
    await stream.append({"event": "born"})
    await stream.close({"event": "done"})
    assert await stream.follow().all() == [{"event": "born"}, {"event": "done"}]
    await stream.delete()
    assert not await stream.exists()
