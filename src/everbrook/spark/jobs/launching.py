"""The session of Spark that all jobs share, in a JVM that is out of the way of the keyboard.

The JVM leads a group of processes of its own: Ctrl-C, and whatever else is sent to all processes of a terminal, reaches
this one only, which then lets each job finish its batch.
"""

import subprocess
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from everbrook.spark.java import QUICK_START, ensure_java
from everbrook.spark.jobs.errors import JvmLost
from everbrook.spark.jobs.job import PipelineKeys
from everbrook.spark.launchers import ensure_python
from everbrook.spark.sessions import LOW_LATENCY, session

_EXIT_TIMEOUT_SECS = 10
_ENDED_WITHIN_SECS = 1.0


class Engine:
    """A running Spark."""

    def __init__(self, spark: SparkSession, process: "subprocess.Popen[bytes]") -> None:
        self.spark = spark
        self._process = process

    @property
    def alive(self) -> bool:
        """Tell whether the JVM runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the session, and the JVM with it."""
        try:
            if self.alive:
                self.spark.stop()
        except Exception:  # noqa: BLE001, S110 - it was to end, and is ended below
            pass
        finally:
            self._end()

    def kill(self) -> None:
        """End the JVM at once."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # which the JVM waits for
        try:
            self._process.wait(_EXIT_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def launch(keys: PipelineKeys) -> Engine:
    """Start Spark."""
    settings = settings_of(keys)
    ensure_python(keys.master)
    ensure_java()
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    gateway: Any = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    try:
        SparkContext._ensure_initialized(gateway=gateway)
        return Engine(session("everbrook pipeline", master=keys.master, config=settings), gateway.proc)
    except Exception as error:
        if _has_ended(gateway.proc):
            raise JvmLost(f"the JVM of Spark died while it was starting: {error}") from error
        raise


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Tell whether a process has ended. Whoever hears nothing of it any more may hear that a moment before."""
    try:
        process.wait(_ENDED_WITHIN_SECS)
    except subprocess.TimeoutExpired:
        return False
    return True


def settings_of(keys: PipelineKeys) -> Mapping[str, str]:
    """Give the settings of Spark: ours, over which those of the file win."""
    return {
        **LOW_LATENCY,
        "spark.master": keys.master,
        "spark.driver.memory": keys.memory,
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.scheduler.mode": "FAIR",
        **keys.spark,
    }
