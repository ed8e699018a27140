"""What programs that use Spark elsewhere do: functions that run in a process of their own."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from everbrook.spark import ProgressListener, fold_due, fold_streams, register, session, write_stream

TIMEOUT_SECS = 200
T = TypeVar("T")
_sessions: list[SparkSession] = []


class Failed(Exception):
    """What Spark said. Its own errors can't be sent from process to process."""


def call(function: Callable[..., T], *arguments: Any, **options: Any) -> T:  # noqa: ANN401 - what it takes
    """Call a function of this module."""
    try:
        return function(*arguments, **options)
    except PySparkException as error:
        raise Failed(str(error)) from None


def begin(settings: dict[str, Any], environment: dict[str, str]) -> None:
    """Begin the session of this process."""
    os.environ.update(environment)
    _sessions.append(session(**settings))


def use_python(python: str) -> None:
    """Let tasks run another Python than that of the driver."""
    _spark().conf.set("spark.sql.execution.pyspark.python", python)


def ship() -> None:
    """Send the package to where it is missing."""
    register(_spark(), ship=True)


def end() -> None:
    """End it."""
    while _sessions:
        _sessions.pop().stop()


def _spark() -> SparkSession:
    return _sessions[-1]


def values(options: dict[str, str]) -> list[Any]:
    """Read a batch of JSON, and give its values in order."""
    frame = _spark().read.format("everbrook").options(**options).load()
    return [json.loads(row.value) for row in frame.orderBy("stream", "offset").select("value").collect()]


def rows_by_executor(options: dict[str, str]) -> Counter[str]:
    """Read a batch, and count its rows in the working folder of each executor that read them."""
    frame = _spark().read.format("everbrook").options(**options).load()
    counted = frame.mapInArrow(_told(), "place STRING, rows LONG").collect()
    return sum((Counter({row.place: row.rows}) for row in counted), Counter[str]())


def _told() -> Callable[[Any], Iterator[pa.RecordBatch]]:
    def told(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"place": [os.getcwd()], "rows": [batch.num_rows]})  # noqa: PTH109

    return told


def write(rows: int, options: dict[str, str]) -> None:
    """Write a batch of numbers."""
    _spark().range(rows).repartition(4).write.format("everbrook").mode("append").options(**options).save()


def copy(source: dict[str, str], sink: dict[str, str], checkpoint: Path, *, slow: bool = False) -> None:
    """Copy what is there from stream to stream with the sink. A slow one takes its time with each row."""
    frame = _live(source)
    frame = frame.mapInArrow(_slowed(), frame.schema) if slow else frame
    writer = frame.writeStream.format("everbrook").options(**sink).option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start().awaitTermination(TIMEOUT_SECS)


def copy_with_helper(source: dict[str, str], sink: dict[str, Any], checkpoint: Path) -> None:
    """Copy what is there with the helper."""
    query = write_stream(_live(source), str(checkpoint), trigger={"availableNow": True}, **sink)
    assert query.awaitTermination(TIMEOUT_SECS)


def copy_with_listener(source: dict[str, str], sink: dict[str, Any], checkpoint: Path, progress: str) -> None:
    """Copy what is there, and publish the progress to a stream."""
    listener = ProgressListener(progress, url=source["url"])
    _spark().streams.addListener(listener)
    copy_with_helper(source, sink, checkpoint)
    time.sleep(1)  # events come a little later
    _spark().streams.removeListener(listener)


def fold(options: dict[str, Any]) -> list[str]:
    """Fold what is due in a batch, and tell what became of each stream."""
    outcomes: list[str] = fold_due(_spark(), **options).column("outcome").to_pylist()
    return outcomes


def fold_by_query(options: dict[str, Any], checkpoint: Path, reports: str) -> None:
    """Fold what is due by a query, which reports to a stream."""
    query = fold_streams(_spark(), str(checkpoint), reports=reports, trigger={"availableNow": True}, **options)
    assert query.awaitTermination(TIMEOUT_SECS)


def _live(options: dict[str, str]) -> DataFrame:
    return _spark().readStream.format("everbrook").options(startingOffsets="earliest", **options).load()


def _slowed() -> Callable[[Any], Iterator[pa.RecordBatch]]:
    def slowed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.01 * batch.num_rows)
            yield batch

    return slowed
