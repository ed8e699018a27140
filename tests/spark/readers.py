"""Readers as Spark uses them, without Spark: positions go through JSON, and readers through Spark's pickle."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from everbrook.spark.streams.reader import DriverSideReader
from everbrook.spark.streams.rows import RAW
from everbrook.spark.streams.stream_source import EverbrookDataSource

Positions = dict[str, str]


class Query:
    """A streaming query that goes on where its checkpoint says."""

    def __init__(self, options: dict[str, str], schema: StructType | None = None) -> None:
        self._source = EverbrookDataSource(options)
        self._schema = schema or self._source.schema()
        self.checkpoint: list[Positions] = []
        self.restart()

    def restart(self) -> None:
        """Begin anew with nothing but the checkpoint."""
        reader = self._source.streamReader(self._schema)
        assert isinstance(reader, DriverSideReader)
        self.reader = reader

    @property
    def start(self) -> Positions:
        return self.checkpoint[-1] if self.checkpoint else _json(self.reader.initialOffset())

    def plan(self) -> tuple[Positions, Positions]:
        """Decide on a batch, and log it."""
        start = self.start
        limit = self.reader.getDefaultReadLimit()
        return start, _json(self.reader.latestOffset(start, limit))

    def batch(self) -> list[dict[str, Any]]:
        """Run a batch, and commit it. No rows if there is nothing new."""
        start, end = self.plan()
        if start == end:
            return []
        rows = self.read(start, end)
        self.checkpoint.append(end)
        return rows

    def read(self, start: Positions, end: Positions) -> list[dict[str, Any]]:
        """Read a batch as tasks do."""
        reader = cloudpickle.loads(cloudpickle.dumps(self._source.streamReader(self._schema)))  # type: ignore[no-untyped-call]
        partitions = cloudpickle.loads(cloudpickle.dumps(self.reader.partitions(start, end)))  # type: ignore[no-untyped-call]
        return [row for partition in partitions for row in rows_of(reader.read(partition))]

    def read_on_driver(self, start: Positions, end: Positions) -> list[dict[str, Any]] | None:
        """Read a batch as the driver does, if it does."""
        batches = self.reader.getCache(start, end)
        return None if batches is None else rows_of(batches)


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def read_batch(options: dict[str, str], schema: StructType | None = None) -> list[dict[str, Any]]:
    """Read a batch as `spark.read` does."""
    source = EverbrookDataSource(options)
    reader = source.reader(schema or source.schema())
    partitions: list[InputPartition] = list(reader.partitions())
    return [row for partition in partitions for row in rows_of(reader.read(partition))]


def values(rows: list[dict[str, Any]]) -> list[Any]:
    return [row["value"] for row in rows]


def _json(positions: Positions) -> Positions:
    decoded: Positions = json.loads(json.dumps(positions))
    return decoded


ALL = ReadAllAvailable()
STRING = RAW["string"]
