"""What the sinks share that write with a `foreachBatch`: their query, and the choice between driver and tasks.

The driver writes a small batch, which takes the least time; tasks write a large one. A batch of unknown size counts as
large if it reads much, is the first, or follows a large one.
"""

from collections.abc import Callable
from concurrent.futures import Future

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.spark.sinks.query_plan import size_of_batch


class RunningQuery:
    """The query whose batches are written. Spark gives it once it runs; the first batch waits for it."""

    def __init__(self, large_bytes: int, *, keeps_size: bool = True) -> None:
        """Take the size of a large batch. `keeps_size` means that a batch has about the size of what it reads."""
        self._large_bytes = large_bytes
        self._keeps_size = keeps_size
        self._started: Future[StreamingQuery] = Future()
        self.written_bytes: int | None = None
        """The size of the last batch, which its writer sets."""

    def start(self, writer: DataStreamWriter, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start the query with the function that writes its batches."""
        query = writer.foreachBatch(write).start()
        self._started.set_result(query)
        return query

    def get(self) -> StreamingQuery:
        """Give the query."""
        return self._started.result()

    def in_large_batch(self) -> bool:
        """Tell whether the batch that runs may be too large for the driver."""
        read_bytes = size_of_batch(self.get())
        known = self._keeps_size and read_bytes is not None
        sizes = [read_bytes] if known else [read_bytes or 0, self.written_bytes]
        return any(size is None or size > self._large_bytes for size in sizes)
