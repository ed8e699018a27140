"""The status of jobs: kept for the runner, published to a stream, and read back by `pipeline status`.

Threads of all jobs write to the board; a table, a log, a stream and metrics read copies of it. Once a second, changes
are appended to a stream: an entity of the type `job` for each job, and one of the type `runner`, whose `heartbeat_at`
shows that the runner is alive. Without a heartbeat, the last status of a runner that was killed would be "running" for
ever. A runner that has not reported for some seconds is gone, whatever it reported last.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs
from msgspec.structs import replace

from everbrook.protocol.errors import NotFound
from everbrook.protocol.state_changes import Set, format_state
from everbrook.spark.connection import connect
from everbrook.spark.jobs.lag import Lag, LagOf
from everbrook.spark.jobs.model import Pipeline, PipelineMissing, server_options
from everbrook.spark.progress import ProgressStream, now

JOB, RUNNER = "job", "runner"
HEARTBEAT_SECS = 5.0
_TICK_SECS = 1.0
_LAST_WORD_SECS = 5.0
RUNNING, STOPPED, GONE = "running", "stopped", "gone"
STALE_SECS = 20.0
_ACTIVE = {"starting", "waiting", "running", "restarting", "stopping"}


class State(StrEnum):
    """The state of a job."""

    STARTING = "starting"
    WAITING = "waiting"
    """For a server or a database that can't be reached."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """It failed, and will be started again."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    """It has read all that was available when it began."""
    FAILED = "failed"
    """It failed, and starting it again would not help."""


ENDED = frozenset({State.STOPPED, State.DONE, State.FAILED})


class JobState(Struct, frozen=True):
    """A job at a moment. The counts are those of this run."""

    job: str
    what: str
    state: State = State.STARTING
    since: str = ""
    batch: int | None = None
    batches: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int | None = None
    batch_at: str | None = None
    lag_bytes: int | None = None
    slot_bytes: int | None = None
    restarts: int = 0
    failures: int = 0
    dead_letters: int = 0
    folds: dict[str, int] = {}
    """How many streams were folded, by outcome."""
    folded_bytes: int = 0
    snapshot_bytes: int = 0
    error: str | None = None


Observer = Callable[[JobState, JobState], None]


class Board:
    """The states of all jobs."""

    def __init__(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Take the names and descriptions of jobs."""
        self._states = {name: JobState(name, what, since=now()) for name, what in jobs}
        self._lock = threading.Lock()
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> None:
        """Call a function on each change, in the thread that makes it."""
        self._observers.append(observer)

    def states(self) -> list[JobState]:
        with self._lock:
            return list(self._states.values())

    def __getitem__(self, name: str) -> JobState:
        with self._lock:
            return self._states[name]

    def change(self, name: str, **values: Any) -> None:
        """Change values of a job."""
        with self._lock:
            before = self._states[name]
            if values.get("state", before.state) != before.state:
                values["since"] = now()
            after = self._states[name] = replace(before, **values)
        for observer in self._observers:
            observer(before, after)

    def add(self, name: str, **amounts: int | dict[str, int]) -> None:
        """Add to counts of a job."""
        with self._lock:
            before = self._states[name]
            sums = {key: _sum(getattr(before, key), amount) for key, amount in amounts.items()}
            after = self._states[name] = replace(before, **sums)
        for observer in self._observers:
            observer(before, after)


def _sum(before: Any, amount: Any) -> Any:
    if isinstance(amount, dict):
        return {**before, **{key: before.get(key, 0) + more for key, more in amount.items() if more}}
    return before + amount


class Publisher(threading.Thread):
    """Measures rates and lags of jobs, and publishes the board."""

    def __init__(
        self, board: Board, stream: ProgressStream | None, lags: Mapping[str, LagOf], last: Callable[[str], Any]
    ) -> None:
        """Publish to a stream, if there is one. `last` returns the last progress of a job, if there is any."""
        super().__init__(name="publisher", daemon=True)
        self._board = board
        self._stream = stream
        self._lags = lags
        self._last = last
        self._ended = threading.Event()
        self._published: dict[str, JobState] = {}
        self._rows = {state.job: 0 for state in board.states()}
        self._ticked = time.monotonic()
        self._runner = {"pid": os.getpid(), "host": socket.gethostname(), "started_at": now()}
        self._beat = 0.0
        self._created = False

    def run(self) -> None:
        """Publish changes once a second."""
        while not self._ended.wait(_TICK_SECS):
            self._measure()
            self._find_lags()
            self._publish()
            if self._stream is not None and self._created:
                self._stream.cut()

    def end(self) -> None:
        """Publish the end, if the server responds in time."""
        self._ended.set()
        self.join(_LAST_WORD_SECS)
        if not self.is_alive():
            # In a thread with a deadline: the run must end also if the server does not respond.
            last_word = threading.Thread(target=self._publish, kwargs={"ended": True}, daemon=True)
            last_word.start()
            last_word.join(_LAST_WORD_SECS)

    def _measure(self) -> None:
        passed, self._ticked = time.monotonic() - self._ticked, time.monotonic()
        for state in self._board.states():
            rate = round((state.rows - self._rows[state.job]) / passed, 1)
            self._rows[state.job] = state.rows
            if rate != state.rows_per_second:
                self._board.change(state.job, rows_per_second=rate)

    def _find_lags(self) -> None:
        for state in self._board.states():
            progress = self._last(state.job)
            if state.state is State.RUNNING and progress is not None:
                lag = self._lags[state.job](progress)
                if lag != Lag(state.lag_bytes, state.slot_bytes):
                    self._board.change(state.job, **structs.asdict(lag))

    def _publish(self, *, ended: bool = False) -> None:
        if self._stream is None:
            return
        changed = [state for state in self._board.states() if self._published.get(state.job) != state]
        messages = [format_state(Set(JOB, state.job, structs.asdict(state), timestamp=now())) for state in changed]
        if ended or time.monotonic() - self._beat >= HEARTBEAT_SECS:
            messages.append(format_state(Set(RUNNER, RUNNER, self._heartbeat(ended=ended), timestamp=now())))
        if messages and self._append(messages):
            self._published |= {state.job: state for state in changed}

    def _heartbeat(self, *, ended: bool) -> dict[str, Any]:
        self._beat = time.monotonic()
        return {**self._runner, "state": "stopped" if ended else "running", "heartbeat_at": now()}

    def _append(self, messages: list[dict[str, Any]]) -> bool:
        assert self._stream is not None  # noqa: S101 - `_publish` returns without a stream
        if not self._created:
            self._created = self._stream.created()
        return self._created and self._stream.append(messages)


class PipelineStatus(Struct, frozen=True):
    """The last status that a pipeline has published."""

    runner: str
    """`running`, `stopped`, or `gone` if its last heartbeat is too old."""
    heartbeat_at: str
    pid: int
    host: str
    jobs: list[dict[str, Any]]

    @property
    def well(self) -> bool:
        """Whether the runner is alive and no job has failed for good."""
        return self.runner == RUNNING and all(job["state"] != "failed" for job in self.jobs)


def read_status(pipeline: Pipeline, at: datetime | None = None) -> PipelineStatus:
    """Read the status that the runner of a pipeline has published."""
    name = pipeline.keys.progress
    if not name:
        raise PipelineMissing(f'{pipeline.file}: progress is "", so its jobs report nothing')
    stream = connect(server_options(pipeline.server)).stream(name)
    try:
        with stream.materialise(on_invalid=lambda _error: None) as state:
            runner, jobs = dict(state["runner"]).get("runner"), dict(state["job"])
    except NotFound:
        runner, jobs = None, {}
    if runner is None:
        raise PipelineMissing(f"nothing is known of {pipeline.file}: `everbrook pipeline run` has not run it yet")
    return _status(pipeline, runner, jobs, at or datetime.now(UTC))


def _status(pipeline: Pipeline, runner: dict[str, Any], jobs: dict[str, Any], at: datetime) -> PipelineStatus:
    silent_secs = (at - datetime.fromisoformat(runner["heartbeat_at"])).total_seconds()
    word = GONE if runner["state"] == RUNNING and silent_secs > STALE_SECS else runner["state"]
    found = [_job(jobs.get(name), name, job.describe(), word) for name, job in pipeline.jobs.items()]
    return PipelineStatus(word, runner["heartbeat_at"], runner["pid"], runner["host"], found)


def _job(published: dict[str, Any] | None, name: str, what: str, runner: str) -> dict[str, Any]:
    """Return the status of a job. The last state of a job whose runner is gone is replaced by that of the runner."""
    if published is None:
        return {"job": name, "what": what, "state": "unknown"}
    if runner != RUNNING and published["state"] in _ACTIVE:
        return {**published, "state": runner, "rows_per_second": 0.0}
    return published
