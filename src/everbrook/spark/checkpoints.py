"""Checkpoints of queries that were killed.

Spark writes a file of a checkpoint under another name and renames it. If it is killed in between for the very first
batch, what is left makes it refuse the checkpoint for ever, as one that is not new.

A batch that was begun and not finished is run again, and must be written in the same pieces: their size is kept beside
Spark's files, and may change only between batches.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from everbrook.spark.given import InvalidOption

_SCHEME = "file://"
_PIECES = "everbrook-append-bytes"


def write_with(
    df: DataFrame, checkpoint: str, trigger: Mapping[str, Any] | None = None, query_name: str | None = None
) -> DataStreamWriter:
    """Begin to write a streaming data frame, with a checkpoint that Spark can go on with."""
    clear_unfinished(checkpoint)
    writer = df.writeStream.option("checkpointLocation", checkpoint)
    writer = writer if trigger is None else writer.trigger(**trigger)
    return writer if query_name is None else writer.queryName(query_name)


def clear_unfinished(checkpoint: str) -> None:
    """Remove what a kill has left of files that were being written, if the checkpoint is on this machine."""
    folder = _folder(checkpoint)
    for left in (*folder.glob("offsets/.*.tmp"), *folder.glob("commits/.*.tmp")):
        left.unlink(missing_ok=True)


def keep_append_bytes(checkpoint: str, max_append_bytes: int) -> None:
    """Keep how large appends are, if the checkpoint is on this machine. Refuse a change in the middle of a batch."""
    folder = _folder(checkpoint)
    kept = folder / _PIECES
    before = int(kept.read_text()) if kept.exists() else max_append_bytes
    if before != max_append_bytes and (batch := _unfinished(folder)) is not None:
        raise InvalidOption(
            f"maxAppendBytes is {max_append_bytes} and was {before} when batch {batch} was begun, which is not "
            f"finished: rows of it would be written twice. Let it be finished with {before} first"
        )
    if folder.is_absolute() or "://" not in checkpoint:
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_text(str(max_append_bytes))


def _folder(checkpoint: str) -> Path:
    return Path(checkpoint.removeprefix(_SCHEME))


def _unfinished(folder: Path) -> int | None:
    """Find the batch that was begun and not finished."""
    begun = max((int(file.name) for file in folder.glob("offsets/*") if file.name.isdecimal()), default=-1)
    done = max((int(file.name) for file in folder.glob("commits/*") if file.name.isdecimal()), default=-1)
    return begun if begun > done else None
