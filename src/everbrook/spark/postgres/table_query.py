"""`write_postgres`: a streaming query that writes to a table. The driver writes small batches, tasks write large ones.

Everything is checked before the query starts. Each task gets whole streams, in the order of their offsets. Rows that
come straight from the source are in that order already; others are partitioned and sorted again. Driver and tasks write
by the same rules (`table_sink`), so a batch may be started by one and finished by the other.
"""

import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.options import DEFAULT_TABLE_TUNING, ServerOptions, TableTuning
from everbrook.spark.postgres import letter_table as letters
from everbrook.spark.postgres.database import Database
from everbrook.spark.postgres.mapping import METADATA, NEXT_OFFSET, OFFSET, STREAM, Metadata
from everbrook.spark.postgres.positions import TABLE, Writer, unknown
from everbrook.spark.postgres.table_sink import RowCounts, TablePlan, TableWriter, parse_options, prepare
from everbrook.spark.sinks.batch_writer import MicroBatchWriter, OnDeadLetters, require_local
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.sinks.query_plan import identities_of, whole_streams
from everbrook.spark.sinks.task_writer import TaskWriter, write_by_tasks
from everbrook.spark.streams.messages import require_messages

logger = logging.getLogger(__name__)

_MAX_SHOWN = 10
SESSION_EVENTS = "session_events"


class TableTaskWriter(TaskWriter[RowCounts]):
    """Writes the rows of a task, over a connection of its own."""

    def __init__(self, plan: TablePlan, writer: Writer) -> None:
        self._plan = plan
        self._writer = writer

    def write_rows(self, batches: Iterable[pa.RecordBatch]) -> RowCounts:
        database = Database(self._plan.options.database)
        try:
            return TableWriter(database, self._plan).write(self._writer, batches)
        finally:
            database.close()


class TableBatchWriter(MicroBatchWriter):
    """Writes the batches of one query to a table."""

    def __init__(
        self,
        plan: TablePlan,
        sink_id: str,
        *,
        in_order: bool,
        tuning: TableTuning,
        on_dead_letters: OnDeadLetters | None = None,
    ) -> None:
        super().__init__(tuning.large_bytes, on_dead_letters=on_dead_letters)
        self._plan = plan
        self._sink_id = sink_id
        self._in_order = in_order
        self._database = Database(plan.options.database)
        self._sink = TableWriter(self._database, plan)
        self._warned = False

    def _write(self, query: StreamingQuery, batch: DataFrame, batch_id: int, *, by_tasks: bool) -> int:
        query_id, streams = str(query.id), identities_of(query)
        writer = Writer(
            self._sink_id or query_id,
            query_id,
            batch_id,
            {name: each.incarnation for name, each in streams.items()},
            {name: each.created_at_ms for name, each in streams.items() if each.created_at_ms is not None},
        )
        # The streams of a query are known from its batches only, so the warning can't come at the start.
        self._warn_once(writer)
        letters.publish_left(self._database, self._plan.options.dead_letters, writer)
        written = self._write_by_tasks(writer, batch) if by_tasks else self._write_on_driver(writer, batch)
        self._count_dead_letters(written.refused)
        letters.publish(self._database, self._plan.options.dead_letters, writer)
        return written.size_bytes

    def _warn_once(self, writer: Writer) -> None:
        """Name streams of the first batch whose rows may be left out if they were created again."""
        if self._warned:
            return
        streams = self._database.run("reading positions", lambda cursor: unknown(cursor, writer))
        if streams:
            shown = ", ".join(map(repr, streams[:_MAX_SHOWN])) + (", …" if len(streams) > _MAX_SHOWN else "")
            logger.warning(
                "positions of an earlier version do not contain the incarnations of %d streams: %s. If one of them was "
                "created anew since, delete its row in %s, or its rows before the old position are left out",
                *(len(streams), shown, TABLE),
            )
        self._warned = True

    def close(self) -> None:
        """Close the connection, once no batch is being written."""
        with self._writing:
            self._database.close()

    def _write_on_driver(self, writer: Writer, batch: DataFrame) -> RowCounts:
        table = batch.toArrow()
        if not self._in_order:
            table = table.sort_by([(STREAM, "ascending"), (OFFSET, "ascending")])
        return self._sink.write(writer, table.to_batches())

    def _write_by_tasks(self, writer: Writer, batch: DataFrame) -> RowCounts:
        if not self._in_order:
            # A position is the end of a prefix of its stream, so one task must have all rows of a stream, in order.
            batch = batch.repartition(STREAM).sortWithinPartitions(STREAM, OFFSET)
        counts = write_by_tasks(batch, TableTaskWriter(self._plan, writer), RowCounts)
        return RowCounts(
            sum(each.rows for each in counts),
            sum(each.refused for each in counts),
            sum(each.size_bytes for each in counts),
        )


def write_postgres(  # noqa: PLR0913 - each has a name, and most a default
    df: DataFrame,
    checkpoint: str,
    *,
    url: str | None = None,
    table: str = SESSION_EVENTS,
    columns: Mapping[str, str] | None = None,
    mode: str = "append",
    entity_type: str | None = None,
    create_table: bool = False,
    dead_letters: str = "table",
    server_url: str | None = None,
    server_token: str | None = None,
    server: ServerOptions | None = None,
    sink_id: str = "",
    retry_secs: float = 15.0,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    on_dead_letters: OnDeadLetters | None = None,
    tuning: TableTuning = DEFAULT_TABLE_TUNING,
) -> StreamingQuery:
    """Begin to write messages to a table of Postgres, exactly once, and return the query.

        write_postgres(spark.readStream.format("everbrook").load("session-events"), "/checkpoints/events",
                       url="postgresql://postgres:password@127.0.0.1:54321/durable_streams")

    `df` has the columns of the source (stream, offset, next_offset, value …). `columns` says which part of a message
    goes into which column of the table; without it, these are the columns of `session_events`. With `mode="state"` each
    entity is one row. A message that fits in no row goes to the table `everbrook_dead_letters`, or to a stream
    (`dead_letters="stream:name"`, at `server_url`, or at `server` with all options of a connection).
    """
    require_local(df, "write_postgres")
    server = server or ServerOptions(url=server_url, token=server_token)
    options = parse_options(
        url=url,
        table=table,
        server=server,
        columns=columns,
        mode=mode,
        entity_type=entity_type,
        create_table=create_table,
        dead_letters=dead_letters,
        retry_secs=retry_secs,
    )
    database = Database(options.database)
    try:
        plan = prepare(database, options)
        metadata = [path.name for path in plan.paths.values() if isinstance(path, Metadata) and path.name in METADATA]
        require_messages(df.schema, (STREAM, OFFSET, NEXT_OFFSET, *metadata))
    finally:
        database.close()
    in_order = whole_streams(df)
    batches = TableBatchWriter(plan, sink_id, in_order=in_order, tuning=tuning, on_dead_letters=on_dead_letters)
    query = batches.start(write_with(df, checkpoint, trigger, query_name))
    threading.Thread(target=_close_at_end, args=(query, batches), daemon=True, name="everbrook-postgres").start()
    return query


def _close_at_end(query: StreamingQuery, batches: TableBatchWriter) -> None:
    """Close the connection of a query when that ends, however it does."""
    try:
        query.awaitTermination()
    except (PySparkException, Py4JError, OSError):
        pass  # the thread that waits for the query gets the error
    finally:
        batches.close()
