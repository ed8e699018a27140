"""Checkpoints of queries that were killed, and the files that Everbrook keeps in them beside Spark's.

Spark writes a file of a checkpoint under a temporary name and renames it. If it is killed in between for the very first
batch, the temporary file makes it refuse the checkpoint for ever as not empty.

A batch that was begun and not finished is run again, and must be written in the same appends. So the size of appends
and the order of rows are recorded, and may change only between batches. A query that closes its streams records their
names, because it may end in another process than the one that wrote them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.spark.options import InvalidOption
from everbrook.spark.package_archive import is_remote

T = TypeVar("T")
_PIECES, _ORDER, _STREAMS = "everbrook-append-bytes", "everbrook-order", "everbrook-streams"


def write_with(
    df: DataFrame, checkpoint: str, trigger: Mapping[str, Any] | None = None, query_name: str | None = None
) -> DataStreamWriter:
    """Make the writer of a streaming data frame, whose checkpoint Spark can continue."""
    if not is_remote(df.sparkSession):
        Checkpoint(df.sparkSession, checkpoint).clear_unfinished()
    writer = df.writeStream.option("checkpointLocation", checkpoint)
    writer = writer if trigger is None else writer.trigger(**trigger)
    return writer if query_name is None else writer.queryName(query_name)


class Checkpoint:
    """The folder of a checkpoint, through Spark's own file manager: on any file system, by any form of its URL.

    A file is written as a whole or not at all.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        self._jvm = cast("Any", spark._jvm)
        self._folder = self._jvm.org.apache.hadoop.fs.Path(location)
        streaming = self._jvm.org.apache.spark.sql.execution.streaming
        settings = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = streaming.checkpointing.CheckpointFileManager.create(self._folder, settings)

    def clear_unfinished(self) -> None:
        """Remove what a kill has left of files that were being written."""
        for folder in ("offsets", "commits"):
            for name in self._names(folder):
                if name.startswith(".") and name.endswith(".tmp"):
                    self._files.delete(self._path(f"{folder}/{name}"))

    def keep_append_bytes(self, max_append_bytes: int) -> None:
        """Record the largest size of an append. Refuse to change it while a batch is unfinished."""
        self._keep(_PIECES, "maxAppendBytes", max_append_bytes)

    def keep_order(self, columns: Sequence[str]) -> None:
        """Record the order of rows. Refuse to change it while a batch with an order is unfinished."""
        self._keep(_ORDER, "orderBy", ",".join(columns))

    def _keep(self, name: str, option: str, value: T) -> None:
        before = self._read(name, type(value))
        if before == value:
            return
        if before and (batch := self._unfinished()) is not None:
            raise InvalidOption(
                f"{option} is {value!r}, but was {before!r} when batch {batch} began, which is not finished: its rows "
                f"would be lost or written twice. Run the query with {before!r} until that batch is done"
            )
        self._write(name, value)

    def streams(self) -> set[str]:
        """Return the names of the streams that were recorded."""
        return self._read(_STREAMS, set[str]) or set()

    def keep_streams(self, names: set[str]) -> None:
        """Record the names of streams, in place of those that were recorded before."""
        self._write(_STREAMS, sorted(names))

    def _unfinished(self) -> int | None:
        """Find the batch that was begun but not finished."""
        # Spark writes `offsets/N` before batch N, and `commits/N` after it.
        begun, done = (
            max((int(name) for name in self._names(folder) if name.isdecimal()), default=-1)
            for folder in ("offsets", "commits")
        )
        return begun if begun > done else None

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        return [file.getPath().getName() for file in self._files.list(path)] if self._files.exists(path) else []

    def _read(self, name: str, of: type[T]) -> T | None:
        """Read a file. One that an earlier version wrote may be empty after a kill."""
        path = self._path(name)
        if not self._files.exists(path):
            return None
        file = self._files.open(path)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(file, "UTF-8")
        finally:
            file.close()
        return msgspec.json.decode(text, type=of) if text else None

    def _write(self, name: str, value: object) -> None:
        self._files.mkdirs(self._folder)
        file = self._files.createAtomic(self._path(name), True)  # noqa: FBT003 - overwrite
        file.write(msgspec.json.encode(value))
        file.close()

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)
