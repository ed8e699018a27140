"""What Spark tells of its queries, written on the board. A query is called by the name of its job."""

from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from everbrook.spark.jobs.board import Board
from everbrook.spark.jobs.folds import counts_of
from everbrook.spark.jobs.metrics import Metrics
from everbrook.spark.progress_stream import now


class JobListener(StreamingQueryListener):
    """Counts batches and rows, and keeps the last progress of each job, by which its lag is found."""

    def __init__(self, board: Board, metrics: Metrics | None) -> None:
        self._board = board
        self._metrics = metrics
        self.last: dict[str, Any] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Say nothing: whoever has started it says so."""

    def onQueryProgress(self, event: Any) -> None:
        """Write down what a batch did. Spark also tells of its looks at which there was nothing."""
        progress = event.progress
        self.last[progress.name] = progress
        if not progress.numInputRows:
            return
        batch_ms = int(progress.durationMs.get("triggerExecution", 0))
        self._board.change(progress.name, batch=progress.batchId, batch_ms=batch_ms, batch_at=now())
        self._board.add(progress.name, batches=1, rows=progress.numInputRows, **counts_of(progress))
        if self._metrics is not None:
            self._metrics.observe_batch(progress.name, batch_ms)

    def onQueryIdle(self, event: Any) -> None:
        """Say nothing: where nothing happens nothing changes."""

    def onQueryTerminated(self, event: Any) -> None:
        """Say nothing: whoever waits for its end says so."""
