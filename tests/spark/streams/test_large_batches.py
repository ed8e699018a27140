"""Large batches: the driver collects none that exceeds its memory, neither the first of a query nor a later one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from everbrook import Client
from everbrook.spark import session
from everbrook.spark.options import StreamTuning
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.sinks.query_plan import keeps_size
from everbrook.spark.streams.stream_query import start_writing
from tests.kit.spark_session import QUIET, end_shared_session

ROWS = 3000
Read = Callable[[str], DataFrame]
Start = Callable[[DataFrame], Any]


@pytest.fixture(scope="module")
def narrow() -> Iterator[SparkSession]:
    """A session whose driver takes one megabyte of results."""
    end_shared_session()
    with session("narrow", master="local[2]", config={**QUIET, "spark.driver.maxResultSize": "1m"}) as spark:
        yield spark


@pytest.fixture
def read(narrow: SparkSession, server: str, prefix: str) -> Read:
    """Read the stream `in` of a test through a query."""
    reader = narrow.readStream.format("everbrook").options(url=server, startingOffsets="earliest")
    return lambda sql: narrow.sql(sql, source=reader.load(f"{prefix}in"))


@pytest.fixture
def start(server: str, prefix: str, tmp_path: Path) -> Start:
    """Write to the stream `out` of a test, by tasks from 100 kB on."""

    def start(frame: DataFrame) -> Any:  # noqa: ANN401 - Spark's query or ours
        options: dict[str, str | int | bool] = {"url": server, "stream": f"{prefix}out", "autoCreate": True}
        tuning = StreamTuning(large_bytes=100_000)
        return start_writing(frame, str(tmp_path), write_with(frame, str(tmp_path)), options, ends=False, tuning=tuning)

    return start


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(value) AS value, offset FROM {source}",
        "SELECT explode(array_repeat(value, 1)) AS value, offset FROM {source}",
    ],
    ids=["changed", "multiplied"],
)
def test_the_first_batch_may_be_larger_than_the_driver_can_hold(
    client: Client, prefix: str, read: Read, start: Start, sql: str
) -> None:
    client.stream(f"{prefix}in").create()
    client.stream(f"{prefix}in").extend("x" * 1000 for _ in range(ROWS))
    query = start(read(sql))
    query.processAllAvailable()
    query.stop()
    assert len(client.stream(f"{prefix}out").read().all()) == ROWS


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value, offset FROM {source}",
        "SELECT explode(array_repeat(value, 1)) AS value, offset FROM {source}",
        "FROM {source} |> WHERE length(value) < 99 |> UNION ALL (FROM {source} |> WHERE length(value) > 98)",
    ],
    ids=["same", "multiplied", "united"],
)
def test_a_large_batch_may_follow_a_small_one(client: Client, prefix: str, read: Read, start: Start, sql: str) -> None:
    client.stream(f"{prefix}in").create(data={"n": 1})
    query = start(read(sql))
    query.processAllAvailable()
    client.stream(f"{prefix}in").append({"n": "x" * 3_000_000})
    query.processAllAvailable()
    query.stop()
    assert len(client.stream(f"{prefix}out").read().all()) == 2


def test_a_query_that_may_add_rows_has_batches_of_unknown_size(client: Client, prefix: str, read: Read) -> None:
    client.stream(f"{prefix}in").create(data="first")
    assert keeps_size(read("SELECT upper(value) AS value FROM {source} WHERE offset > '1'").repartition(3))
    assert not keeps_size(read("SELECT explode(split(value, ' ')) AS value FROM {source}"))
