"""Runs a pipeline: one session of Spark for all jobs, each under its own supervision, until the end.

A lock on the checkpoints admits one process at a time; the kernel releases it when the process ends. Two queries with
the same checkpoint would repeat each other's work. If the JVM dies, nothing in this process can be used any more: the
run ends, and the caller starts it again in a new process.

A reset drops everything that says how far a job has come, so that it starts from the beginning. What the job has
written stays. What is kept outside the checkpoint is dropped first: if that fails, the checkpoint still exists, and the
reset can be repeated.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from everbrook.client.retry import Retry
from everbrook.file_lock import LockHeld, take_lock
from everbrook.spark.jobs.model import Job, JvmLost, Pipeline, PipelineBusy, server_options
from everbrook.spark.jobs.status import Board, Publisher, State
from everbrook.spark.jobs.supervisor import FINISH_SECS, PAUSES, Supervisor
from everbrook.spark.postgres.capture_position import RESETS
from everbrook.spark.progress import ProgressStream

if TYPE_CHECKING:
    from everbrook.spark.jobs.engine import Engine, JobListener
    from everbrook.spark.jobs.metrics import Metrics

LOCK = ".lock"
_LOOK_SECS = 0.1


@contextmanager
def locked(checkpoints: Path) -> Iterator[None]:
    """Hold the lock of a folder, which is created if it is missing. Raise `PipelineBusy` if another process has it."""
    checkpoints.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = take_lock(checkpoints / LOCK)
    except LockHeld as held:
        raise PipelineBusy(
            f"the jobs of {checkpoints} run already, in process {held.owner or '?'}: stop it first"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def reset(pipeline: Pipeline, job: Job) -> list[str]:
    """Drop the progress of a job, and return the names of what was dropped."""
    with locked(pipeline.checkpoints):
        dropped = [*job.source.reset(job), *job.sink.reset(job)]
        if job.checkpoint.exists():
            _remove(job.checkpoint)
            dropped.append(f"checkpoint {job.checkpoint}")
        return dropped


def _remove(checkpoint: Path) -> None:
    """Remove a checkpoint, but not the names of the streams that the next copy of a capture has to reset."""
    for path in (*sorted(checkpoint.rglob("*"), reverse=True), checkpoint):
        # The deepest paths come first, because only an empty folder can be removed.
        if path.is_symlink() or not path.is_dir():
            if path.name != RESETS:
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


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
        """Run until all jobs have ended, or until `stop` is called."""
        with locked(self._pipeline.checkpoints):
            metrics = self._serve_metrics()
            threading.Thread(target=self._launch, args=(metrics,), name="launch", daemon=True).start()
            # Each start of a query starts Python processes, and Spark gives up on those that take ten seconds to begin.
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
        """Start Spark in a thread: in the main one, Spark would replace the handler of SIGINT."""
        try:
            from everbrook.spark.jobs.engine import JobListener, launch

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
        stream = ProgressStream(name, server_options(self._pipeline.server)) if name else None
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
        # First of all: a query that fails because Spark ends must not be restarted.
        self._stopping.set()
        self._when_launched(lambda engine: engine.stop())
        for supervisor in supervisors:
            supervisor.join(1)
        # After the supervisors, so that it publishes the final states.
        publisher.end()
        if metrics is not None:
            metrics.close()

    def _when_launched(self, do: "Callable[[Engine], None]") -> None:
        """Call a function with Spark, once it has started. Do nothing if it could not start."""
        try:
            do(self._engine.result())
        except Exception:  # noqa: BLE001 - raised where the run ends
            return


def _preload() -> None:
    """Import what jobs need while the JVM starts, but not earlier: two threads must not import PySpark at once."""
    import everbrook.spark.streams.stream_query  # noqa: F401
