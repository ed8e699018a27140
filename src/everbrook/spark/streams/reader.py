"""The readers of `everbrook`: a batch between two sets of offsets, or micro-batches without an end.

Spark logs the positions of a micro-batch before it runs, and asks for the same batch again after a crash. So how far a
batch goes is decided in `latestOffset`; what was lost since is found when the batch is planned and read. A small batch
is read on the driver, which saves the start of an executor's Python; tasks read any other. Both give the same rows.
"""

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from everbrook.client.errors import Unsupported
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark.arrival import Arriving, settle_worker
from everbrook.spark.connection import connect
from everbrook.spark.options import Limits, SourceOptions
from everbrook.spark.streams.bundle import bundled
from everbrook.spark.streams.catalogue import Catalogue, Found, open_catalogue
from everbrook.spark.streams.fetch import ReadTask, read_task
from everbrook.spark.streams.limits import in_turn, limit as limit_ranges, look_up_all, split_all
from everbrook.spark.streams.losses import (
    FORGOTTEN,
    adjust_ranges,
    data_loss,
    ends_of,
    find_expired,
    find_losses,
    find_unread,
)
from everbrook.spark.streams.offsets import EARLIEST, LATEST, VERSION, VERSION_KEY, Boundary, begun, token_of
from everbrook.spark.streams.ranges import (
    Range,
    batch_ranges,
    grouped,
    held_back,
    partition_count,
    positions_at,
    ranges_between,
    small,
    starting_positions,
)
from everbrook.spark.streams.rows import rows_of


class RangePartition(InputPartition):
    """What one task of Spark reads."""

    def __init__(self, task: ReadTask) -> None:
        super().__init__(task)

    @property
    def task(self) -> ReadTask:
        return cast("ReadTask", self.value)


class RangeReader(metaclass=Arriving):
    """What readers of batches and of micro-batches share. It travels to executors, so it holds no connection."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        any_text = options.value_type == "string"
        self._rows = rows_of(schema, options.envelope, failfast=options.failfast, any_text=any_text)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the ranges of a task."""
        settle_worker()
        return self._batches(cast("RangePartition", partition).task)

    def _batches(self, task: ReadTask) -> Iterator[pa.RecordBatch]:
        connection = connect(self._options.server, self._options.selection.bucket)
        pieces = read_task(connection, task, fail_on_data_loss=self._options.fail_on_data_loss)
        for bundle in bundled(pieces):
            yield self._rows.batch(bundle)

    def _require_exact(self, catalogue: Catalogue) -> None:
        """Refuse options that need a server with bounded reads, if this one has none."""
        options = self._options
        if not catalogue.exact and ((options.limits and options.limits.required) or options.min_partitions > 1):
            raise Unsupported(
                "maxRowsPerTrigger, maxBytesPerTrigger and minPartitions need a server that can say where messages "
                "end (bounded-reads in Stream-Extensions), which this one does not"
            )

    def _partitions(self, ranges: Sequence[Range], catalogue: Catalogue) -> list[InputPartition]:
        """Divide ranges among tasks: by their streams, or into pieces if there are to be more tasks than streams."""
        options = self._options
        connection = connect(options.server, options.selection.bucket)
        if len(ranges) < options.min_partitions:
            groups = split_all(ranges, options.min_partitions, partial(look_up_all, connection))
        else:
            groups = grouped(ranges, partition_count(ranges, options.min_partitions, options.max_partitions))
        return [RangePartition(task_of(group, catalogue)) for group in groups] or [RangePartition(ReadTask((), ()))]


def task_of(ranges: Sequence[Range], catalogue: Catalogue) -> ReadTask:
    """Make a task, with what is known of its streams."""
    streams = catalogue.streams
    types = tuple(streams[range_.name].content_type if range_.name in streams else "" for range_ in ranges)
    return ReadTask(tuple(ranges), types, catalogue.exact)


class BatchReader(RangeReader, DataSourceReader):
    """Reads from `startingOffsets` to `endingOffsets`, which are found once, when the batch is planned."""

    def __init__(self, options: SourceOptions, schema: StructType, catalogue: Catalogue) -> None:
        super().__init__(options, schema)
        self._catalogue = catalogue

    def __getstate__(self) -> dict[str, object]:
        """Leave the streams on the driver: each task gets its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_catalogue"}

    def partitions(self) -> list[InputPartition]:
        options, catalogue = self._options, self._catalogue
        self._require_exact(catalogue)
        catalogue.refresh()
        missing = [name for name in options.selection.names if name not in catalogue.streams]
        if missing:
            raise StreamNotFound(f"there is no stream {missing[0]!r}")
        starting, ending = options.starting or Boundary(EARLIEST), options.ending or Boundary(LATEST)
        return self._partitions(batch_ranges(starting, ending, catalogue.streams), catalogue)


try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _DriverSide
except ImportError:  # an implementation detail of Spark: without it, tasks read everything
    _DriverSide = None  # type: ignore[assignment, misc]

logger = logging.getLogger(__name__)

WAIT_SECS = 0.5
"""How long `latestOffset` waits for messages. Meanwhile, Spark can't stop the query."""

Positions = dict[str, str]


class View(Struct, frozen=True):
    """The streams as they were at a moment."""

    streams: dict[str, Found]
    ends: dict[str, str]
    token: str | None


class StreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches, in one process on the driver. Copies of it read them in tasks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._opened: Catalogue | None = None
        self._target: View | None = None
        self._before: Positions = {}
        self._recalled = False
        self._first = ""

    @property
    def _known(self) -> Catalogue:
        """The catalogue, opened on first use: copies in tasks need none."""
        if self._opened is None:
            options = self._options
            catalogue = open_catalogue(connect(options.server, options.selection.bucket), options.selection)
            self._require_exact(catalogue)
            self._opened = catalogue
            self._opened.refresh()
        return self._opened

    def initialOffset(self) -> Positions:
        """Return no position: until batch 0 is finished, Spark calls this again, and must get the same."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit, so that Spark passes another one when it must not apply (the trigger `once`)."""
        limits = self._options.limits
        if limits.max_rows is not None:
            return ReadMaxRows(limits.max_rows)
        return ReadAllAvailable() if limits.max_bytes is None else ReadMaxBytes(limits.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends of all streams: nothing beyond them is read."""
        self._known.refresh()
        self._target = View(dict(self._known.streams), dict(self._known.ends), self._known.token)

    def latestOffset(self, start: Positions, limit: ReadLimit) -> Positions:
        """Decide how far the next batch goes. If there is nothing new, wait for it, up to `WAIT_SECS`."""
        starting = self._options.starting or Boundary(LATEST)
        catalogue = self._known
        view = self._target or catalogue
        if self._target is None:
            catalogue.refresh()
        if not begun(start):
            if starting.everywhere != EARLIEST:
                # An empty first batch records where the query begins: a restart before batch 1 must begin at the same
                # offsets.
                return starting_positions(starting, view.streams, view.token)
            start = {VERSION_KEY: VERSION}
        if self._target is None and all(start.get(name) == end for name, end in catalogue.ends.items()):
            catalogue.wait(WAIT_SECS)
        unlimited = isinstance(limit, ReadAllAvailable) or not catalogue.exact
        limits = Limits() if unlimited else self._options.limits
        end = self._next(start, view, limits)
        # The token of the list may change without a message: a batch for the token alone would be empty.
        return start if start == end | {VERSION_KEY: start[VERSION_KEY]} else end

    def _next(self, start: Positions, view: "View | Catalogue", limits: Limits) -> Positions:
        self._recall(start)
        self._log_unread(start)
        self._check_losses(start, view)
        if not limits:
            return positions_at(view.ends, {}, view.token)
        there, _ = adjust_ranges(ranges_between(start, view.ends), view.ends, view.streams)
        ranges = in_turn(there, self._first)
        connection = connect(self._options.server, self._options.selection.bucket)
        ends = limit_ranges(ranges, limits, partial(look_up_all, connection))
        empty = all(ends.get(each.name, each.start) == each.start for each in ranges)
        if self._target is not None and ranges and empty:
            # Streams have changed since the end was fixed. A batch without rows would end the query too early.
            self.prepareForTriggerAvailableNow()
            return self._next(start, self._target, limits)
        waiting = [range_ for range_ in ranges if range_.name not in ends]
        self._first = waiting[0].name if waiting else self._first
        return held_back(start, positions_at(view.ends, ends, view.token), waiting)

    def _recall(self, start: Positions) -> None:
        """Look up, once, which streams were deleted while the query did not run."""
        token = token_of(start)
        if token and not self._recalled:
            self._known.recall(token)
        self._recalled = True

    def _log_unread(self, start: Positions) -> None:
        """Log which streams were deleted before the query saw them, as far as that is known, and forget their ends."""
        catalogue = self._known
        if unread := find_unread(catalogue.gone, start, self._before):
            logger.warning("these streams were created and deleted before they were read: %s", ", ".join(unread))
        if catalogue.forgotten:
            logger.warning(FORGOTTEN)
            catalogue.forgotten = False
        self._before = start
        catalogue.gone = ends_of(catalogue.gone, start)

    def _check_losses(self, start: Positions, view: "View | Catalogue") -> None:
        """Report what was lost after the positions of a query, and log which streams have expired."""
        gone = self._known.gone
        self._report(find_losses(start, view.streams, view.ends, gone))
        if expired := find_expired(start, view.streams, gone):
            logger.warning(
                "these streams have expired; they were read to the last end that was seen, and may have had more "
                "messages: %s",
                ", ".join(map(repr, expired)),
            )

    def _report(self, losses: list[str]) -> None:
        """End the query because of losses, or log them if `failOnDataLoss` is false."""
        if not losses:
            return
        if self._options.fail_on_data_loss:
            raise data_loss(losses)
        logger.warning("messages were lost: %s", "; ".join(losses))

    def _small(self, ranges: list[Range]) -> bool:
        return small(ranges) and (self._options.driver_reads or not ranges)

    def _ranges(self, start: Positions, end: Positions) -> list[Range]:
        # Spark has logged this batch, perhaps long ago: its streams may have been cut or deleted since.
        ranges, losses = adjust_ranges(ranges_between(start, end), end, self._known.streams)
        self._report(losses)
        return ranges

    def partitions(self, start: Positions, end: Positions) -> list[InputPartition]:
        ranges = self._ranges(start, end)
        if self._small(ranges):
            return [RangePartition(task_of(ranges, self._known))]
        return self._partitions(ranges, self._known)

    def commit(self, end: Positions) -> None:
        """Do nothing: positions are in the checkpoint alone."""

    def reportLatestOffset(self) -> Positions:
        """Return the ends of all streams, which Spark reports beside the positions of the batch."""
        return positions_at(self._known.ends, {})


def stream_reader(options: SourceOptions, schema: StructType) -> StreamReader:
    """Make a reader that reads small batches on the driver, if this Spark has a way for that."""
    return StreamReader(options, schema) if _DriverSide is None else _driver_side_reader(options, schema)


if _DriverSide is not None:

    class DriverSideReader(StreamReader, _DriverSide):
        """Hands the rows of small batches to Spark itself.

        Spark takes rows from the driver only if the reader is PySpark's private wrapper, so this class extends it.
        """

        def __init__(self, options: SourceOptions, schema: StructType) -> None:
            StreamReader.__init__(self, options, schema)
            self.simple_reader: Any = self  # Spark looks here for the methods of the trigger `availableNow`

        def getCache(self, start: Positions, end: Positions) -> Iterator[pa.RecordBatch] | None:
            """Read a small batch. None leaves it to the tasks."""
            ranges = self._ranges(start, end)
            return iter(list(self._batches(task_of(ranges, self._known)))) if self._small(ranges) else None

    _driver_side_reader = DriverSideReader
