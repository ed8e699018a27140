"""One Spark for all tests of a process: its JVM and its Python workers take many seconds to start and to get warm.

Who needs settings of their own makes a session beside it with `newSession()`. Who needs a JVM of their own ends this
one first.
"""

from pyspark.sql import SparkSession

from everbrook.spark import session

_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
}
_shared: list[SparkSession] = []


def shared_session() -> SparkSession:
    """Give Spark in this process, with the formats registered."""
    if not _shared:
        _shared.append(session("tests", master="local[2]", config=_QUIET))
    return _shared[0]


def end_shared_session() -> None:
    """Stop it. The next test that needs Spark starts another one."""
    while _shared:
        _shared.pop().stop()
