"""closeOnFinish: the run that writes the last batch closes the streams, and a run that is stopped does not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark import write_stream
from everbrook.spark.options import InvalidOption
from tests.kit.server_thread import eventually

TIMEOUT_SECS = 120
Start = Callable[..., Any]


@pytest.fixture
def start(spark: SparkSession, server: str, prefix: str, tmp_path: Path) -> Start:
    """Copy the streams below `in/` to those below `out/`, and close these at the end."""
    source = {"url": server, "streamPrefix": f"{prefix}in/", "startingOffsets": "earliest", "maxRowsPerTrigger": "100"}
    frame = spark.readStream.format("everbrook").options(**source).load()
    rows = frame.selectExpr("replace(stream, 'in/', 'out/') AS stream", "value", "offset")

    def start(trigger: str = "availableNow") -> Any:  # noqa: ANN401 - Spark's query or ours
        return write_stream(
            rows, str(tmp_path), trigger={trigger: True}, url=server, autoCreate=True, closeOnFinish=True
        )

    return start


def fill(client: Client, prefix: str, names: str, count: int) -> None:
    for name in names:
        client.stream(f"{prefix}in/{name}").create()
        client.stream(f"{prefix}in/{name}").extend(range(count))


def closed(client: Client, prefix: str, names: str) -> list[bool]:
    return [client.stream(f"{prefix}out/{name}").head().closed for name in names]


def test_a_query_that_is_stopped_closes_nothing_and_the_next_run_does(
    client: Client, prefix: str, start: Start
) -> None:
    fill(client, prefix, "a", 3000)
    query = start()
    assert eventually(lambda: client.stream(f"{prefix}out/a").exists(), TIMEOUT_SECS)
    query.stop()
    query.awaitTermination()
    assert closed(client, prefix, "a") == [False]
    assert start().awaitTermination(TIMEOUT_SECS)
    assert client.stream(f"{prefix}out/a").read().all() == list(range(3000))
    assert closed(client, prefix, "a") == [True]


def test_a_run_that_finds_nothing_left_closes_what_the_one_before_had_written(
    client: Client, prefix: str, start: Start
) -> None:
    """The process has died behind the last batch, before it closed anything."""
    fill(client, prefix, "abc", 5)
    died = start()
    assert eventually(lambda: not died.isActive, TIMEOUT_SECS)
    assert closed(client, prefix, "abc") == [False] * 3
    assert start().awaitTermination(TIMEOUT_SECS)
    assert closed(client, prefix, "abc") == [True] * 3


def test_streams_that_are_gone_or_closed_need_not_be_closed(client: Client, prefix: str, start: Start) -> None:
    fill(client, prefix, "ab", 5)
    assert start().awaitTermination(TIMEOUT_SECS)
    client.stream(f"{prefix}out/a").delete()
    assert start().awaitTermination(TIMEOUT_SECS)
    assert closed(client, prefix, "b") == [True]


def test_a_trigger_that_takes_one_batch_does_not_tell_the_end(client: Client, prefix: str, start: Start) -> None:
    fill(client, prefix, "a", 1)
    with pytest.raises(InvalidOption, match="availableNow"):
        start("once")
