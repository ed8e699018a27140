"""Running a pipeline: one session of Spark for all jobs, each under its own supervision, until the end.

Whoever runs it says when to stop. If the JVM dies, everything that was in this process is of no more use: the run ends
with that, and whoever runs it starts it again, in a process that knows nothing of the old one.
"""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Any

from everbrook.client.retry import Retry
from everbrook.spark.jobs.board import Board, State
from everbrook.spark.jobs.errors import JvmLost
from everbrook.spark.jobs.job import Job, Pipeline
from everbrook.spark.jobs.locking import locked
from everbrook.spark.jobs.places import server_url
from everbrook.spark.jobs.publishing import Publisher
from everbrook.spark.jobs.supervising import FINISH_SECS, PAUSES, Supervisor
from everbrook.spark.options import ServerOptions
from everbrook.spark.progress_stream import ProgressStream

if TYPE_CHECKING:
    from everbrook.spark.jobs.launching import Engine
    from everbrook.spark.jobs.listening import JobListener
    from everbrook.spark.jobs.metrics import Metrics

_LOOK_SECS = 0.1


class Outcome(Enum):
    """How a run ended."""

    FINE = "fine"
    """All jobs are done, or were stopped."""
    FAILED = "failed"
    """Some job failed for good."""
    LOST = "lost"
    """The JVM is gone."""


class Runner:
    """Runs jobs."""

    def __init__(self, pipeline: Pipeline, jobs: Mapping[str, Job], pauses: Retry = PAUSES) -> None:
        self.board = Board((job.name, job.describe()) for job in jobs.values())
        self.metrics_port: int | None = None
        self._pipeline = pipeline
        self._jobs = jobs
        self._pauses = pauses
        self._stopping = threading.Event()
        self._engine: Future[Engine] = Future()
        self._listener: JobListener | None = None

    def stop(self) -> None:
        """Let each job finish its batch, and end. May be called from a signal's handler."""
        self._stopping.set()

    def run(self) -> Outcome:
        """Run until all jobs have ended, or until told to stop."""
        with locked(self._pipeline.checkpoints):
            metrics = self._serve_metrics()
            threading.Thread(target=self._launch, args=(metrics,), name="launch", daemon=True).start()
            turns = threading.Semaphore(max(1, (os.cpu_count() or 1) // 2))
            supervisors = [
                Supervisor(job, self._engine, self.board, self._stopping, turns, self._pauses)
                for job in self._jobs.values()
            ]
            for supervisor in supervisors:
                supervisor.start()
            publisher = self._publisher()
            try:
                outcome = self._watch(supervisors)
            finally:
                self._end(supervisors, publisher, metrics)
        if self._engine.done() and (error := self._engine.exception()) is not None:
            if isinstance(error, JvmLost):
                return Outcome.LOST
            raise error
        return outcome

    def kill(self) -> None:
        """End the JVM at once, if there is one."""
        if self._engine.done() and self._engine.exception() is None:
            self._engine.result().kill()

    def _serve_metrics(self) -> "Metrics | None":
        address = self._pipeline.keys.metrics
        if address is None:
            return None
        from everbrook.spark.jobs.metrics import Metrics

        metrics = Metrics(self.board)
        self.metrics_port = metrics.serve(address)
        return metrics

    def _launch(self, metrics: "Metrics | None") -> None:
        """Start Spark, in a thread: the main one has to hear signals meanwhile, which Spark would take over."""
        try:
            from everbrook.spark.jobs.launching import launch
            from everbrook.spark.jobs.listening import JobListener

            threading.Thread(target=_preload, name="preload", daemon=True).start()
            engine = launch(self._pipeline.keys)
            self._listener = JobListener(self.board, metrics)
            engine.spark.streams.addListener(self._listener)
        except BaseException as error:  # noqa: BLE001 - raised again where the run ends
            self._engine.set_exception(error)
        else:
            self._engine.set_result(engine)

    def _publisher(self) -> Publisher:
        name = self._pipeline.keys.progress
        stream = ProgressStream(name, server_options(self._pipeline)) if name else None
        lags = {job.name: job.source.lag_finder(job) for job in self._jobs.values()}
        publisher = Publisher(self.board, stream, lags, self._last)
        publisher.start()
        return publisher

    def _last(self, job: str) -> Any:
        return None if self._listener is None else self._listener.last.get(job)

    def _watch(self, supervisors: list[Supervisor]) -> Outcome:
        while not self._stopping.wait(_LOOK_SECS):
            if self._lost():
                return Outcome.LOST
            if not any(supervisor.is_alive() for supervisor in supervisors):
                break
        for supervisor in supervisors:
            supervisor.join(FINISH_SECS)
        failed = any(state.state is State.FAILED for state in self.board.states())
        return Outcome.FAILED if failed and not self._stopping.is_set() else Outcome.FINE

    def _lost(self) -> bool:
        done = self._engine.done() and self._engine.exception() is None
        return done and not self._engine.result().alive

    def _end(self, supervisors: list[Supervisor], publisher: Publisher, metrics: "Metrics | None") -> None:
        self._stopping.set()
        self._when_launched(lambda engine: engine.stop())
        for supervisor in supervisors:
            supervisor.join(1)
        publisher.end()
        if metrics is not None:
            metrics.close()

    def _when_launched(self, do: "Callable[[Engine], None]") -> None:
        """Do something with Spark, also if it is still about to start; not if that went wrong."""
        try:
            do(self._engine.result())
        except Exception:  # noqa: BLE001 - told where the run ends
            return


def _preload() -> None:
    """Load what jobs will need, while the JVM starts. Only now: Spark's own modules can't be loaded by two at once."""
    import everbrook.spark.writing  # noqa: F401


def server_options(pipeline: Pipeline) -> ServerOptions:
    """Give the server that is told what jobs do."""
    keys = pipeline.server
    return ServerOptions(
        url=server_url(keys.url),
        token=keys.token,
        token_file=keys.token_file,
        ca_file=keys.ca_file,
        cert_file=keys.cert_file,
        key_file=keys.key_file,
        insecure=keys.insecure,
    )
