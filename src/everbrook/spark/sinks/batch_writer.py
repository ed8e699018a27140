"""Writes micro-batches with `foreachBatch`, on the driver or in tasks: the base of the queries of all three sinks.

The driver writes a small batch, which takes the least time; tasks write a large one. A batch of unknown size counts as
large if it reads much, is the first, or follows a large one.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.spark.options import InvalidOption
from everbrook.spark.package_archive import is_remote
from everbrook.spark.sinks.query_plan import size_of_batch

OnDeadLetters = Callable[[int], None]
"""Is called with the number of dead letters of a batch, if it has any."""


class MicroBatchWriter(ABC):
    """Writes the batches of one query, one at a time."""

    def __init__(
        self, large_bytes: int, *, keeps_size: bool = True, on_dead_letters: OnDeadLetters | None = None
    ) -> None:
        """Take the size of a large batch. `keeps_size` means that a batch has about the size of what it reads."""
        self._large_bytes = large_bytes
        self._keeps_size = keeps_size
        self._on_dead_letters = on_dead_letters
        self._started: Future[StreamingQuery] = Future()
        self._writing = threading.Lock()
        self._written_bytes: int | None = None

    def start(self, writer: DataStreamWriter) -> StreamingQuery:
        query = writer.foreachBatch(self.write).start()
        self._started.set_result(query)
        return query

    def write(self, batch: DataFrame, batch_id: int) -> None:
        # Spark may run the first batch before `start` has returned the query, whose id identifies the batch.
        query = self._started.result()
        with self._writing:
            self._written_bytes = self._write(query, batch, batch_id, by_tasks=self._is_large(query))

    @abstractmethod
    def _write(self, query: StreamingQuery, batch: DataFrame, batch_id: int, *, by_tasks: bool) -> int | None:
        """Write a batch, and return its size if it was written now."""

    def _is_large(self, query: StreamingQuery) -> bool:
        read_bytes = size_of_batch(query)
        known = self._keeps_size and read_bytes is not None
        sizes = [read_bytes] if known else [read_bytes or 0, self._written_bytes]
        return any(size is None or size > self._large_bytes for size in sizes)

    def _count_dead_letters(self, count: int) -> None:
        if count and self._on_dead_letters is not None:
            self._on_dead_letters(count)


def require_local(df: DataFrame, name: str) -> None:
    """Refuse Spark Connect, where the function of a `foreachBatch` would run on the server, not in this process."""
    if is_remote(df.sparkSession):
        raise InvalidOption(
            f"{name} runs on the driver, which Spark Connect does not let it: use a session of this process"
        )
