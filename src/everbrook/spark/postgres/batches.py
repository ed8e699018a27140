"""Batches of a query, written to a table: small ones by the driver, which costs the least time, large ones by tasks.

Each task gets whole streams, in the order of their offsets. Rows that come straight from the source are so already;
others are parted and sorted anew. Both ways write by the same rule (see `sinks`), so that it does not matter if a batch
is begun in one way and finished in the other.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.arrival import Arriving, as_function
from everbrook.spark.plans import identities_of, size_of_batch
from everbrook.spark.postgres import dead_letters as letters
from everbrook.spark.postgres.copying import numbers_of
from everbrook.spark.postgres.database import Database
from everbrook.spark.postgres.pieces import OFFSET, STREAM
from everbrook.spark.postgres.positions import TABLE, Writer, unknown
from everbrook.spark.postgres.sinks import Plan, Sink, Written
from everbrook.spark.reading import settle_worker
from everbrook.spark.tuning import TableTuning

logger = logging.getLogger(__name__)

_MAX_SHOWN = 10
_COUNTS = "rows LONG, refused LONG, size_bytes LONG"


class BatchWriting:
    """Writes the batches of one query."""

    def __init__(
        self,
        plan: Plan,
        sink_id: str,
        *,
        in_order: bool,
        tuning: TableTuning,
        on_dead_letters: Callable[[int], None] | None = None,
    ) -> None:
        self._plan = plan
        self._tuning = tuning
        self._on_dead_letters = on_dead_letters
        self._sink_id = sink_id
        self._in_order = in_order
        self._database = Database(plan.options.database)
        self._sink = Sink(self._database, plan)
        self._begun: Future[StreamingQuery] = Future()
        self._last_bytes: int | None = None
        self._warned = False
        self._writing = threading.Lock()

    def begin(self, query: StreamingQuery) -> None:
        """Tell which query it is, which is known once it runs. The first batch waits for it."""
        self._begun.set_result(query)

    def write(self, batch: DataFrame, batch_id: int) -> None:
        """Write a batch."""
        query = self._begun.result()
        query_id = str(query.id)
        streams = identities_of(query)
        writer = Writer(
            self._sink_id or query_id,
            query_id,
            batch_id,
            {name: each.incarnation for name, each in streams.items()},
            {name: each.created_at_ms for name, each in streams.items() if each.created_at_ms is not None},
        )
        with self._writing:
            self._warn_once(writer)
            size_bytes = size_of_batch(query)
            expected = self._last_bytes if size_bytes is None else size_bytes
            large = expected is None or expected > self._tuning.large_bytes
            written = self._write_by_tasks(writer, batch) if large else self._write_here(writer, batch)
            self._last_bytes = written.size_bytes
            if written.refused and self._on_dead_letters is not None:
                self._on_dead_letters(written.refused)
            if self._plan.options.dead_letters.stream is not None:
                letters.publish(self._database, self._plan.options.dead_letters, writer)

    def _warn_once(self, writer: Writer) -> None:
        """Name streams of the first batch whose rows may be left out if they were created anew."""
        if self._warned:
            return
        streams = self._database.run("reading positions", lambda cursor: unknown(cursor, writer))
        if streams:
            shown = ", ".join(map(repr, streams[:_MAX_SHOWN])) + (", …" if len(streams) > _MAX_SHOWN else "")
            logger.warning(
                "positions of an earlier version do not tell the incarnations of %d streams: %s. If one of them was "
                "created anew since, delete its row in %s, or its rows before the old position are left out",
                *(len(streams), shown, TABLE),
            )
        self._warned = True

    def close(self) -> None:
        """Close the connection."""
        with self._writing:
            self._database.close()

    def _write_here(self, writer: Writer, batch: DataFrame) -> Written:
        table = batch.toArrow()
        if not self._in_order:
            table = table.sort_by([(STREAM, "ascending"), (OFFSET, "ascending")])
        return self._sink.write(writer, table.to_batches())

    def _write_by_tasks(self, writer: Writer, batch: DataFrame) -> Written:
        if not self._in_order:
            batch = batch.repartition(STREAM).sortWithinPartitions(STREAM, OFFSET)
        done = batch.mapInArrow(as_function(TaskWriting(self._plan, writer)), _COUNTS).collect()
        return Written(*(sum(row[place] for row in done) for place in range(3)))


class TaskWriting(metaclass=Arriving):
    """What a task does with its rows."""

    def __init__(self, plan: Plan, writer: Writer) -> None:
        self._plan = plan
        self._writer = writer

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write rows over a connection of this task, and tell how many."""
        settle_worker()
        database = Database(self._plan.options.database)
        try:
            written = Sink(database, self._plan).write(self._writer, batches)
        finally:
            database.close()
        counts = (written.rows, written.refused, written.size_bytes)
        yield pa.RecordBatch.from_arrays([numbers_of([count]) for count in counts], ["rows", "refused", "size_bytes"])
