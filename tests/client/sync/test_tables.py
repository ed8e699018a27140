# Written by tools/mirror.py from tests/client/async_/test_tables.py: change that file, not this one.
"""Tables of streams on a real server."""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from everbrook.client._sync import parts
from everbrook.client._sync.client import Client
from everbrook.client._sync.stream import Stream
from everbrook.client.errors import Unsupported
from everbrook.protocol.errors import OffsetGone, StreamNotFound

_numbers = count()


@pytest.fixture
def stream(client: Client) -> Stream[Any]:
    created = client.stream(f"table-{next(_numbers)}")
    created.create()
    return created


@pytest.fixture
def plain(server: str) -> Iterator[Client]:
    """A client that is told of no extension, as by a server that has none."""

    def forget(response: httpx2.Response) -> None:
        response.headers.pop("Stream-Extensions", None)

    with (
        httpx2.Client(event_hooks={"response": [forget]}) as http,
        Client(server, http=http) as connected,
    ):
        yield connected


def test_messages_become_rows_with_their_offset_and_their_time(stream: Stream[Any]) -> None:
    before = datetime.now(UTC)
    second = stream.append({"n": 1})
    stream.append({"n": 2, "s": "é"})
    rows = stream.table().arrow().to_pylist()
    assert [(row["_offset"], row["n"], row["s"]) for row in rows] == [(f"{0:016d}", 1, None), (second, 2, "é")]
    assert abs((rows[0]["_time"] - before).total_seconds()) < 10


def test_an_offset_of_a_row_can_be_read_from(stream: Stream[Any]) -> None:
    stream.extend([{"n": number} for number in range(10)])
    offsets = stream.table().arrow().column("_offset").to_pylist()
    assert stream.read(offsets[7]).all() == [{"n": 7}, {"n": 8}, {"n": 9}]


def test_a_range_is_exact(stream: Stream[Any]) -> None:
    first = stream.append({"n": 1})
    second = stream.append({"n": 2})
    stream.append({"n": 3})
    assert stream.table(first, until=second).arrow().column("n").to_pylist() == [2]


def test_it_ends_where_the_stream_ended_when_it_was_made(stream: Stream[Any]) -> None:
    stream.append({"n": 1})
    table = stream.table(raw=True)
    stream.append({"n": 2})
    assert table.arrow().column("value").to_pylist() == ['{"n":1}']
    assert table.arrow().num_rows == 1


def test_many_pages_are_one_table_of_the_types_that_all_need(stream: Stream[Any]) -> None:
    stream.extend([{"n": number, "text": "x" * 1000} for number in range(5000)])
    stream.append({"n": 0.5})
    table = stream.table()
    assert len(list(table.batches())) > 2
    assert table.schema.field("n").type == pa.float64()
    assert table.arrow().column("n").to_pylist() == [*range(5000), 0.5]


def test_a_table_of_a_stream_that_was_cut_begins_with_what_is_left(stream: Stream[Any], plain: Client) -> None:
    cut = stream.extend([{"n": 1}, {"n": 2}])
    stream.append({"n": 3})
    stream.publish(b"{}", offset=cut)
    assert stream.table().arrow().column("n").to_pylist() == [3]
    assert plain.stream(stream.name).table().arrow().column("n").to_pylist() == [3]


def test_a_table_from_an_offset_that_was_dropped_says_where_the_stream_begins(stream: Stream[Any]) -> None:
    first = stream.append({"n": 1})
    cut = stream.append({"n": 2})
    stream.publish(b"{}", offset=cut)
    with pytest.raises(OffsetGone, match=f"messages before {cut} are no longer retained"):
        stream.table(first).arrow()


def test_an_empty_stream_is_an_empty_table(stream: Stream[Any]) -> None:
    assert stream.table().arrow().num_rows == 0
    assert stream.table(columns={"n": "int64"}).schema.names == ["_offset", "_time", "n"]


def test_bytes_and_text_are_rows_too(client: Client) -> None:
    for content_type, messages in (("application/octet-stream", [b"\xff", b""]), ("text/plain", ["é", "x"])):
        stream = client.stream(f"table-{next(_numbers)}")
        stream.create(content_type=content_type)
        for message in filter(None, messages):
            stream.append(message)
        table = stream.table().arrow()
        assert table.column("value").to_pylist() == [message for message in messages if message]
        assert table.column("next_offset").to_pylist()[-1] == stream.head().offset


def test_a_server_without_frames_gives_the_messages_without_their_offsets(stream: Stream[Any], plain: Client) -> None:
    stream.extend([{"n": 1}, {"n": "two"}])
    table = plain.stream(stream.name).table().arrow()
    assert table.column("n").to_pylist() == ["1", "two"]
    assert table.column("_offset").to_pylist() == ["-1", None]
    assert table.column("_time").null_count == 2


def test_a_server_without_frames_has_no_ranges(stream: Stream[Any], plain: Client) -> None:
    offset = stream.append({"n": 1})
    with pytest.raises(Unsupported, match="until"):
        plain.stream(stream.name).table(until=offset)


def test_a_stream_that_is_not_there_has_no_table(client: Client) -> None:
    with pytest.raises(StreamNotFound):
        client.stream("nowhere").table()


def test_without_pyarrow_it_says_what_to_install(stream: Stream[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "everbrook.client.tables.forms", raising=False)
    monkeypatch.delattr(parts, "form_of")
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'everbrook\[frames\]'"):
        stream.table()
