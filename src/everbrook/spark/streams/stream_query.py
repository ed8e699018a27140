"""`write_stream`: a streaming query that writes to streams.

Unlike the sink `everbrook`, it appends large batches in tasks, and can close its streams at its end.

The driver appends a small batch; tasks append a large one, each of them all rows of its streams. Both follow the same
rules (`appender`), so a batch may be started by one and finished by the other.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.protocol.errors import NotFound
from everbrook.spark.connection import connect
from everbrook.spark.options import InvalidOption, SinkOptions, StreamTuning, format_options, parse_sink
from everbrook.spark.package_archive import is_remote
from everbrook.spark.sinks.batch_writer import MicroBatchWriter
from everbrook.spark.sinks.checkpoint import Checkpoint, write_with
from everbrook.spark.sinks.query_plan import keeps_size
from everbrook.spark.sinks.task_writer import TaskWriter, write_by_tasks, write_on_driver
from everbrook.spark.streams.appender import Appender, Producer, require_order
from everbrook.spark.streams.messages import STREAM, Layout, encode, layout_of
from everbrook.spark.streams.stream_source import EverbrookDataSource
from everbrook.spark.streams.writer import producer_of

Option = str | int | bool


def write_stream(
    df: DataFrame,
    checkpoint: str,
    *,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    output_mode: Literal["append", "update"] = "append",
    **options: Option,
) -> "StreamingQuery | ClosingQuery":
    """Begin to write a streaming data frame to streams, exactly once, and return the query.

        write_stream(df, "/checkpoints/copy", stream="copy", autoCreate=True, trigger={"availableNow": True})

    The options are those of the sink. `orderBy` sorts the rows of each batch. With the output mode `update` rows of an
    aggregation are written whenever they have changed, not once when they can't change any more. With `closeOnFinish`
    and the trigger `availableNow`, `awaitTermination()` of what is returned closes the streams that were written, by
    earlier runs too, unless the query was stopped before its end.
    """
    writer = write_with(df, checkpoint, trigger, query_name).outputMode(output_mode)
    ends = trigger is not None and "availableNow" in trigger
    return start_writing(df, checkpoint, writer, options, ends=ends, tuning=StreamTuning())


def start_writing(
    df: DataFrame,
    checkpoint: str,
    writer: DataStreamWriter,
    options: Mapping[str, Option],
    *,
    ends: bool,
    tuning: StreamTuning,
) -> "StreamingQuery | ClosingQuery":
    """Begin to write with a configured writer of Spark. `ends` says whether its trigger is `availableNow`."""
    given = format_options(options)
    sink = parse_sink(given)
    layout = layout_of(df.schema, sink)
    if sink.close_on_finish and not ends:
        raise InvalidOption("closeOnFinish needs a query that ends: give trigger={'availableNow': True}")
    if is_remote(df.sparkSession):
        return _write_remotely(writer, sink, given)
    require_order(sink, layout)
    kept = Checkpoint(df.sparkSession, checkpoint)
    # Size and order decide which rows are in which append, so they must not change in the middle of a batch.
    kept.keep_append_bytes(sink.max_append_bytes)
    kept.keep_order(layout.order_by)
    closing = ClosingStreams(sink, kept) if sink.close_on_finish else None
    batches = StreamBatchWriter(sink, layout, tuning.large_bytes, keeps_size=keeps_size(df), closing=closing)
    query = batches.start(writer)
    return query if closing is None else ClosingQuery(query, closing.close)


def _write_remotely(writer: DataStreamWriter, sink: SinkOptions, given: Mapping[str, str]) -> StreamingQuery:
    """Use the sink: the function of a `foreachBatch` would run on the server, which knows nothing of this process."""
    if sink.close_on_finish:
        raise InvalidOption("closeOnFinish can't be done through Spark Connect: close the streams yourself")
    return writer.format(EverbrookDataSource.name()).options(**given).start()


class Appended(Struct, frozen=True):
    """The streams to which rows were appended, and the size of the messages."""

    streams: list[str]
    size_bytes: int


class StreamTaskWriter(TaskWriter[Appended]):
    """Appends rows of a batch: in a task, all rows of each of its streams."""

    def __init__(self, options: SinkOptions, layout: Layout, producer: Producer) -> None:
        self._options = options
        self._layout = layout
        self._producer = producer

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> Appended:
        encoded = list(encode(batches, self._layout))
        messages = pa.Table.from_batches(encoded) if encoded else None
        if messages is None or not messages.num_rows:
            return Appended([], 0)
        appender = Appender(connect(self._options.server, self._options.bucket), self._options)
        appender.append(self._producer, messages)
        return Appended(messages.column(STREAM).unique().to_pylist(), int(messages.nbytes))


class StreamBatchWriter(MicroBatchWriter):
    """Appends the batches of one query to streams."""

    def __init__(
        self,
        options: SinkOptions,
        layout: Layout,
        large_bytes: int,
        *,
        keeps_size: bool,
        closing: "ClosingStreams | None" = None,
    ) -> None:
        super().__init__(large_bytes, keeps_size=keeps_size)
        self._options = options
        self._layout = layout
        self._closing = closing

    def _write(self, query: StreamingQuery, batch: DataFrame, batch_id: int, *, by_tasks: bool) -> int:
        producer = producer_of(str(query.id), self._options.sink_id, batch_id)
        reports = self._append(StreamTaskWriter(self._options, self._layout, producer), batch, by_tasks=by_tasks)
        if self._closing is not None:
            # Before Spark marks the batch as done: a run that is killed in between must still close its streams.
            self._closing.add({stream for report in reports for stream in report.streams})
        return sum(report.size_bytes for report in reports)

    def _append(self, writer: StreamTaskWriter, batch: DataFrame, *, by_tasks: bool) -> list[Appended]:
        if not by_tasks:
            return write_on_driver(batch, writer)
        # The rows of a stream are one append, or a sequence of them: one task must have them all.
        parted = batch.repartition(1) if self._options.stream is not None else batch.repartition(STREAM)
        return write_by_tasks(parted, writer, Appended)


class ClosingStreams:
    """The streams that a query has written, in all of its runs, and which it closes at its end."""

    def __init__(self, options: SinkOptions, checkpoint: Checkpoint) -> None:
        self._options = options
        self._checkpoint = checkpoint
        self._names = checkpoint.streams()

    def add(self, names: set[str]) -> None:
        """Record the streams of a batch."""
        if not names <= self._names:
            self._names |= names
            self._checkpoint.keep_streams(self._names)

    def close(self) -> None:
        """Close all streams that were written, and the one that was chosen for all rows, unless they are gone."""
        connection = connect(self._options.server, self._options.bucket)
        for name in sorted(self._names.union(filter(None, [self._options.stream]))):
            with suppress(NotFound):
                connection.stream(name).close()


class ClosingQuery:
    """A query whose streams are closed at its end. Everything else is delegated to Spark's query."""

    def __init__(self, query: StreamingQuery, close: Callable[[], None]) -> None:
        self._query = query
        self._close = close

    def __getattr__(self, name: str) -> Any:
        return getattr(self._query, name)

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Wait for the end, and close the streams if the query has written everything."""
        ended = self._query.awaitTermination(timeout)
        # Spark's public interface does not distinguish a query that reached its end from one that was stopped.
        if ended is not False and self._query._jsq.streamingQuery().noNewData():
            self._close()
        return ended
