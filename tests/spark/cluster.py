"""Spark as it runs elsewhere: a standalone cluster, a server of Spark Connect, and programs that use them.

Each is a process of its own on loopback, with little memory, that is stopped by its id. A program is another process
too, since there is one Spark to a process, and the tests around have theirs.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar
from venv import create

import pyspark

from everbrook.spark.launchers import QUICK_START, ensure_java
from everbrook.spark.sessions import LOW_LATENCY
from tests.spark import programs

T = TypeVar("T")

START_TIMEOUT_SECS = 120.0
RUN_TIMEOUT_SECS = 240.0
QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.host": "127.0.0.1"}
SMALL = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.sql.shuffle.partitions": "2"}
BRIEF = {"JAVA_TOOL_OPTIONS": f"{QUICK_START} -Xshare:auto"}
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_DEPLOY = "org.apache.spark.deploy"


class Daemon:
    """A process of Spark's that has said what was waited for."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self._process = process
        self._log = log

    def said(self, pattern: str) -> re.Match[str]:
        """Wait until the log has something, and give it."""
        deadline = time.monotonic() + START_TIMEOUT_SECS
        while time.monotonic() < deadline and self._process.poll() is None:
            if found := re.search(pattern, self._log.read_text()):
                return found
            time.sleep(0.05)
        raise TimeoutError(f"{pattern!r} is not in the log: {self._log.read_text()}")

    def kill(self) -> None:
        """Kill the process and those that it has started: an executor is in the group of its worker."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def daemon(folder: Path, name: str, *arguments: str, **environment: str) -> Iterator[Daemon]:
    """Run a class of Spark's. The script becomes the Java that it starts, so that its id is the right one."""
    ensure_java()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    home = _home(folder / "home")
    settings = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments],
            cwd=folder,
            env=os.environ | BRIEF | settings | environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started = Daemon(process, log)
    try:
        yield started
    finally:
        started.kill()


def _home(folder: Path) -> Path:
    """Make a home of Spark's in which it may write: a cluster within a process leaves its work there."""
    folder.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        folder.joinpath(each.name).symlink_to(each)
    return folder


class Cluster:
    """A standalone cluster: where its master is, and its workers."""

    def __init__(self, url: str, workers: list[Daemon]) -> None:
        self.url = url
        self.workers = workers


@contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Run a master and workers of one core each."""
    with ExitStack() as stack:
        # 6066 is where a master takes jobs from spark-submit: two would fight for it.
        options = {"SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false"}
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        master = stack.enter_context(daemon(folder / "master", f"{_DEPLOY}.master.Master", *arguments, **options))
        url = master.said(r"Starting Spark master at (spark://\S+)")[1]
        started = [
            stack.enter_context(
                daemon(
                    folder / f"worker-{number}",
                    f"{_DEPLOY}.worker.Worker",
                    *arguments,
                    *("--cores", "1", "--memory", "512m", "--work-dir", str(folder / f"worker-{number}"), url),
                )
            )
            for number in range(workers)
        ]
        for worker in started:
            worker.said("Successfully registered with master")
        yield Cluster(url, started)


@contextmanager
def connect_server(folder: Path, master: str, **environment: str) -> Iterator[str]:
    """Run a server of Spark Connect. Gives where it is."""
    place = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}
    config = QUIET | SMALL | LOW_LATENCY | place | {"spark.log.level": "INFO"}
    arguments = [part for name, value in config.items() for part in ("--conf", f"{name}={value}")]
    submit = ["--master", master, *arguments, "--class", _CONNECT, "spark-internal"]
    chosen = {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "768m"}
    with daemon(folder, f"{_DEPLOY}.SparkSubmit", *submit, **(chosen | environment)) as server:
        port = server.said(r"Spark Connect server started at: \S+?:(\d+)")[1]
        yield f"sc://127.0.0.1:{port}"


def bare_python(folder: Path) -> str:
    """Make a Python that has Spark and what Spark needs, but neither Everbrook nor what that needs."""
    create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    for name in ("pyspark", "py4j", "pyarrow", "numpy", "numpy.libs", "pandas", "pytz", "dateutil", "grpc", "google"):
        for found in Path(pyspark.__file__).parents[1].glob(name):
            packages.joinpath(name).symlink_to(found)
    return str(folder / "bin" / "python")


class Program:
    """Another process of Python, in which functions of the tests run."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self._pool = pool

    def run(self, function: Callable[..., T], *arguments: Any, **options: Any) -> T:  # noqa: ANN401 - what it takes
        return self.start(function, *arguments, **options).result(RUN_TIMEOUT_SECS)

    def start(self, function: Callable[..., T], *arguments: Any, **options: Any) -> Future[T]:  # noqa: ANN401
        return self._pool.submit(programs.call, function, *arguments, **options)


@contextmanager
def program(settings: Mapping[str, Any], **environment: str) -> Iterator[Program]:
    """Run a process with a session of Spark."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        running = Program(pool)
        try:
            running.run(programs.begin, settings, BRIEF | {"SPARK_LOCAL_IP": "127.0.0.1"} | environment)
            yield running
        finally:
            running.run(programs.end)
