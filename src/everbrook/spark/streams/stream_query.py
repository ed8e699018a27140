"""`write_stream`: a streaming query that writes to streams. Beyond the sink, it repartitions rows and knows its end.

The driver appends a small batch; tasks append a large one, each of them all rows of its streams. Both follow the same
rules (`appender`), so a batch may be started by one and finished by the other.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.protocol.errors import NotFound
from everbrook.spark.arrival import Arriving, as_function
from everbrook.spark.connection import connect
from everbrook.spark.options import InvalidOption, SinkOptions, StreamTuning, parse_sink
from everbrook.spark.shipping import is_remote
from everbrook.spark.sinks.checkpoint import Checkpoint, write_with
from everbrook.spark.sinks.foreach_batch import RunningQuery
from everbrook.spark.sinks.query_plan import keeps_size
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
    """Begin to write a streaming data frame to streams, exactly once, and give the query.

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
    given = {name: _text(value) for name, value in options.items()}
    sink = parse_sink(given)
    layout = layout_of(df.schema, sink)
    if sink.close_on_finish and not ends:
        raise InvalidOption("closeOnFinish needs a query that ends: give trigger={'availableNow': True}")
    if is_remote(df.sparkSession):
        return _write_remotely(writer, sink, given)
    require_order(sink, layout)
    kept = Checkpoint(df.sparkSession, checkpoint)
    kept.keep_append_bytes(sink.max_append_bytes)
    kept.keep_order(layout.order_by)
    closing = ClosingStreams(sink, kept) if sink.close_on_finish else None
    running = RunningQuery(tuning.large_bytes, keeps_size=keeps_size(df))
    batches = BatchWriting(sink, layout, running, closing)
    query = running.start(writer, batches.write)
    return query if closing is None else ClosingQuery(query, closing.close)


def _text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write_remotely(writer: DataStreamWriter, sink: SinkOptions, given: Mapping[str, str]) -> StreamingQuery:
    """Use the sink: the function of a `foreachBatch` would run on the server, which knows nothing of this process."""
    if sink.close_on_finish:
        raise InvalidOption("closeOnFinish can't be done through Spark Connect: close the streams yourself")
    return writer.format(EverbrookDataSource.name()).options(**given).start()


class BatchWriting:
    """Writes the batches of one query."""

    def __init__(
        self,
        options: SinkOptions,
        layout: Layout,
        query: RunningQuery,
        closing: "ClosingStreams | None" = None,
    ) -> None:
        self._options = options
        self._layout = layout
        self._closing = closing
        self.query = query

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Append a batch."""
        producer = producer_of(str(self.query.get().id), self._options.sink_id, batch_id)
        write = self._write_by_tasks if self.query.in_large_batch() else self._write_here
        names, self.query.written_bytes = write(producer, batch)
        if self._closing is not None:
            self._closing.add(names)  # before Spark notes that the batch is done

    def _write_here(self, producer: Producer, batch: DataFrame) -> tuple[set[str], int]:
        table = batch.toArrow()
        if not table.num_rows:
            return set(), 0
        messages = pa.Table.from_batches(encode(table.to_batches(), self._layout))
        Appender(connect(self._options.server, self._options.bucket), self._options).append(producer, messages)
        return set(messages.column(STREAM).unique().to_pylist()), int(messages.nbytes)

    def _write_by_tasks(self, producer: Producer, batch: DataFrame) -> tuple[set[str], int]:
        parted = batch.repartition(1) if self._options.stream is not None else batch.repartition(STREAM)
        write = as_function(TaskWriting(self._options, self._layout, producer))
        rows = parted.mapInArrow(write, "stream STRING, size_bytes LONG").collect()
        return {row.stream for row in rows}, sum(row.size_bytes for row in rows)


class TaskWriting(metaclass=Arriving):
    """What a task does with its rows: all rows of each of its streams."""

    def __init__(self, options: SinkOptions, layout: Layout, producer: Producer) -> None:
        self._options = options
        self._layout = layout
        self._producer = producer

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Append rows, and give the names of their streams."""
        encoded = list(encode(batches, self._layout))
        if encoded:
            messages = pa.Table.from_batches(encoded)
            Appender(connect(self._options.server, self._options.bucket), self._options).append(
                self._producer, messages
            )
            names = messages.column(STREAM).unique()
            sizes = pa.array([messages.nbytes] + [0] * (len(names) - 1), pa.int64())
            yield pa.RecordBatch.from_arrays([names, sizes], names=["stream", "size_bytes"])


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
