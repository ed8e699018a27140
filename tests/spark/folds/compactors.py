"""Folds as Spark runs them, without Spark: plans go through JSON and Arrow, tasks through Spark's pickle."""

import json
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable

from everbrook.spark.folds.due_streams import DueStreamReader, FoldsDataSource, stream_reader
from everbrook.spark.folds.fold_options import parse_folds
from everbrook.spark.folds.fold_task import FoldTask, Function, Steps
from everbrook.spark.folds.plan import Batch

Row = dict[str, Any]


class Compactor:
    """Folds what is due."""

    def __init__(self, server: str, _function: Function | None = None, /, **options: str) -> None:
        given = {"url": server, **options}
        self._source = FoldsDataSource(given)
        self._options = parse_folds(given)
        self._task = FoldTask(self._options, _function)
        self.steps = Steps()

    def fold(self) -> dict[str, Row]:
        """Fold once, and give the reports by stream."""
        reader = self._source.reader(self._source.schema())
        return self.work(reader, list(reader.partitions()))

    def work(self, reader: Any, partitions: list[InputPartition]) -> dict[str, Row]:  # noqa: ANN401 - of either kind
        """Do the work of tasks."""
        reader, task = (cloudpickle.loads(cloudpickle.dumps(each)) for each in (reader, self._task))  # type: ignore[no-untyped-call]
        task.steps = self.steps
        rows = [
            row for partition in partitions for batch in task.write(reader.read(partition)) for row in batch.to_pylist()
        ]
        assert len({row["stream"] for row in rows}) == len(rows)
        return {row["stream"]: row for row in rows}

    def stream_reader(self) -> DueStreamReader:
        """Make a reader as Spark does, on the driver and for tasks, that waits only shortly for what is due."""
        return stream_reader(self._options, wait_secs=0.01)

    def outcomes(self) -> dict[str, str]:
        """Fold once, and give what became of each stream."""
        return {stream: row["outcome"] for stream, row in self.fold().items()}


class Query:
    """A streaming query that goes on where its checkpoint says."""

    def __init__(self, compactor: Compactor) -> None:
        self.compactor = compactor
        self.start: Batch = {}
        self.restart()

    def restart(self, *, ends: bool = False) -> None:
        """Begin anew with nothing but the checkpoint; with `ends`, as the trigger availableNow does."""
        self.reader = self.compactor.stream_reader()
        if ends:
            self.reader.prepareForTriggerAvailableNow()

    def plan(self) -> Batch:
        """Decide on a batch."""
        decided: Batch = json.loads(json.dumps(self.reader.latestOffset(self.start, ReadAllAvailable())))
        return decided

    def run(self, end: Batch) -> dict[str, Row]:
        """Run a batch, without noting that it is done."""
        partitions = self.reader.partitions(self.start, end)
        return self.compactor.work(self.compactor.stream_reader(), partitions)

    def batch(self) -> dict[str, Row]:
        """Run a batch, and commit it. Nothing if there is nothing to do."""
        end = self.plan()
        if end == self.start:
            return {}
        reports = self.run(end)
        self.start = end
        return reports
