"""Writes rows in tasks of Spark: each task returns one report of what it wrote, and the driver collects the reports."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from everbrook.spark.arrival import Arriving, as_function, settle_worker

R = TypeVar("R", bound=msgspec.Struct)


class TaskWriter(Generic[R], metaclass=Arriving):
    """Writes rows. It is sent to workers; the driver uses it for small batches."""

    @abstractmethod
    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> R:
        """Write rows, and report what was written."""

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of a task."""
        settle_worker()
        report = msgspec.msgpack.encode(self.write_rows(batches))
        # `pyarrow.array` would load pandas first, which takes a second in every new worker.
        bounds = pa.py_buffer(np.array([0, len(report)], np.int32))
        column = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, pa.py_buffer(report)])
        yield pa.RecordBatch.from_arrays([column], ["report"])


def write_by_tasks(rows: DataFrame, writer: TaskWriter[R], report: type[R]) -> list[R]:
    """Write rows in tasks, and return their reports."""
    found = rows.mapInArrow(as_function(writer), "report BINARY").collect()
    return [msgspec.msgpack.decode(bytes(row.report), type=report) for row in found]


def write_on_driver(rows: DataFrame, writer: TaskWriter[R]) -> list[R]:
    """Write rows in this process. The report is in a list, as those of tasks are."""
    return [writer.write_rows(rows.toArrow().to_batches())]
