"""A job under supervision: it starts when its servers and databases can be reached, and is restarted when it fails.

Jobs are independent: one that fails or waits does not affect the others. The pause before a restart doubles with each
failure in a row, and is randomised so that jobs do not restart all at once.

Spark wraps an error of Python, often of another process, into long text. The last line of the last traceback in it is
the error. An error that a restart can't repair has `restartable = False`, and perhaps `advice` for the user. All others
may pass: a server comes back, a disk is emptied, a password is corrected.
"""

import random
import re
import threading
import time
from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from everbrook.client.errors import Unsupported
from everbrook.client.retry import Retry
from everbrook.protocol.errors import ContentTypeMismatch, StreamClosed
from everbrook.spark.jobs.model import Job
from everbrook.spark.jobs.resources import OutOfReach
from everbrook.spark.jobs.status import Board, State

if TYPE_CHECKING:
    from everbrook.spark.jobs.engine import Engine

_RAISED = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+[^\n]*\n)+(?P<kind>[A-Za-z_][\w.]*)(?:: (?P<words>.*?))?"
    r"(?=\n\n|\n?[ \t]*SQLSTATE:|\n\tat |\n*\Z|\nDriver stacktrace)",
    re.DOTALL,
)
_SPARK_ENDS = re.compile(r"\s*(?:SQLSTATE:|=== Streaming Query ===|JVM stacktrace:).*", re.DOTALL)
_SPARK_BEGINS = re.compile(r"^\[STREAM_FAILED\].*?terminated with exception: ", re.DOTALL)
_LONGEST = 1000

_RESET = "`everbrook pipeline reset FILE {job}`"
_FINAL: dict[type[Exception], str] = {
    Unsupported: "",
    StreamClosed: "a closed stream takes nothing more: choose another, and reset the job",
    ContentTypeMismatch: "",
}
"""Errors of other layers that a restart can't repair, with advice for the user."""
_OF_SPARK = {"AnalysisException", "ParseException", "IllegalArgumentException"}
"""Errors of Spark about a query that is invalid: a restart does not help."""
PAUSES = Retry(first_delay_secs=1.0, max_delay_secs=60.0)
WELL_SECS = 60.0
"""A job that makes progress and has run for this long has recovered: its failures are counted anew."""
FINISH_SECS = 30.0
"""How long to wait for the current batch."""
_LOOK_SECS = 0.1
_REPORT_SECS = 30.0
"""How long the report of the last batch is waited for: on a busy machine it comes seconds after the batch."""
_PROCESSING, _INITIALIZING, _LOOKING, _WAITING = "Processing new data", "Initializing", "Getting offsets", "Waiting"
_FIRST_LOOK_SECS, _START_SECS = 1.5, 30.0


class Fault(Struct, frozen=True):
    """What went wrong, and whether a restart may help."""

    words: str
    restartable: bool


def diagnose(error: BaseException, job: str) -> Fault:
    """Find the cause of an error, and whether a restart may help."""
    kind, words = _raised(error)
    if kind is None:
        return Fault(words, type(error).__name__ not in _OF_SPARK)
    found = _class(kind) or Exception
    final = next((each for each in _FINAL if issubclass(found, each)), None)
    advice = getattr(found, "advice", "") if final is None else _FINAL[final]
    words = words or kind.rpartition(".")[2]
    return Fault(
        _shortened(f"{words}: {advice.format(reset=_RESET.format(job=job))}" if advice else words),
        final is None and getattr(found, "restartable", True),
    )


def _raised(error: BaseException) -> tuple[str | None, str]:
    """Return the class and the words of an error of Python, also of another process.

    Spark's own errors have no class.
    """
    text = str(error)
    found = list(_RAISED.finditer(text))
    if found:
        return found[-1]["kind"], _one_line(found[-1]["words"] or "")
    if _of_spark(error):
        return None, _shortened(_one_line(_SPARK_ENDS.sub("", _SPARK_BEGINS.sub("", text))) or type(error).__name__)
    return f"{type(error).__module__}.{type(error).__qualname__}", _one_line(text)


def _of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}


def _class(kind: str) -> type | None:
    """Find a class of Everbrook by its name. No other module is imported because of a message."""
    module, _, name = kind.rpartition(".")
    if not module.startswith("everbrook."):
        return None
    try:
        return getattr(import_module(module), name, None)
    except ImportError:
        return None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class Supervisor(threading.Thread):
    """Runs one job until it is done, is stopped, or fails for good."""

    def __init__(
        self,
        job: Job,
        engine: "Future[Engine]",
        board: Board,
        stopping: threading.Event,
        turns: threading.Semaphore,
        pauses: Retry = PAUSES,
        well_secs: float = WELL_SECS,
    ) -> None:
        """Run a job once Spark has started. `turns` bounds how many jobs start at a time."""
        super().__init__(name=f"job {job.name}", daemon=True)
        self._job = job
        self._engine = engine
        self._board = board
        self._stopping = stopping
        self._turns = turns
        self._pauses = pauses
        self._well_secs = well_secs
        self._failures = 0  # in a row, waits included
        self._restarts = 0  # in a row
        self._began = time.monotonic()
        self._batches_before = 0

    def run(self) -> None:
        """Run the job until its end."""
        while not self._stopping.is_set():
            try:
                self._change(state=self._attempt())
            except OutOfReach as error:
                self._wait(str(error))
            except Exception as error:  # noqa: BLE001 - any error is reported, and the job restarted if that may help
                if not self._fail(error):
                    return
            else:
                return
        self._change(state=State.STOPPED)

    def _attempt(self) -> State:
        """Run the job once, until it ends or fails."""
        for place in self._job.endpoints():
            place.reach()
        self._change(state=State.STARTING)
        engine = self._engine.result()
        if self._stopping.is_set():
            return State.STOPPED
        return self._follow(self._begin(engine))

    def _begin(self, engine: "Engine") -> Any:
        """Start the query when it is its turn.

        Spark gives up on a Python process that takes ten seconds to start, as many at once on a busy machine do.
        """
        with self._turns:
            self._began, self._batches_before = time.monotonic(), self._board[self._job.name].batches
            query = self._start(engine)
            while query.isActive and _settling(query, time.monotonic() - self._began) and not self._stopping.is_set():
                time.sleep(_LOOK_SECS / 4)
        return query

    def _start(self, engine: "Engine") -> Any:
        job = self._job
        # A pool for each job: a large batch of one does not hold up the small ones of the others.
        engine.spark.sparkContext.setLocalProperty("spark.scheduler.pool", job.name)
        df = job.source.read(engine.spark, job)
        if job.sql is not None:
            df = engine.spark.sql(job.sql, source=df)
        return job.sink.write(df, job, lambda count: self._board.add(job.name, dead_letters=count))

    def _follow(self, query: Any) -> State:
        """Wait for the end of a query."""
        while not query.awaitTermination(_LOOK_SECS):
            if self._stopping.is_set():
                self._change(state=State.STOPPING)
                finish(query)
                self._count(query)
                return State.STOPPED
            self._look(query)
        self._count(query)
        return State.DONE if self._job.trigger.ends else State.STOPPED

    def _look(self, query: Any) -> None:
        if self._board[self._job.name].state is not State.RUNNING:
            if not query.status["message"].startswith(_INITIALIZING):
                self._change(state=State.RUNNING)
        elif self._failures and time.monotonic() - self._began > self._well_secs and self._progresses(query):
            self._failures = self._restarts = 0
            self._change(error=None)

    def _progresses(self, query: Any) -> bool:
        """Return whether a query has finished a batch, or has nothing to do.

        Its first batch may still fail as before.
        """
        done = self._board[self._job.name].batches > self._batches_before
        return done or query.status["message"].startswith(_WAITING)

    def _count(self, query: Any) -> None:
        """Wait until Spark has reported the last batch, which it does asynchronously."""
        batches = [progress.batchId for progress in query.recentProgress if progress.numInputRows]
        deadline = time.monotonic() + _REPORT_SECS
        while batches and time.monotonic() < deadline and _before(self._board[self._job.name].batch, batches[-1]):
            time.sleep(_LOOK_SECS)

    def _wait(self, words: str) -> None:
        self._failures += 1
        self._change(state=State.WAITING, error=words)
        self._pause()

    def _fail(self, error: Exception) -> bool:
        """Report a failure, and wait until the restart. False if there is none."""
        if self._engine.done() and self._engine.exception() is not None:
            self._change(state=State.STOPPED)
            return False  # Spark did not start, which the runner reports once for all jobs
        if self._engine.done() and not self._engine.result().alive:
            self._change(state=State.STOPPED, error="the JVM of Spark has gone")
            return False  # the run ends with all jobs, and its supervisor starts a new process
        fault = diagnose(error, self._job.name)
        self._board.add(self._job.name, failures=1)
        if not fault.restartable or self._spent():
            self._change(state=State.FAILED, error=fault.words)
            return False
        self._restart(fault)
        return True

    def _spent(self) -> bool:
        most = self._job.max_restarts
        return most is not None and self._restarts >= most

    def _restart(self, fault: Fault) -> None:
        self._failures += 1
        self._restarts += 1
        self._board.add(self._job.name, restarts=1)
        self._change(state=State.RESTARTING, error=fault.words)
        self._pause()

    def _pause(self) -> None:
        self._stopping.wait(self._pauses.delay_secs(self._failures, random.random()))  # noqa: S311 - only to spread

    def _change(self, **values: Any) -> None:
        self._board.change(self._job.name, **values)


def _settling(query: Any, since_secs: float) -> bool:
    """Return whether a query is still starting: its sources are created, or look for data for the first time."""
    message = query.status["message"]
    if message.startswith(_LOOKING):
        return since_secs < _FIRST_LOOK_SECS
    return bool(message.startswith(_INITIALIZING)) and since_secs < _START_SECS


def _before(batch: int | None, last: int) -> bool:
    return batch is None or batch < last


def finish(query: Any, within_secs: float = FINISH_SECS) -> None:
    """Stop a query after its current batch. A batch that takes too long is repeated at the next start."""
    # `stop` interrupts a batch, which would have to be repeated at the next start.
    deadline = time.monotonic() + within_secs
    while query.isActive and query.status["message"] == _PROCESSING and time.monotonic() < deadline:
        time.sleep(0.01)
    query.stop()
