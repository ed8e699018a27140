"""The driver's program: `python -m soak.recreate.program SETTINGS`. Jobs of every kind read the same streams.

The settings are JSON: where the server, the database, the table and the checkpoints are, how much a batch takes,
whether incarnations are hidden from the jobs, and whether the run takes what is there and ends.
"""

import json
import sys
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from everbrook.spark import fold_streams, write_lake, write_postgres, write_stream
from soak.recreate.flaw import Forgetful
from soak.recreate.streams import PREFIX
from soak.spark.sessions import begin_query, begin_session, run_to_end

STREAM, POSTGRES, LAKE, FOLD = JOBS = ("stream", "postgres", "lake", "fold")
COPIES, TABLE = "out/", "log"


def main(settings: dict[str, Any]) -> None:
    """Run the jobs. One that ends with an error ends the program."""
    spark = begin_session(settings["scratch"], 2)
    if settings["flaw"]:
        spark.dataSource.register(Forgetful)
    queries = [begin_query(partial(_start, spark, job, settings)) for job in settings["jobs"]]
    run_to_end(spark, queries, last=settings["last"])


def _start(spark: SparkSession, job: str, settings: dict[str, Any]) -> Any:  # noqa: ANN401
    checkpoint, url = f"{settings['checkpoints']}/{job}", settings["url"]
    trigger = {"availableNow": True} if settings["last"] else None
    if job == FOLD:
        return fold_streams(spark, checkpoint, streamPrefix=PREFIX, url=url, history="keep", trigger=trigger)
    rows = _rows(spark, settings)
    if job == STREAM:
        copies = rows.selectExpr(f"replace(stream, '{PREFIX}', '{COPIES}') AS stream", "value", "offset")
        return write_stream(copies, checkpoint, trigger=trigger, url=url, autoCreate=True)
    if job == LAKE:
        return write_lake(rows, checkpoint, path=settings["table"], schema="raw", trigger=trigger)
    return write_postgres(
        rows,
        checkpoint,
        url=settings["postgres"],
        table=TABLE,
        columns={"stream": "@stream", "key": "key"},
        sink_id="soak",
        retry_secs=60.0,
        trigger=trigger,
    )


def _rows(spark: SparkSession, settings: dict[str, Any]) -> DataFrame:
    options = {"url": settings["url"], "streamPrefix": PREFIX, "startingOffsets": "earliest", "failOnDataLoss": "false"}
    if settings["max_rows"]:
        options["maxRowsPerTrigger"] = str(settings["max_rows"])
    return spark.readStream.format("everbrook").options(**options).load()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
