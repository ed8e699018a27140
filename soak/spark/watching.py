"""The data source with its doings written to the journal: where batches were read, and what the server answered.

This runs in the processes that Spark starts. It does what the product does, but for the controls, whose rules are
broken here too: the product has no switch for that. A header of the requests says which query they are of.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamArrowWriter, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from everbrook.spark.connection import Connection, Post
from everbrook.spark.options import SinkOptions, parse_source
from everbrook.spark.streams import stream_query
from everbrook.spark.streams.appender import Appender
from everbrook.spark.streams.reader import DriverSideReader
from everbrook.spark.streams.stream_source import EverbrookDataSource
from soak.spark.flaws import break_rules, case_of
from soak.spark.journal import APPENDED, BY_TASKS, KNOWN, ON_DRIVER, READER, TASK, WROTE_BY_TASKS, WROTE_HERE, note

_NEW = 200
Batches = Iterator[pa.RecordBatch]


class Watched(EverbrookDataSource):
    """The product's source and sink, under its name."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Make a reader that tells where it reads."""
        watch()
        options = parse_source(self.options)
        note(case_of(options), READER)
        return WatchedReader(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001 - Spark's
        """Make the product's writer, in a process whose appends are watched."""
        watch()
        return super().streamWriter(schema, overwrite)


class WatchedReader(DriverSideReader):
    """Tells of each batch with rows whether the driver reads it, and of each task that reads."""

    def getCache(self, start: dict[str, str], end: dict[str, str]) -> Batches | None:
        """Read on the driver, or leave it to the tasks."""
        batches = super().getCache(start, end)
        if batches is None:
            note(case_of(self._options), BY_TASKS)
            return None
        there = list(batches)
        if there:
            note(case_of(self._options), ON_DRIVER)
        return iter(there)

    def read(self, partition: InputPartition) -> Batches:
        """Read in a task."""
        note(case_of(self._options), TASK)
        return super().read(partition)


class WatchedTaskWriter(stream_query.StreamTaskWriter):
    """Appends in a task whose appends are watched."""

    def write(self, batches: Batches) -> Batches:
        """Append rows."""
        watch()
        yield from super().write(batches)


@cache
def watch() -> None:
    """Watch the appends of this process, and break the rules of the controls. Once."""
    begin, post, post_all = Appender.__init__, Connection.post, Connection.post_all

    def begin_watched(appender: Appender, connection: Connection, options: SinkOptions) -> None:
        vars(connection)["case"] = case_of(options)
        begin(appender, connection, options)

    def post_watched(connection: Connection, name: str, content: bytes | None, headers: Mapping[str, str]) -> Any:  # noqa: ANN401
        answer = post(connection, name, content, headers)
        new = answer.status_code == _NEW or "Producer-Id" not in headers
        note(vars(connection)["case"], APPENDED if new else KNOWN)
        return answer

    def post_all_watched(connection: Connection, name: str, posts: Sequence[Post]) -> bool:
        """Post many appends, which are pipelined."""
        new = post_all(connection, name, posts)
        note(vars(connection)["case"], APPENDED if new else KNOWN)
        return new

    _replace(Connection, "post_all", post_all_watched)
    _replace(Appender, "__init__", begin_watched)
    _replace(Connection, "post", post_watched)
    break_rules()


@cache
def watch_helper() -> None:
    """Watch how `write_stream` writes, in this process and in the tasks that it sends out."""
    watch()
    _replace(stream_query, "StreamTaskWriter", WatchedTaskWriter)
    append = stream_query.StreamBatchWriter._append  # noqa: SLF001 - where driver or tasks are chosen

    def append_watched(
        batches: stream_query.StreamBatchWriter,
        writer: stream_query.StreamTaskWriter,
        batch: DataFrame,
        *,
        by_tasks: bool,
    ) -> list[stream_query.Appended]:
        note(case_of(batches._options), WROTE_BY_TASKS if by_tasks else WROTE_HERE)  # noqa: SLF001
        return append(batches, writer, batch, by_tasks=by_tasks)

    _replace(stream_query.StreamBatchWriter, "_append", append_watched)


def _replace(place: object, name: str, value: object) -> None:
    setattr(place, name, value)
