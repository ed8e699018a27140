"""The source `everbrook_lake`: a table that goes back into streams, one bucket of its streams after the other.

A batch has all rows of its streams, and asked for again it has the same: the table is pinned in the position before
anything is read. In which order rows come does not matter: their column `offset` says in which they are to be written.
"""

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from everbrook.spark.arrival import Arriving
from everbrook.spark.lake.columns import OFFSET, STREAM
from everbrook.spark.lake.contents import Contents
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.lake.replays import BUCKET, BUCKETS, PIN, SIZE, ReplayOptions, parse_replay

_TASKS = 2
_PAUSE_SECS = 0.5
"""How long a query without an end is kept waiting at that of the table."""
Position = dict[str, Any]


class LakeDataSource(DataSource, metaclass=Arriving):
    """Tables of the lake as messages."""

    @classmethod
    def name(cls) -> str:
        """Give the name of the format."""
        return "everbrook_lake"

    def schema(self) -> StructType:
        """Give the columns."""
        options = parse_replay(self.options)
        table = Contents(options)
        value = BinaryType() if pa.types.is_binary(table.type) else StringType()
        fields = {STREAM: StringType(), OFFSET: StringType(), VALUE: value}
        return StructType([StructField(name, type_) for name, type_ in fields.items()])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make what reads micro-batches."""
        return ReplayReader(parse_replay(self.options))


class Bucket(InputPartition):
    """What a task reads: streams of some buckets, out of so many."""

    def __init__(self, numbers: range, of: int, pin: str) -> None:
        self.numbers = numbers
        self.of = of
        self.pin = pin


class ReplayReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides on batches on the driver, and reads them elsewhere."""

    def __init__(self, options: ReplayOptions) -> None:
        self._options = options
        self._ends = False

    def initialOffset(self) -> Position:
        """Say nothing yet: Spark asks for this again whenever batch 0 is not finished, and must get the same."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Set none: a batch is a bucket."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember that there is an end, so that nobody is kept waiting at it."""
        self._ends = True

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        """Go on by one bucket, until there is none left."""
        if not start:
            table = Contents(self._options)
            table.require_single()
            size_bytes = table.size_bytes()
            buckets = max(1, -(-size_bytes // self._options.batch_bytes))
            return {BUCKET: 1, BUCKETS: buckets, PIN: table.pin, SIZE: size_bytes}
        if start[BUCKET] == start[BUCKETS] and not self._ends:
            time.sleep(_PAUSE_SECS)
        return {**start, BUCKET: min(start[BUCKET] + 1, start[BUCKETS])}

    def partitions(self, start: Position, end: Position) -> list[InputPartition]:
        """Part the buckets between two positions among tasks."""
        of = end[BUCKETS] * _TASKS
        numbers = range(start.get(BUCKET, 0) * _TASKS, end[BUCKET] * _TASKS)
        size = max(1, len(numbers) // _TASKS)
        return [Bucket(numbers[first : first + size], of, end[PIN]) for first in range(0, len(numbers), size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the rows of some streams."""
        if not isinstance(partition, Bucket):
            return
        table = Contents(self._options, partition.pin)
        yield from table.read(partition.numbers, partition.of)

    def commit(self, end: Position) -> None:
        """Do nothing: positions are in the checkpoint alone."""
