"""The session of a driver that is to be killed: small, quick to begin, and with all that it leaves in one folder."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from everbrook.spark import session
from everbrook.spark.launchers import QUICK_START
from soak.spark.driver import STARVED
from soak.spark.journal import BEGAN, note

TRIES = 5
_INITIALISING = "Initializing sources"


def begin_session(scratch: str, cores: int, config: Mapping[str, str] | None = None) -> SparkSession:
    """Begin a session on so many cores, with more settings if there are any."""
    java = f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData {QUICK_START}"
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }
    return session("soak", master=f"local[{cores}]", config={**settings, **(config or {})})


def begin_query(start: Callable[[], Any]) -> Any:  # noqa: ANN401 - a query
    """Start a query, and wait until its reader is there. If Spark gives up on the reader's Python, start it again."""
    for _ in range(TRIES):
        query = start()
        while query.isActive and query.status["message"] == _INITIALISING:
            time.sleep(0.05)
        if STARVED not in str(query.exception()):
            return query
    raise RuntimeError(STARVED)


def run_to_end(spark: SparkSession, queries: Sequence[Any], *, last: bool) -> None:
    """Note that the queries run, and wait: in the last run until all have ended, in others until one of them fails."""
    note("driver", BEGAN)
    if not last:
        spark.streams.awaitAnyTermination()
    for query in queries:
        query.awaitTermination()
    spark.stop()
