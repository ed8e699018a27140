"""The driver's program: `python -m soak.spark.program SETTINGS`. It copies streams until it is killed.

The settings are JSON: the cases, the shape of this run, where the server and the checkpoints are, and whether the run
takes what is there and ends.
"""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from everbrook.spark.options import StreamTuning
from everbrook.spark.sinks.checkpoint import write_with
from everbrook.spark.streams.stream_query import start_writing
from soak.spark.cases import CASES, MAX_APPEND_BYTES, Case
from soak.spark.driver import STARVED
from soak.spark.flaws import HEADER
from soak.spark.journal import JOURNAL, READER, Journal
from soak.spark.sessions import TRIES, begin_session, run_to_end
from soak.spark.watching import Watched, watch_helper

TUNING = StreamTuning(large_bytes=128 * 1024)
"""From which size of a batch on tasks append the next one: less than the product has, so that both happen."""
_READER_SECS = 60.0


def main(settings: dict[str, Any]) -> None:
    """Run the queries. One that ends with an error ends the program."""
    watch_helper()
    spark = _session(settings)
    cases = [CASES[name] for name in settings["cases"]]
    queries = [_begin(_rows(spark, case, settings), case, settings) for case in cases]
    run_to_end(spark, queries, last=settings["last"])


def _session(settings: dict[str, Any]) -> SparkSession:
    shape = settings["shape"]
    partitions = {"spark.sql.shuffle.partitions": str(shape["shuffle_partitions"])}
    spark = begin_session(settings["scratch"], shape["cores"], partitions)
    spark.dataSource.register(Watched)
    return spark


def _rows(spark: SparkSession, case: Case, settings: dict[str, Any]) -> DataFrame:
    shape = settings["shape"]
    options = {
        "url": settings["url"],
        f"header.{HEADER}": case.name,
        "streamPrefix": case.source,
        "startingOffsets": "earliest",
        "minPartitions": shape["min_partitions"],
        "maxPartitions": shape["max_partitions"],
        "readOn": "tasks" if case.by_tasks else "auto",
        **({"maxRowsPerTrigger": shape["max_rows"]} if shape["max_rows"] else {}),
    }
    frame = spark.readStream.format("everbrook").options(**options).load()
    parts = 3 if case.flaw == "no order" else shape["repartition"]
    frame = frame.repartition(parts) if parts else frame
    stream = () if case.merged else (f"replace(stream, '{case.source}', '{case.target}') AS stream",)
    value = r"concat(value, '\n') AS value" if case.text else "value"
    return frame.selectExpr(*stream, value, "offset")


def _start(frame: DataFrame, case: Case, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - a query
    checkpoint, trigger = f"{settings['checkpoints']}/{case.name}", {"availableNow": True} if settings["last"] else None
    options: dict[str, Any] = {
        "url": settings["url"],
        f"header.{HEADER}": case.name,
        "autoCreate": True,
        **({"contentType": "text/plain"} if case.text else {}),
        # Without an order rows must fit in one append, or they are refused.
        **({} if case.flaw == "no order" else {"maxAppendBytes": MAX_APPEND_BYTES}),
        **({"stream": case.target} if case.merged else {}),
        **({"sinkId": case.name} if case.flaw else {}),
    }
    if case.helper:
        writer = write_with(frame, checkpoint, trigger)
        return start_writing(frame, checkpoint, writer, options, ends=trigger is not None, tuning=TUNING)
    writer = frame.writeStream.format("everbrook").option("checkpointLocation", checkpoint)
    writer = writer if trigger is None else writer.trigger(availableNow=True)
    return writer.options(**options).start()


def _begin(frame: DataFrame, case: Case, settings: dict[str, Any]) -> Any:  # noqa: ANN401
    """Start a query, and wait until its reader is there: all at once take longer to start than Spark has patience."""
    journal = Journal(Path(os.environ[JOURNAL]))
    for _ in range(TRIES):
        start = journal.end()
        query = _start(frame, case, settings)
        journal.wait(case.name, {READER}, start, _READER_SECS, while_true=partial(getattr, query, "isActive"))
        if STARVED not in str(query.exception()):
            return query
    raise RuntimeError(f"{case.name}: {STARVED}")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
