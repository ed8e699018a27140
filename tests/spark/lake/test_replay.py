"""A table goes back into streams: each row once, in the order of its stream, also if it runs again."""

from pathlib import Path
from typing import TYPE_CHECKING

from everbrook import Client
from everbrook.spark import write_stream
from everbrook.spark.lake.replays import bytes_left
from tests.spark.lake.queries import TIMEOUT_SECS, forget_last_batch
from tests.spark.lake.rows import rows_of, table_at, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
