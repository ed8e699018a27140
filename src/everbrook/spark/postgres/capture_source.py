"""The data source `everbrook_postgres`: it reads the initial copy first, then changes as they are committed.

The driver receives the changes and hands their batches to Spark. Tasks read batches of the copy from files.
A position fixes what is before it, so a batch has the same rows whenever it is read.

The first columns are those that the sink for streams knows (the stream, the order, the message, the time of the
commit), so that a data frame of changes can be written to streams without a projection.
"""

import os
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from everbrook.spark.arrival import Arriving
from everbrook.spark.postgres.capture_options import DEFAULT_TUNING, CaptureOptions, CaptureTuning, parse_capture
from everbrook.spark.postgres.capture_position import CapturePosition, format_position, parse_lsn, parse_position
from everbrook.spark.postgres.change_messages import Row
from everbrook.spark.postgres.errors import START_OVER, CaptureRefused
from everbrook.spark.postgres.receiver import Receiver
from everbrook.spark.postgres.routing import Streams
from everbrook.spark.postgres.slot import connect
from everbrook.spark.postgres.snapshot import Manifest, Slice, Spool, load_manifest, spooled_rows
from everbrook.spark.postgres.start import begin, first_position

try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _DriverSide
except ImportError as missing:
    raise ImportError("this Spark has no way to take rows from its driver, which changes of Postgres need") from missing

Given = dict[str, Any]

_RAW = [
    StructField("stream", StringType()),
    StructField("offset", StringType()),
    StructField("value", StringType()),
    StructField("time", TimestampType()),
]
_MORE = [StructField(name, StringType()) for name in ("table", "operation", "key")]
SCHEMAS = {"raw": StructType(_RAW), "change": StructType(_RAW + _MORE)}
"""By envelope. `change` also has columns for the table, the operation and the key of a message."""

_ROWS_PER_BATCH = 10_000
_TYPES = {"time": pa.timestamp("us", tz="UTC")}


def batches_of(rows: Iterable[Row], envelope: str) -> Iterator[pa.RecordBatch]:
    """Make Arrow batches of messages, in their order."""
    names = SCHEMAS[envelope].fieldNames()
    schema = pa.schema([(name, _TYPES.get(name, pa.string())) for name in names])
    waiting = iter(rows)
    while some := list(islice(waiting, _ROWS_PER_BATCH)):
        columns = [
            [row.stream for row in some],
            [row.offset for row in some],
            [row.value for row in some],
            [row.time_us for row in some],
        ]
        if envelope == "change":
            columns += [[row.table for row in some], [row.operation for row in some], [_key(row) for row in some]]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _key(row: Row) -> str | None:
    return None if row.key is None else msgspec.json.decode(row.key, type=str)


class CopyPartition(InputPartition):
    """Rows of the copy that one task reads."""

    def __init__(self, slices: list[Slice]) -> None:
        super().__init__(slices)


class CaptureReader(_DriverSide, SupportsTriggerAvailableNow, metaclass=Arriving):
    """Plans batches and hands over changes, on the driver. Copies of it read the initial copy in tasks."""

    def __init__(self, options: CaptureOptions, tuning: CaptureTuning = DEFAULT_TUNING) -> None:
        self._options = options
        self._tuning = tuning
        self.simple_reader: Any = self  # Spark looks here for the methods of the trigger `availableNow`
        self._begun: tuple[Manifest, Spool, Streams] | None = None
        self.receiver: Receiver | None = None
        """Receives changes, from the first batch of changes on."""
        self._target_lsn: int | None = None
        self._advanced_at = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        # Threads and connections stay on the driver. Copies of the reader only read files of the copy.
        return {**self.__dict__, "_begun": None, "receiver": None, "simple_reader": None}

    def initialOffset(self) -> Given:
        """Return no position: until batch 0 is finished, Spark calls this again, and must get the same."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit. It applies whatever limit Spark passes, because received rows are held in memory."""
        return ReadMaxRows(self._options.max_rows)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the current end. A message in Postgres' log marks it, so that the slot is certain to reach it."""
        with connect(self._options.url) as connection:
            row = connection.execute("SELECT pg_logical_emit_message(true, 'everbrook', '')::text").fetchone()
        self._target_lsn = parse_lsn(str(row[0])) if row else None

    def latestOffset(self, start: Given, limit: ReadLimit) -> Given:
        """Decide how far the next batch goes. If there is nothing new, wait for it, up to `wait_secs`."""
        position = self._position(start)
        spool = self._known[1]
        if position.copied_bytes is not None and position.copied_bytes < spool.size_bytes:
            return format_position(self._next_of_copy(position))
        end = self._next_change(position)
        # The streams of a position must be on disk before Spark logs it: a truncate after a restart resets them.
        self._known[2].write()
        return start if end is None else format_position(end)

    def _position(self, given: Given) -> CapturePosition:
        position = parse_position(given)
        return first_position(self._known[0]) if position is None else position

    @property
    def _known(self) -> tuple[Manifest, Spool, Streams]:
        """The copy, which the first batch makes."""
        if self._begun is None:
            manifest = begin(self._options, self._tuning)
            spool = Spool(self._options.location, manifest.parts)
            self._begun = manifest, spool, Streams(self._options.routing, self._options.location)
        return self._begun

    def _next_of_copy(self, position: CapturePosition) -> CapturePosition:
        copied = position.copied_bytes or 0
        end = self._known[1].end_of(copied, self._options.max_rows, self._options.max_bytes)
        return CapturePosition(position.postgres, lsn=position.lsn, copied_bytes=end)

    def _next_change(self, position: CapturePosition) -> CapturePosition | None:
        buffer, start = self._receiving(position).buffer, position.order
        target = None if self._target_lsn is None else (self._target_lsn, 0)
        if target is not None:
            if start >= target:
                return None
            self._wait(position, target)
        else:
            buffer.wait(start, None, self._tuning.wait_secs)
        end, rows = buffer.end(start, target, self._options.max_rows, self._options.max_bytes)
        if not rows and target is None and not self._may_advance(start, end.order):
            return None
        self._advanced_at = time.monotonic()
        return end if end.order > start else None

    def _may_advance(self, start: tuple[int, int], reached: tuple[int, int]) -> bool:
        """Return whether a batch without rows should advance the slot."""
        waited = time.monotonic() - self._advanced_at > self._tuning.advance_secs
        return reached > start and (waited or reached[0] - start[0] > self._tuning.advance_bytes)

    def _receiving(self, position: CapturePosition) -> Receiver:
        """Return the receiver. It begins at the first position that is requested."""
        if self.receiver is not None and position.order < self.receiver.buffer.begun:
            self.receiver.close()
            self.receiver = None
        if self.receiver is None:
            manifest, _, streams = self._known
            self.receiver = Receiver(self._options, manifest, streams, position, self._tuning)
        return self.receiver

    def _wait(self, start: CapturePosition, until: tuple[int, int]) -> None:
        """Wait until everything up to a position was received, or so much that more would be too much."""
        buffer = self._receiving(start).buffer
        while buffer.wait(start.order, until, self._tuning.wait_secs) < until and not buffer.full:
            pass

    def partitions(self, start: Given, end: Given) -> list[InputPartition]:
        """Divide a batch of the copy among tasks. Changes are one partition, whose rows the driver hands over."""
        first, last = self._position(start), self._position(end)
        if not last.copied_bytes:
            return [CopyPartition([])]
        copied = first.copied_bytes or 0
        count = max(1, min((last.copied_bytes - copied) // self._tuning.task_bytes, 2 * (os.cpu_count() or 1)))
        if self._is_small(first, last):
            return [CopyPartition(self._known[1].slices(copied, last.copied_bytes))]
        return [CopyPartition(slices) for slices in self._known[1].split(copied, last.copied_bytes, count)]

    def _is_small(self, first: CapturePosition, last: CapturePosition) -> bool:
        return (last.copied_bytes or 0) - (first.copied_bytes or 0) <= self._tuning.small_bytes

    def getCache(self, start: Given, end: Given) -> Iterator[Any] | None:
        """Return the rows of a batch of changes. None leaves a batch of the copy that is not small to the tasks."""
        first, last = self._position(start), self._position(end)
        if last.copied_bytes:
            return self.read(self.partitions(start, end)[0]) if self._is_small(first, last) else None
        receiver = self._receiving(first)
        # After a restart, a logged batch may be larger than the buffer, and must be complete all the same.
        receiver.require(last)
        buffer = receiver.buffer
        while buffer.wait(first.order, last.order, self._tuning.wait_secs) < last.order:
            pass
        return batches_of(buffer.rows(first.order, last.order), self._options.envelope)

    def read(self, input_partition: InputPartition) -> Iterator[Any]:
        """Read rows of the copy."""
        slices = cast("list[Slice]", input_partition.value)
        if not slices:
            raise CaptureRefused("changes that the driver handed over are gone: start the query again")
        manifest = self._known_copy()
        yield from batches_of(spooled_rows(self._options, manifest, slices), self._options.envelope)

    def _known_copy(self) -> Manifest:
        manifest = load_manifest(self._options.location)
        if manifest is None:
            raise CaptureRefused(
                f"there is no copy in {self._options.location} where this task runs: copyLocation must be a folder "
                f"that driver and executors share. {START_OVER}"
            )
        return manifest

    def commit(self, end: Given) -> None:
        """Confirm a finished batch to Postgres, and delete the copy once it was read."""
        position = self._position(end)
        if position.copied_bytes is None:
            self._known[1].delete()
            # Not earlier: only a batch that Spark has recorded as done is never read again.
            self._receiving(position).confirm(position)

    def stop(self) -> None:
        if self.receiver is not None:
            self.receiver.close()


class PostgresDataSource(DataSource, metaclass=Arriving):
    """Changes of tables of Postgres, as messages of streams."""

    @classmethod
    def name(cls) -> str:
        return "everbrook_postgres"

    def schema(self) -> StructType:
        return SCHEMAS[parse_capture(self.options).envelope]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CaptureReader(parse_capture(self.options))
