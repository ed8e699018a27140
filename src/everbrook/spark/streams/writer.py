"""The writers of the sink `everbrook`: tasks make messages of rows, and the driver appends them at the end.

So the number of tasks does not matter, nor which rows each has. Spark calls `commit` of a micro-batch before it records
that the batch is done, and again after a crash in between: the server recognises the duplicates.
"""

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from everbrook.spark.arrival import Arriving
from everbrook.spark.connection import connect
from everbrook.spark.options import InvalidOption, SinkOptions
from everbrook.spark.streams.appender import Appender, Producer, require_order
from everbrook.spark.streams.messages import encode, layout_of

_QUERY_ID = "sql.streaming.queryId"


class TaskMessages(WriterCommitMessage):
    """What a task hands to the driver: its messages, as an Arrow stream, and which task of which query it is."""

    def __init__(self, query_id: str | None, partition: int, data: bytes) -> None:
        self.query_id = query_id
        self.partition = partition
        self.data = data


class MessageWriter(metaclass=Arriving):
    """What both writers have in common."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidOption(
                "streams only grow: write with mode('append'), or with outputMode('append') or ('update')"
            )
        self._options = options
        self._layout = layout_of(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessages:
        """Make messages of the rows of a task."""
        # Spark passes the id of the query to tasks, and not to the writer on the driver: they send it along.
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        partition = 0 if context is None else context.partitionId()
        return TaskMessages(query_id, partition, pack(encode(iterator, self._layout)))

    def _append(self, producer: Producer, messages: Sequence[WriterCommitMessage | None], *, close: bool) -> None:
        appender = Appender(connect(self._options.server, self._options.bucket), self._options)
        table = unpack([message for message in messages if isinstance(message, TaskMessages)])
        if table is not None:
            appender.append(producer, table, close=close)
        elif close and self._options.stream is not None:
            appender.close(self._options.stream)


class StreamWriter(MessageWriter, DataSourceStreamArrowWriter):
    """Writes micro-batches."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        if options.close_on_finish:
            raise InvalidOption(
                "closeOnFinish needs the end of the query, which Spark does not report to a sink: use "
                "everbrook.spark.write_stream with the trigger availableNow"
            )
        require_order(options, self._layout)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append the messages of all tasks."""
        written = [message for message in messages if isinstance(message, TaskMessages) and message.data]
        if not written:
            return
        query_id = written[0].query_id
        if query_id is None:
            raise RuntimeError(
                "Spark has not passed the id of the query to its tasks, so the batch can't be written exactly once"
            )
        self._append(producer_of(query_id, self._options.sink_id, batchId), written, close=False)


class BatchWriter(MessageWriter, DataSourceArrowWriter):
    """Writes one batch, which is never run again: Spark commits it once, however often its tasks were run."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._id = f"spark-{uuid4().hex[:16]}"

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append the messages of all tasks."""
        self._append(Producer(self._id, 0, repeats=False), messages, close=self._options.close_on_finish)


def producer_of(query_id: str, sink_id: str, batch_id: int) -> Producer:
    """Name the producer of a micro-batch. Two sinks of one query to the same stream need ids of their own."""
    return Producer(f"spark-{query_id}-{sink_id}" if sink_id else f"spark-{query_id}", batch_id)


def pack(batches: Iterator[pa.RecordBatch]) -> bytes:
    """Write messages as an Arrow stream. No messages are no bytes."""
    first = next(batches, None)
    if first is None:
        return b""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, first.schema, options=options) as stream:
        stream.write_batch(first)
        for batch in batches:
            stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def unpack(written: Sequence[TaskMessages]) -> pa.Table | None:
    """Read the messages of all tasks, in the order of the tasks."""
    packed = sorted((each for each in written if each.data), key=lambda each: each.partition)
    tables = [pa.ipc.open_stream(each.data).read_all() for each in packed]
    table = pa.concat_tables(tables) if tables else None
    return table if table is not None and table.num_rows else None
