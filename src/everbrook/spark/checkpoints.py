"""Checkpoints of queries that were killed.

Spark writes a file of a checkpoint under another name and renames it. If it is killed in between for the very first
batch, what is left makes it refuse the checkpoint for ever, as one that is not new.
"""

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

_SCHEME = "file://"


def write_with(df: DataFrame, checkpoint: str) -> DataStreamWriter:
    """Begin to write a streaming data frame, with a checkpoint that Spark can go on with."""
    clear_unfinished(checkpoint)
    return df.writeStream.option("checkpointLocation", checkpoint)


def clear_unfinished(checkpoint: str) -> None:
    """Remove what a kill has left of files that were being written, if the checkpoint is on this machine."""
    folder = Path(checkpoint.removeprefix(_SCHEME))
    for left in (*folder.glob("offsets/.*.tmp"), *folder.glob("commits/.*.tmp")):
        left.unlink(missing_ok=True)
