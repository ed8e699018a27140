"""`fold_streams` and `fold_due`: plans of the source become snapshots, and reports of them.

A fold continues from the snapshots. So a fold of what is due now needs no streaming query with a position: a batch of
Spark does it, which starts within a tenth of the time.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from everbrook.spark.arrival import as_function
from everbrook.spark.folds.due_streams import FORMAT
from everbrook.spark.folds.fold_options import FoldOptions, parse_folds
from everbrook.spark.folds.fold_task import FoldTask, Function, load_function
from everbrook.spark.folds.report import SCHEMA, as_messages
from everbrook.spark.options import InvalidOption, format_options
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.streams.stream_query import ClosingQuery, write_stream

Option = str | int | float | bool

_OF_SERVER = ("url", "token", "tokenFile", "caFile", "certFile", "keyFile", "insecure", "timeoutSecs", "bucket")


def fold_streams(
    spark: SparkSession,
    checkpoint: str,
    *,
    function: Function | str | None = None,
    reports: str | None = None,
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    **options: Option,
) -> StreamingQuery | ClosingQuery:
    """Begin to fold streams, and publish their snapshots, and return the query.

        fold_streams(spark, "/checkpoints/folds", streamPattern="sessions/**", trigger={"availableNow": True})

    The options are those of the format `everbrook_folds`. The outcomes are written to the stream `reports`, if one is
    named. A `function`, or the name of one, folds streams whose messages are no changes.
    """
    given, function = _given(function, options)
    parsed = parse_folds(given)
    if reports is not None and reports in parsed.selection:
        raise InvalidOption(f"reports is {reports!r}, which is one of the streams that are folded: without end")
    plans = spark.readStream.format(FORMAT).options(**given).load()
    found = fold(plans, parsed, function)
    if reports is not None:
        server = {name: text for name, text in given.items() if _of_server(name)}
        sink: dict[str, Any] = {"stream": reports, "autoCreate": True, **server}
        return write_stream(as_messages(found), checkpoint, trigger=trigger, query_name=query_name, **sink)
    return write_with(found, checkpoint, trigger, query_name).format("noop").start()


def fold_due(spark: SparkSession, *, function: Function | str | None = None, **options: Option) -> pa.Table:
    """Fold the streams that are due now, publish their snapshots, and return the reports.

        fold_due(spark, streamPattern="sessions/**").column("outcome")

    The options are those of the format `everbrook_folds`. There is no checkpoint: after a crash, another call folds
    what is still due.
    """
    given, function = _given(function, options)
    plans = spark.read.format(FORMAT).options(**given).load()
    return fold(plans, parse_folds(given), function).toArrow()


def _given(function: Function | str | None, options: Mapping[str, Option]) -> tuple[dict[str, str], Function | None]:
    """Return options as text, and the function unless it is given by its name."""
    given = format_options(options)
    return (given | {"function": function}, None) if isinstance(function, str) else (given, function)


def fold(plans: DataFrame, options: FoldOptions, function: Function | None = None) -> DataFrame:
    """Fold the streams of plans when Spark computes the rows of the result: a report for each stream."""
    if options.function is not None:
        load_function(options.function)  # an error is raised now, on the driver
    task: Callable[[Any], Any] = as_function(FoldTask(options, function))
    return plans.mapInArrow(task, SCHEMA)


def _of_server(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith("header.") or lowered in {each.lower() for each in _OF_SERVER}
