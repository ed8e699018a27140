"""A query from streams to a table, as a user writes it, and what happens to it."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark import write_postgres
from everbrook.spark.options import TableTuning

TIMEOUT_SECS = 180


class Job:
    """A query that is started and started again with one checkpoint."""

    def __init__(self, spark: SparkSession, server: str, prefix: str, url: str, checkpoint: Path) -> None:
        self._spark = spark
        self._server = server
        self.prefix = prefix
        self.url = url
        self.checkpoint = checkpoint
        self.tuning = TableTuning()
        self.change: Callable[[DataFrame], DataFrame] = lambda frame: frame

    def copied(self, name: str) -> "Job":
        """Give a job that goes on from the same place by itself."""
        checkpoint = self.checkpoint.with_name(name)
        shutil.copytree(self.checkpoint, checkpoint)
        return Job(self._spark, self._server, self.prefix, self.url, checkpoint)

    def frame(self, **options: str) -> DataFrame:
        reader = self._spark.readStream.format("everbrook")
        chosen = {"url": self._server, "streamPrefix": self.prefix, "startingOffsets": "earliest", **options}
        return self.change(reader.options(**chosen).load())

    def start(self, source: dict[str, str] | None = None, **options: Any) -> StreamingQuery:  # noqa: ANN401 - those of write_postgres
        chosen: dict[str, Any] = {"url": self.url, "retry_secs": 1.0, "server_url": self._server, "tuning": self.tuning}
        chosen |= options
        return write_postgres(self.frame(**(source or {})), str(self.checkpoint), **chosen)

    def run(self, source: dict[str, str] | None = None, **options: Any) -> None:  # noqa: ANN401
        """Write all that is there now."""
        assert self.start(source, trigger={"availableNow": True}, **options).awaitTermination(TIMEOUT_SECS)


def failure_of(query: StreamingQuery) -> str:
    """Wait until a query fails, and give what is said of it."""
    try:
        ended = query.awaitTermination(TIMEOUT_SECS)
    except StreamingQueryException as error:
        return str(error)
    raise AssertionError(f"the query {'ended well' if ended else 'goes on'}")


def until(true: Callable[[], bool], query: StreamingQuery | None = None) -> None:
    """Wait until something is true. If the query that makes it true fails, its error is raised."""
    deadline = time.monotonic() + TIMEOUT_SECS
    while not true():
        if query is not None and (error := query.exception()) is not None:
            raise error
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)
