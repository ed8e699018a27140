"""A query from streams to a table of the lake, as a user writes it, and what is in the table."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark import write_lake
from everbrook.spark.lake.delta import open_table

TIMEOUT_SECS = 180
PLACE = ("stream", "offset", "next_offset", "appended_at", "stream_incarnation", "stream_group", "date")


class Lake:
    """A query that is started and started again with one checkpoint."""

    def __init__(self, spark: SparkSession, server: str, prefix: str, folder: Path) -> None:
        self._spark = spark
        self._server = server
        self.prefix = prefix
        self.checkpoint = folder / "checkpoint"
        self.path = folder / "table"

    def start(self, source: dict[str, str] | None = None, **options: Any) -> StreamingQuery:  # noqa: ANN401 - those of write_lake
        reader = self._spark.readStream.format("everbrook")
        chosen = {"url": self._server, "streamPrefix": self.prefix, "startingOffsets": "earliest", **(source or {})}
        given = {"path": str(self.path), "server_url": self._server} | options
        return write_lake(reader.options(**chosen).load(), str(self.checkpoint), **given)

    def run(self, source: dict[str, str] | None = None, **options: Any) -> None:  # noqa: ANN401
        """Write all that is there now."""
        assert self.start(source, trigger={"availableNow": True}, **options).awaitTermination(TIMEOUT_SECS)

    def rows(self) -> list[dict[str, Any]]:
        """Give the rows of the table, in the order of their streams."""
        return rows_of(self.path)

    def fields(self) -> list[dict[str, Any]]:
        """Give what the table has of messages, without where they were."""
        return [{name: value for name, value in row.items() if name not in PLACE} for row in self.rows()]

    def dead_letters(self) -> list[dict[str, Any]]:
        return rows_of(self.path / "_dead_letters")


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(folder).to_table().to_pylist()
    return sorted(rows, key=lambda row: (row["stream"], row["offset"]))
