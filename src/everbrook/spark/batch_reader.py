"""The reader of a batch: everything between two sets of offsets, parted among tasks."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from everbrook.client.errors import Unsupported
from everbrook.protocol.errors import StreamNotFound
from everbrook.spark.arrival import Arriving
from everbrook.spark.bundle import bundled
from everbrook.spark.catalogue import Catalogue
from everbrook.spark.columns import rows_of
from everbrook.spark.connection import connect
from everbrook.spark.limits import split_all
from everbrook.spark.lookups import look_up_all
from everbrook.spark.options import SourceOptions
from everbrook.spark.planning import Range, batch_ranges, grouped, partition_count
from everbrook.spark.positions import EARLIEST, LATEST, Boundary
from everbrook.spark.reading import Task, read_task, settle_worker


class Partition(InputPartition):
    """What one task of Spark reads."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)

    @property
    def task(self) -> Task:
        """The ranges."""
        return cast("Task", self.value)


class Reader(metaclass=Arriving):
    """What readers of batches and of micro-batches share. It travels to executors, so it holds no connection."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        any_text = options.value_type == "string"
        self._rows = rows_of(schema, options.envelope, failfast=options.failfast, any_text=any_text)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read what a task has to read."""
        settle_worker()
        return self._batches(cast("Partition", partition).task)

    def _batches(self, task: Task) -> Iterator[pa.RecordBatch]:
        connection = connect(self._options.server, self._options.selection.bucket)
        told = read_task(connection, task, fail_on_data_loss=self._options.fail_on_data_loss)
        for bundle in bundled(told):
            yield self._rows.batch(bundle)

    def _require_exact(self, catalogue: Catalogue) -> None:
        """Refuse options that need a server which can bound reads, where this one can't."""
        options = self._options
        if not catalogue.exact and ((options.limits and options.limits.required) or options.min_partitions > 1):
            raise Unsupported(
                "maxRowsPerTrigger, maxBytesPerTrigger and minPartitions need a server that can say where messages "
                "end (bounded-reads in Stream-Extensions), which this one does not"
            )

    def _partitions(self, ranges: Sequence[Range], catalogue: Catalogue) -> list[InputPartition]:
        """Part ranges among tasks: by their streams, or into pieces if there are to be more tasks than streams."""
        options = self._options
        connection = connect(options.server, options.selection.bucket)
        if len(ranges) < options.min_partitions:
            groups = split_all(ranges, options.min_partitions, partial(look_up_all, connection))
        else:
            groups = grouped(ranges, partition_count(ranges, options.min_partitions, options.max_partitions))
        return [Partition(task_of(group, catalogue)) for group in groups] or [Partition(Task((), ()))]


def task_of(ranges: Sequence[Range], catalogue: Catalogue) -> Task:
    """Tell a task what is known of its streams."""
    streams = catalogue.streams
    types = tuple(streams[range_.name].content_type if range_.name in streams else "" for range_ in ranges)
    return Task(tuple(ranges), types, catalogue.exact)


class BatchReader(Reader, DataSourceReader):
    """Reads from `startingOffsets` to `endingOffsets`, which are found once, when the batch is planned."""

    def __init__(self, options: SourceOptions, schema: StructType, catalogue: Catalogue) -> None:
        super().__init__(options, schema)
        self._catalogue = catalogue

    def __getstate__(self) -> dict[str, object]:
        """Leave the streams on the driver: each task is told of its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_catalogue"}

    def partitions(self) -> list[InputPartition]:
        """Plan the tasks."""
        options, catalogue = self._options, self._catalogue
        self._require_exact(catalogue)
        catalogue.refresh()
        missing = [name for name in options.selection.names if name not in catalogue.streams]
        if missing:
            raise StreamNotFound(f"there is no stream {missing[0]!r}")
        starting, ending = options.starting or Boundary(EARLIEST), options.ending or Boundary(LATEST)
        return self._partitions(batch_ranges(starting, ending, catalogue.streams), catalogue)
