"""A table goes back into streams: each row once, in the order of its stream, also if it runs again."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from everbrook import Client
from everbrook.spark import write_stream
from everbrook.spark.lake.replay import bytes_left
from tests.kit.lake_rows import rows_of, table_at, write
from tests.spark.batches import append, forget_last_batch
from tests.spark.lake.lake_queries import TIMEOUT_SECS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.lake.lake_queries import Lake

STREAMS = 6


def replay(spark: "SparkSession", server: str, folder: Path, checkpoint: Path, **options: str) -> int | None:
    """Write a table to the streams that its rows name, and tell how much is left."""
    rows = spark.readStream.format("everbrook_lake").options(path=str(folder), **options).load()
    given = {"url": server, "autoCreate": True, "trigger": {"availableNow": True}}
    query = write_stream(rows, str(checkpoint), **given)  # type: ignore[arg-type]
    assert query.awaitTermination(TIMEOUT_SECS)
    return bytes_left(query.lastProgress)


def test_streams_are_as_they_were(
    spark: "SparkSession", server: str, client: Client, prefix: str, tmp_path: Path
) -> None:
    table, names = table_at(tmp_path / "table"), [f"{prefix}{number}" for number in range(STREAMS)]
    for batch in range(3):
        rows = [rows_of({"n": batch, "more": [batch]}, stream=name, first=batch) for name in names]
        write(table, batch, *rows)
    replay(spark, server, tmp_path / "table", tmp_path / "checkpoint", batchBytes="1000")
    forget_last_batch(tmp_path / "checkpoint")
    left = replay(spark, server, tmp_path / "table", tmp_path / "checkpoint", batchBytes="1000")
    assert [client.stream(name).read().all() for name in names] == [[{"n": n, "more": [n]} for n in range(3)]] * STREAMS
    assert left == 0


def test_incarnations_of_a_stream_are_not_mixed(
    spark: "SparkSession", server: str, client: Client, prefix: str, tmp_path: Path, lake: "Lake"
) -> None:
    stream = client.stream(f"{prefix}a")
    for life in range(2):
        append(client, f"{prefix}a", *({"life": life, "n": n} for n in range(3 - life)))
        lake.run({"failOnDataLoss": "false"})
        stream.delete()
    with pytest.raises(PySparkException, match=r"several incarnations of .* Set the option incarnations"):
        replay(spark, server, lake.path, tmp_path / "refused")
    assert not list(client.list(prefix))
    replay(spark, server, lake.path, tmp_path / "latest", incarnations="latest")
    assert stream.read().all() == [{"life": 1, "n": 0}, {"life": 1, "n": 1}]
    stream.delete()
    replay(spark, server, lake.path, tmp_path / "all", incarnations="all")
    assert [message["life"] for message in stream.read().all()] == [0, 0, 0, 1, 1]
