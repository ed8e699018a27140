"""Tables of streams on a real server."""

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from everbrook.client._async import parts
from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from everbrook.client.errors import Unsupported
from everbrook.protocol.errors import OffsetGone, StreamNotFound

pytestmark = pytest.mark.anyio

_numbers = count()


@pytest.fixture
async def stream(client: AsyncClient) -> AsyncStream[Any]:
    created = client.stream(f"table-{next(_numbers)}")
    await created.create()
    return created


@pytest.fixture
async def plain(server: str) -> AsyncIterator[AsyncClient]:
    """A client that is told of no extension, as by a server that has none."""

    async def forget(response: httpx2.Response) -> None:
        response.headers.pop("Stream-Extensions", None)

    async with (
        httpx2.AsyncClient(event_hooks={"response": [forget]}) as http,
        AsyncClient(server, http=http) as connected,
    ):
        yield connected


async def test_messages_become_rows_with_their_offset_and_their_time(stream: AsyncStream[Any]) -> None:
    before = datetime.now(UTC)
    second = await stream.append({"n": 1})
    await stream.append({"n": 2, "s": "é"})
    rows = (await stream.table()).arrow().to_pylist()
    assert [(row["_offset"], row["n"], row["s"]) for row in rows] == [(f"{0:016d}", 1, None), (second, 2, "é")]
    assert abs((rows[0]["_time"] - before).total_seconds()) < 10


async def test_an_offset_of_a_row_can_be_read_from(stream: AsyncStream[Any]) -> None:
    await stream.extend([{"n": number} for number in range(10)])
    offsets = (await stream.table()).arrow().column("_offset").to_pylist()
    assert await stream.read(offsets[7]).all() == [{"n": 7}, {"n": 8}, {"n": 9}]


async def test_a_range_is_exact(stream: AsyncStream[Any]) -> None:
    first = await stream.append({"n": 1})
    second = await stream.append({"n": 2})
    await stream.append({"n": 3})
    assert (await stream.table(first, until=second)).arrow().column("n").to_pylist() == [2]


async def test_it_ends_where_the_stream_ended_when_it_was_made(stream: AsyncStream[Any]) -> None:
    await stream.append({"n": 1})
    table = await stream.table(raw=True)
    await stream.append({"n": 2})
    assert table.arrow().column("value").to_pylist() == ['{"n":1}']
    assert table.arrow().num_rows == 1


async def test_many_pages_are_one_table_of_the_types_that_all_need(stream: AsyncStream[Any]) -> None:
    await stream.extend([{"n": number, "text": "x" * 1000} for number in range(5000)])
    await stream.append({"n": 0.5})
    table = await stream.table()
    assert len(list(table.batches())) > 2
    assert table.schema.field("n").type == pa.float64()
    assert table.arrow().column("n").to_pylist() == [*range(5000), 0.5]


async def test_a_table_of_a_stream_that_was_cut_begins_with_what_is_left(
    stream: AsyncStream[Any], plain: AsyncClient
) -> None:
    cut = await stream.extend([{"n": 1}, {"n": 2}])
    await stream.append({"n": 3})
    await stream.publish(b"{}", offset=cut)
    assert (await stream.table()).arrow().column("n").to_pylist() == [3]
    assert (await plain.stream(stream.name).table()).arrow().column("n").to_pylist() == [3]


async def test_a_table_from_an_offset_that_was_dropped_says_where_the_stream_begins(stream: AsyncStream[Any]) -> None:
    first = await stream.append({"n": 1})
    cut = await stream.append({"n": 2})
    await stream.publish(b"{}", offset=cut)
    with pytest.raises(OffsetGone, match=f"messages before {cut} are no longer retained"):
        (await stream.table(first)).arrow()


async def test_an_empty_stream_is_an_empty_table(stream: AsyncStream[Any]) -> None:
    assert (await stream.table()).arrow().num_rows == 0
    assert (await stream.table(columns={"n": "int64"})).schema.names == ["_offset", "_time", "n"]


async def test_bytes_and_text_are_rows_too(client: AsyncClient) -> None:
    for content_type, messages in (("application/octet-stream", [b"\xff", b""]), ("text/plain", ["é", "x"])):
        stream = client.stream(f"table-{next(_numbers)}")
        await stream.create(content_type=content_type)
        for message in filter(None, messages):
            await stream.append(message)
        table = (await stream.table()).arrow()
        assert table.column("value").to_pylist() == [message for message in messages if message]
        assert table.column("next_offset").to_pylist()[-1] == (await stream.head()).offset


async def test_a_server_without_frames_gives_the_messages_without_their_offsets(
    stream: AsyncStream[Any], plain: AsyncClient
) -> None:
    await stream.extend([{"n": 1}, {"n": "two"}])
    table = (await plain.stream(stream.name).table()).arrow()
    assert table.column("n").to_pylist() == ["1", "two"]
    assert table.column("_offset").to_pylist() == ["-1", None]
    assert table.column("_time").null_count == 2


async def test_a_server_without_frames_has_no_ranges(stream: AsyncStream[Any], plain: AsyncClient) -> None:
    offset = await stream.append({"n": 1})
    with pytest.raises(Unsupported, match="until"):
        await plain.stream(stream.name).table(until=offset)


async def test_a_stream_that_is_not_there_has_no_table(client: AsyncClient) -> None:
    with pytest.raises(StreamNotFound):
        await client.stream("nowhere").table()


async def test_without_pyarrow_it_says_what_to_install(
    stream: AsyncStream[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "everbrook.client.tables.forms", raising=False)
    monkeypatch.delattr(parts, "form_of")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'everbrook\[frames\]'"):
        await stream.table()
