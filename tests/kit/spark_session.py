"""One session of Spark for all tests of a process: its JVM and its Python workers take many seconds to start.

A test that needs settings of its own makes another session with `newSession()`. A test that needs a JVM of its own ends
the shared session first.
"""

from pyspark.sql import SparkSession

from everbrook.spark import session

QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}
_shared: list[SparkSession] = []


def shared_session() -> SparkSession:
    """Give the session of this process, with the formats registered."""
    if not _shared:
        _shared.append(session("tests", master="local[2]", config=QUIET))
    return _shared[0]


def end_shared_session() -> None:
    """Stop the session. The next test that needs Spark starts another one."""
    while _shared:
        _shared.pop().stop()
