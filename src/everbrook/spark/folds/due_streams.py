"""The data source `everbrook_folds`: its rows are plans, one for each stream that is due.

Reading them changes no stream; `fold_query` folds them. `latestOffset` decides which streams a batch folds, and up to
where. Spark logs this, so a batch that is run again is the same.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from everbrook.client.errors import Unsupported
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark.arrival import Arriving
from everbrook.spark.connection import connect
from everbrook.spark.folds.fold_options import FoldOptions, Refusal, is_due, longest_waiting, parse_folds
from everbrook.spark.folds.plan import (
    SCHEMA,
    Batch,
    Plan,
    batch_of,
    format_batch,
    parted,
    plans_of,
    positions_of,
    small,
    turn_of,
)
from everbrook.spark.options import Selection, ServerOptions
from everbrook.spark.streams.catalogue import Catalogue, Found, open_catalogue


def open_streams(options: FoldOptions) -> Catalogue:
    """Look at the streams of a server. Refuse a server that lacks what folds need."""
    try:
        catalogue = open_catalogue(connect(options.server, options.selection.bucket), options.selection)
    except Unsupported as error:
        raise _unsupported() from error
    if not catalogue.exact:
        raise _unsupported()
    catalogue.refresh()
    return catalogue


_looked: dict[tuple[int, ServerOptions, Selection], Catalogue] = {}


def look_again(options: FoldOptions) -> Catalogue:
    """Look at the streams as they are now.

    A process that looked at the same streams last requests only what changed.
    """
    key = (os.getpid(), options.server, options.selection)
    catalogue = _looked.pop(key, None)
    if catalogue is None:
        catalogue = open_streams(options)
    else:
        catalogue.refresh()
    _looked.clear()  # Spark keeps the process: more than one catalogue would waste its memory
    _looked[key] = catalogue
    return catalogue


def _unsupported() -> Unsupported:
    return Unsupported(
        "folds need a server that has snapshots, lists its streams and bounds reads (snapshots, listing and "
        "bounded-reads in Stream-Extensions), which this one does not"
    )


try:
    from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper as _DriverSide
except ImportError:  # an implementation detail of Spark: without it, tasks read all plans
    _DriverSide = None  # type: ignore[assignment, misc]

FORMAT = "everbrook_folds"
WAIT_SECS = 0.5
"""How long `latestOffset` waits for a stream that is due. Meanwhile, Spark can't stop the query."""


class FoldsDataSource(DataSource, metaclass=Arriving):
    """Streams that are due to be folded."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of plans."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader that finds the streams that are due now."""
        return DueReader(parse_folds(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make the reader that finds due streams again and again."""
        return stream_reader(parse_folds(self.options))


class PlanPartition(InputPartition):
    """The plans of one task."""

    def __init__(self, plans: list[Plan]) -> None:
        super().__init__(plans)


class PlanReader(metaclass=Arriving):
    """What both readers share. It travels to executors, so it holds no connection."""

    def __init__(self, options: FoldOptions) -> None:
        self._options = options

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the plans of a task as rows."""
        if partition.value:
            yield batch_of(cast("list[Plan]", partition.value))

    def _partitions(self, batch: Batch, streams: Mapping[str, Found]) -> list[InputPartition]:
        groups = parted(plans_of(batch, streams), self._options.max_partitions)
        return [PlanPartition(group) for group in groups] or [PlanPartition([])]


class DueReader(PlanReader, DataSourceReader):
    """Finds the streams that are due now."""

    def partitions(self) -> list[InputPartition]:
        streams = look_again(self._options).streams
        missing = [name for name in self._options.selection.names if name not in streams]
        if missing:
            raise StreamNotFound(f"there is no stream {missing[0]!r}")
        due = {name: found for name, found in streams.items() if is_due(found, self._options.policy, _now_ms())}
        return self._partitions(format_batch(1, due), streams)


class DueStreamReader(PlanReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds streams that are due, again and again, in one process on the driver."""

    def __init__(self, options: FoldOptions, wait_secs: float = WAIT_SECS) -> None:
        super().__init__(options)
        self._wait_secs = wait_secs
        self._opened: Catalogue | None = None
        self._left: dict[str, Found] | None = None
        """For the trigger `availableNow`: the streams that were due when the query began and are not done."""
        self._run = 0
        """The last batch that was run here. One that an earlier run finished may be worth another attempt."""
        self._planned: dict[str, Found] = {}
        self._refusals: dict[str, Refusal] = {}

    @property
    def _known(self) -> Catalogue:
        if self._opened is None:
            self._opened = open_streams(self._options)
        return self._opened

    def initialOffset(self) -> Batch:
        """Return nothing: folds continue from the snapshots, not from the checkpoint."""
        return {}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Set none: `maxStreamsPerTrigger` applies whatever limit Spark passes."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the streams that are due now: no others are folded."""
        self._known.refresh()
        self._left = self._due()

    def latestOffset(self, start: Batch, limit: ReadLimit) -> Batch:
        """Decide which streams the next batch folds. If none is due, wait once."""
        chosen = self._of_rest(start) if self._left is not None else self._look(start)
        if not chosen and self._left is None:
            time.sleep(self._wait_secs)
            chosen = self._look(start)
        if not chosen:
            return start
        self._planned = longest_waiting(chosen, self._options.max_streams)
        return format_batch(turn_of(start) + 1, self._planned)

    def _of_rest(self, start: Batch) -> dict[str, Found]:
        """Return the streams that were due and are left, without those of the batch that is done."""
        assert self._left is not None  # noqa: S101 - the caller has checked it
        done = positions_of(start) if turn_of(start) == self._run else {}
        self._left = {
            name: found for name, found in self._left.items() if name not in done or done[name].offset != found.tail
        }
        return self._left

    def _look(self, start: Batch) -> dict[str, Found]:
        self._known.refresh()
        self._settle(start)
        due = self._due()
        return {
            name: found
            for name, found in due.items()
            if name not in self._refusals or not self._refusals[name].stands(found)
        }

    def _settle(self, done: Batch) -> None:
        """Note the refusals of the batch that is done: a stream without a new snapshot was refused."""
        streams = self._known.streams
        for name in positions_of(done):
            planned, found = self._planned.get(name), streams.get(name)
            if planned is None or found is None:
                continue
            if found.snapshot == planned.snapshot:
                self._refusals[name] = Refusal(planned)
            else:
                self._refusals.pop(name, None)
        self._planned = {}

    def _due(self) -> dict[str, Found]:
        policy, now_ms = self._options.policy, _now_ms()
        return {name: found for name, found in self._known.streams.items() if is_due(found, policy, now_ms)}

    def partitions(self, start: Batch, end: Batch) -> list[InputPartition]:
        """Divide a batch among tasks, with the current state of its streams."""
        self._run = turn_of(end)
        # Spark may have logged the batch before a restart: its streams may have newer snapshots by now.
        self._known.refresh()
        return self._partitions(end, self._known.streams)

    def commit(self, end: Batch) -> None:
        """Do nothing: folds continue from the snapshots."""

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return nothing: which streams are due changes with the time."""
        return {}


def stream_reader(options: FoldOptions, wait_secs: float = WAIT_SECS) -> DueStreamReader:
    """Make a reader that plans small batches on the driver, if this Spark has a way for that."""
    return (DueStreamReader if _DriverSide is None else _driver_side_reader)(options, wait_secs)


if _DriverSide is not None:

    class DriverSideReader(DueStreamReader, _DriverSide):
        """Hands the plans of small batches to Spark itself, which saves the start of a Python that reads them.

        Spark takes rows from the driver only if the reader is PySpark's private wrapper, so this class extends it.
        """

        def __init__(self, options: FoldOptions, wait_secs: float = WAIT_SECS) -> None:
            DueStreamReader.__init__(self, options, wait_secs)
            self.simple_reader: Any = self  # Spark looks here for the methods of the trigger `availableNow`

        def getCache(self, start: Batch, end: Batch) -> Iterator[pa.RecordBatch] | None:
            """Return the plans of a small batch. None leaves them to tasks."""
            plans = plans_of(end, self._known.streams)
            return iter([batch_of(plans)]) if plans and small(plans) else None

    _driver_side_reader = DriverSideReader


def _now_ms() -> int:
    return round(time.time() * 1000)
