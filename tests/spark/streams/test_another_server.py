"""Servers without our extensions: what the base protocol has is enough for streams known by name."""

import pyarrow as pa
import pytest

from everbrook import Client, Unsupported
from everbrook.spark.connection import connect
from everbrook.spark.options import ServerOptions, SinkOptions
from everbrook.spark.streams.appender import Appender, Producer, QuerySuperseded
from tests.spark.readers import Query, read_batch, values


@pytest.fixture
def options(reference: str, prefix: str) -> dict[str, str]:
    with Client(reference) as client:
        client.stream(f"{prefix}a").create()
        client.stream(f"{prefix}a").extend([1, 2, 3])
    return {"url": reference, "stream": f"{prefix}a", "startingOffsets": "earliest"}


def test_a_batch_ends_where_it_was_planned_to(options: dict[str, str]) -> None:
    query = Query(options)
    start, end = query.plan()
    with Client(options["url"]) as client:
        client.stream(options["stream"]).append(4)
    assert values(query.read(start, end)) == ["1", "2", "3"]
    query.checkpoint.append(end)
    assert values(query.batch()) == ["4"]


def test_offsets_are_told_where_a_page_begins_and_ends(options: dict[str, str]) -> None:
    with Client(options["url"]) as client:
        tail = client.stream(options["stream"]).head().offset
    told = [(row["offset"], row["next_offset"]) for row in read_batch(options)]
    assert told == [("-1", None), (None, None), (None, tail)]


def test_streams_can_not_be_looked_for(options: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="name those to read"):
        read_batch({"url": options["url"], "streamPrefix": "a"})


def test_limits_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(Unsupported, match="maxRowsPerTrigger"):
        Query(options | {"maxRowsPerTrigger": "2"}).batch()


def test_a_limit_that_is_not_required_is_left_out(options: dict[str, str]) -> None:
    assert values(Query(options | {"maxBytesPerTrigger": "auto"}).batch()) == ["1", "2", "3"]


def test_batches_are_written_once(reference: str, prefix: str) -> None:
    appender = Appender(connect(ServerOptions(url=reference)), SinkOptions(ServerOptions(), auto_create=True))
    rows = pa.table({"stream": [f"{prefix}out"] * 2, "message": pa.array([b"1", b"2"], pa.binary())})
    for batch in (0, 0, 3, 3):
        appender.append(Producer("spark-q", batch), rows)
    with Client(reference) as client:
        assert client.stream(f"{prefix}out").read().all() == [1, 2, 1, 2]
    with pytest.raises(QuerySuperseded):
        appender.append(Producer("spark-q", 1), rows)
