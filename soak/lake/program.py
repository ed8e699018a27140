"""The driver's program: `python -m soak.lake.program SETTINGS`. It writes streams to a table until it is killed.

The settings are JSON: where the server and the table are, how this run parts its work, whether the rules hold, and
whether the run takes what is there and ends.
"""

import json
import sys
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from everbrook.spark import write_lake, write_stream
from everbrook.spark.options import TableTuning
from soak.lake.moments import TABLE, forget_batches, watch
from soak.lake.verdict import ODD
from soak.spark.cases import MAX_APPEND_BYTES
from soak.spark.journal import BEGAN, note
from soak.spark.sessions import begin_query, begin_session

SOURCE, AGAIN = "many/", "again/"
REPLAY = "replay"


def main(settings: dict[str, Any]) -> None:
    """Run the query, whose error ends the program."""
    watch()
    if settings["flaw"]:
        forget_batches()
    spark = begin_session(settings["scratch"], settings["cores"])
    query = begin_query(partial(_replay if settings["replay"] else _start, spark, settings))
    note("driver", BEGAN)
    query.awaitTermination()
    spark.stop()


def _start(spark: SparkSession, settings: dict[str, Any]) -> Any:  # noqa: ANN401 - a query
    options = {"url": settings["url"], "streamPrefix": SOURCE, "startingOffsets": "earliest"}
    if settings["max_rows"]:
        options["maxRowsPerTrigger"] = str(settings["max_rows"])
    return write_lake(
        spark.readStream.format("everbrook").options(**options).load(),
        f"{settings['checkpoints']}/{TABLE}",
        path=settings["table"],
        compact_after=6,
        retention_hours=0,
        trigger={"availableNow": True} if settings["last"] else None,
        tuning=TableTuning(large_bytes=settings["large_bytes"]),
    )


def _replay(spark: SparkSession, settings: dict[str, Any]) -> Any:  # noqa: ANN401
    rows = spark.readStream.format("everbrook_lake").options(batchBytes=settings["batch_bytes"]).load(settings["table"])
    copies = rows.where(f"stream <> '{ODD}'").selectExpr(
        f"replace(stream, '{SOURCE}', '{AGAIN}') AS stream", "offset", "value"
    )
    options = {"url": settings["url"], "autoCreate": True, "maxAppendBytes": MAX_APPEND_BYTES}
    trigger = {"availableNow": True}
    return write_stream(copies, f"{settings['checkpoints']}/{REPLAY}", trigger=trigger, **options)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
