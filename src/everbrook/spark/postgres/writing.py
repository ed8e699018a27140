"""Writing a streaming query to a table: everything is checked before it begins, and closed when it has ended."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.checkpoints import write_with
from everbrook.spark.given import InvalidOption
from everbrook.spark.messages import require_messages
from everbrook.spark.options import ServerOptions
from everbrook.spark.plans import whole_streams
from everbrook.spark.postgres import dead_letters as letters
from everbrook.spark.postgres.batches import BatchWriting
from everbrook.spark.postgres.database import Database, parse_database
from everbrook.spark.postgres.paths import TOLD, Told
from everbrook.spark.postgres.pieces import NEXT_OFFSET, OFFSET, STREAM
from everbrook.spark.postgres.sinks import SinkOptions, parse_sink, prepare
from everbrook.spark.shipping import is_remote
from everbrook.spark.tuning import DEFAULT_TABLE_TUNING, TableTuning

SESSION_EVENTS = "session_events"


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
    on_dead_letters: Callable[[int], None] | None = None,
    tuning: TableTuning = DEFAULT_TABLE_TUNING,
) -> StreamingQuery:
    """Begin to write messages to a table of Postgres, exactly once, and give the query.

        write_postgres(spark.readStream.format("everbrook").load("session-events"), "/checkpoints/events",
                       url="postgresql://postgres:password@127.0.0.1:54321/durable_streams")

    `df` has the columns of the source (stream, offset, next_offset, value …). `columns` says which part of a message
    goes into which column of the table; without it, these are the columns of `session_events`. With `mode="state"` each
    entity is one row. What fits in no row goes to the table `everbrook_dead_letters`, or to a stream
    (`dead_letters="stream:name"`, at `server_url`; `server` has all that is to be said of it, if that is more).
    """
    if is_remote(df.sparkSession):
        raise InvalidOption(
            "write_postgres runs on the driver, which Spark Connect does not let it: use a session of this process"
        )
    chosen = None if columns is None else tuple(columns.items())
    options = parse_sink(
        SinkOptions(
            parse_database(url, retry_secs),
            table,
            chosen,
            mode,
            create_table,
            entity_type,
            letters.parse_dead_letters(dead_letters, server or ServerOptions(url=server_url, token=server_token)),
        )
    )
    database = Database(options.database)
    try:
        plan = prepare(database, options)
        told = [path.name for path in plan.paths.values() if isinstance(path, Told) and path.name in TOLD]
        require_messages(df.schema, (STREAM, OFFSET, NEXT_OFFSET, *told))
    finally:
        database.close()
    in_order = whole_streams(df)
    batches = BatchWriting(plan, sink_id, in_order=in_order, tuning=tuning, on_dead_letters=on_dead_letters)
    return _start(df, checkpoint, batches, trigger, query_name)


def _start(
    df: DataFrame, checkpoint: str, batches: BatchWriting, trigger: Mapping[str, Any] | None, query_name: str | None
) -> StreamingQuery:
    query = write_with(df, checkpoint, trigger, query_name).foreachBatch(batches.write).start()
    batches.begin(query)
    threading.Thread(target=_close_at_end, args=(query, batches), daemon=True, name="everbrook-postgres").start()
    return query


def _close_at_end(query: StreamingQuery, batches: BatchWriting) -> None:
    """Close the connection of a query when that ends, however it does."""
    try:
        query.awaitTermination()
    except (PySparkException, Py4JError, OSError):
        pass  # whoever waits for the query is told
    finally:
        batches.close()
