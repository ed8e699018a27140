"""The session of Spark that all jobs share, and the listener for their progress.

The JVM leads a process group of its own: Ctrl-C, and every other signal of a terminal, reaches only this process, which
then lets each job finish its batch.
"""

import subprocess
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from everbrook.spark.folds.report import counts_of
from everbrook.spark.jobs.metrics import Metrics
from everbrook.spark.jobs.model import JvmLost, PipelineKeys
from everbrook.spark.jobs.status import Board
from everbrook.spark.launchers import QUICK_START, ensure_java, ensure_python
from everbrook.spark.progress import now
from everbrook.spark.sessions import LOW_LATENCY, session

_EXIT_TIMEOUT_SECS = 10
_ENDED_WITHIN_SECS = 1.0


class Engine:
    """Spark in a JVM that this process has started."""

    def __init__(self, spark: SparkSession, process: "subprocess.Popen[bytes]") -> None:
        self.spark = spark
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether the JVM runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End the session, and the JVM with it."""
        try:
            if self.alive:
                self.spark.stop()
        except Exception:  # noqa: BLE001, S110 - the JVM is ended below in any case
            pass
        finally:
            self._end()

    def kill(self) -> None:
        """End the JVM at once."""
        self._process.kill()
        self._end()

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()  # the JVM ends when its standard input is closed
        try:
            self._process.wait(_EXIT_TIMEOUT_SECS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Otherwise a later session of this process would use the dead JVM.
        SparkContext._gateway = SparkContext._jvm = None


def launch(keys: PipelineKeys) -> Engine:
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
    """Return whether a process has ended, and wait a moment for it: its connection may break before it ends."""
    try:
        process.wait(_ENDED_WITHIN_SECS)
    except subprocess.TimeoutExpired:
        return False
    return True


def settings_of(keys: PipelineKeys) -> Mapping[str, str]:
    """Return the settings of Spark. Those of the file override those of Everbrook."""
    return {
        **LOW_LATENCY,
        "spark.master": keys.master,
        "spark.driver.memory": keys.memory,
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # By default `stop` waits for a query without a limit.
        "spark.sql.streaming.stopTimeout": "10s",
        "spark.scheduler.mode": "FAIR",
        **keys.spark,
    }


class JobListener(StreamingQueryListener):
    """Counts batches and rows, and keeps the last progress of each job, by which its lag is found."""

    def __init__(self, board: Board, metrics: Metrics | None) -> None:
        self._board = board
        self._metrics = metrics
        self.last: dict[str, Any] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: the supervisor reports the start."""

    def onQueryProgress(self, event: Any) -> None:
        """Record a batch. Spark also reports looks that found nothing."""
        progress = event.progress
        self.last[progress.name] = progress
        if not progress.numInputRows:
            return
        batch_ms = int(progress.durationMs.get("triggerExecution", 0))
        self._board.add(progress.name, batches=1, rows=progress.numInputRows, **counts_of(progress))
        # Last: a job ends when its last batch is here, and its rows have to be counted by then.
        self._board.change(progress.name, batch=progress.batchId, batch_ms=batch_ms, batch_at=now())
        if self._metrics is not None:
            self._metrics.observe_batch(progress.name, batch_ms)

    def onQueryIdle(self, event: Any) -> None:
        """Do nothing: the last progress is still true."""

    def onQueryTerminated(self, event: Any) -> None:
        """Do nothing: the supervisor reports the end."""
