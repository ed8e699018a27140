"""The board: what each job does at the moment, told to whoever wants to know.

Threads of all jobs write to it, and a table, a log, a stream and metrics read it; nobody gets more than a copy.
"""

import threading
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from everbrook.spark.progress_stream import now


class State(StrEnum):
    """What a job does."""

    STARTING = "starting"
    WAITING = "waiting"
    """For a server or a database that does not answer."""
    RUNNING = "running"
    RESTARTING = "restarting"
    """It failed, and will be started again."""
    STOPPING = "stopping"
    STOPPED = "stopped"
    DONE = "done"
    """It has come to the end of what was available."""
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
    """How many streams were folded, by what became of them."""
    folded_bytes: int = 0
    snapshot_bytes: int = 0
    error: str | None = None


Observer = Callable[[JobState, JobState], None]


class Board:
    """The states of all jobs."""

    def __init__(self, jobs: Iterable[tuple[str, str]]) -> None:
        """Begin with jobs, by name and with what they do."""
        self._states = {name: JobState(name, what, since=now()) for name, what in jobs}
        self._lock = threading.Lock()
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> None:
        """Have a function told of each change, in the thread that makes it."""
        self._observers.append(observer)

    def states(self) -> list[JobState]:
        """Give all jobs as they are."""
        with self._lock:
            return list(self._states.values())

    def __getitem__(self, name: str) -> JobState:
        """Give a job as it is."""
        with self._lock:
            return self._states[name]

    def change(self, name: str, **values: Any) -> None:
        """Write down what is new of a job."""
        with self._lock:
            before = self._states[name]
            if values.get("state", before.state) != before.state:
                values["since"] = now()
            after = self._states[name] = replace(before, **values)
        for observer in self._observers:
            observer(before, after)

    def add(self, name: str, **amounts: int | dict[str, int]) -> None:
        """Add to what is counted of a job."""
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
