"""``everbrook pipeline run``: signals, the display while jobs run, and the exit code.

A terminal shows a table that is kept current; a file or pipe gets a JSON object per line. The output of Spark, the JVM
and its workers goes to a file beside the checkpoints, so that it does not mix with either.

After the death of the JVM (a kill, or lack of memory) this process can't use Spark again. So it ends with an exit code
that means "try again", and its supervisor starts it again.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TextIO

import click
from msgspec import structs

from everbrook.cli.exits import REFUSED, UNREACHABLE
from everbrook.cli.logs import JsonFormatter
from everbrook.cli.terminal.output import format_bytes, print_json
from everbrook.spark.jobs.runner import Outcome, Runner
from everbrook.spark.jobs.status import State

if TYPE_CHECKING:
    from rich.table import Table

    from everbrook.spark.jobs.model import Job, Pipeline
    from everbrook.spark.jobs.status import Board, JobState

LOG_FILE = "spark.log"
_LARGE_BYTES = 10 * 1024 * 1024
_REFRESH_PER_SECOND = 4
_COLOURS = {"running": "green", "done": "green", "failed": "red", "restarting": "yellow", "waiting": "yellow"}
logger = logging.getLogger("everbrook.pipeline")
_SETTLED = {State.RUNNING, State.DONE, State.FAILED}
_OF_EXTRAS = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "psycopg": "postgres",
    "prometheus_client": "stack",
}


class Shown(Protocol):
    """The display of a run, for people or for programs."""

    def note(self, event: str, words: str, **facts: object) -> None:
        """Report an event that concerns all jobs."""


@contextmanager
def own_stderr(folder: Path) -> Iterator[TextIO]:
    """Yield the real standard error. Other writes to descriptor 2 go to a file meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOG_FILE
    if path.exists() and path.stat().st_size > _LARGE_BYTES:
        path.replace(path.with_name(f"{LOG_FILE}.1"))
    sys.stderr.flush()
    with path.open("ab") as file, os.fdopen(os.dup(2), "w", buffering=1, encoding="utf-8") as ours:
        os.dup2(file.fileno(), 2)
        try:
            yield ours
        finally:
            sys.stderr.flush()
            os.dup2(ours.fileno(), 2)


@contextmanager
def showing(board: "Board", out: TextIO, *, as_json: bool = False) -> Iterator[Shown]:
    """Show what jobs do until they end."""
    if out.isatty() and not as_json:
        with _LiveTable(board, out) as table:
            yield table
    else:
        yield _Lines(board, out)


class _Lines:
    """Prints a line for each change of state. Metrics show the progress between changes."""

    def __init__(self, board: "Board", out: TextIO) -> None:
        self._handler = logging.StreamHandler(out)
        self._handler.setFormatter(JsonFormatter())
        logger.handlers[:] = [self._handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
        board.observe(self._tell)

    def note(self, event: str, words: str, **facts: object) -> None:
        logger.info(words, extra={"event": event, **facts})

    def _tell(self, before: "JobState", after: "JobState") -> None:
        if (before.state, before.error) == (after.state, after.error):
            return
        level = {"failed": logging.ERROR, "restarting": logging.WARNING, "waiting": logging.WARNING}
        facts: dict[str, object] = {"event": "state", "job": after.job, "state": after.state.value}
        facts |= {"batch": after.batch, "rows": after.rows, "restarts": after.restarts, "error": after.error}
        why = f": {after.error}" if after.error and after.state.value in level else ""
        words = f"{after.job} is {after.state.value}{why}"
        logger.log(level.get(after.state.value, logging.INFO), words, extra=facts)


class _LiveTable:
    def __init__(self, board: "Board", out: TextIO) -> None:
        from rich.console import Console  # only a terminal needs it
        from rich.live import Live

        self._board = board
        self._live = Live(get_renderable=self._table, console=Console(file=out), refresh_per_second=_REFRESH_PER_SECOND)

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, event: str, words: str, **facts: object) -> None:  # noqa: ARG002 - for programs
        """Write it above the table."""
        self._live.console.print(words, highlight=False, markup=False)

    def _table(self) -> "Table":
        return table_of(self._board.states())


def table_of(states: "list[JobState]") -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("job", "state", "what"):
        table.add_column(title, no_wrap=title != "what")
    for title in ("batch", "rows", "rows/s", "lag", "restarts"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("last error", overflow="fold")
    for state in states:
        colour = _COLOURS.get(state.state.value, "default")
        cells = (escape(cell) for cell in cells_of(state))
        name, word, *others = cells
        table.add_row(name, f"[{colour}]{word}[/]", *others)
    return table


def cells_of(state: "JobState") -> tuple[str, ...]:
    """Return a job as the cells of a row."""
    return (
        state.job,
        state.state.value,
        state.what,
        "-" if state.batch is None else str(state.batch),
        str(state.rows),
        f"{state.rows_per_second:.0f}",
        "-" if state.lag_bytes is None else format_bytes(state.lag_bytes),
        str(state.restarts),
        state.error or "",
    )


class Announced(Protocol):
    """The state of a run."""

    board: "Board"
    metrics_port: int | None


def run_pipeline(pipeline: "Pipeline", jobs: "Mapping[str, Job]", *, as_json: bool) -> int:
    """Run jobs, and return the exit code. With JSON, how each job ended is printed."""
    began = time.monotonic()
    runner = Runner(pipeline, jobs)
    asked = threading.Event()
    with (
        own_stderr(pipeline.checkpoints) as out,
        showing(runner.board, out, as_json=as_json) as shown,
        _signals(runner, asked, shown),
    ):
        announce(runner, shown, began)
        outcome = _run(runner, pipeline)
        lost = outcome is Outcome.LOST and not asked.is_set()
        if lost:
            why = f"was it killed, or out of memory? see {pipeline.checkpoints / LOG_FILE}"
            shown.note(
                "lost",
                f"the JVM of Spark has ended ({why}): run the command again, and the jobs continue",
            )
        else:
            shown.note("ended", f"ended: {outcome.value}", outcome=outcome.value)
    for state in runner.board.states() if as_json else ():
        print_json(structs.asdict(state))
    if lost:
        return UNREACHABLE
    return REFUSED if outcome is Outcome.FAILED else 0


def _run(runner: Runner, pipeline: "Pipeline") -> Outcome:
    try:
        return runner.run()
    except ModuleNotFoundError as error:
        extra = _OF_EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise click.ClickException(f"{error.name} is not installed: pip install 'everbrook[{extra}]'") from error
    except Exception as error:
        if type(error).__module__.startswith("pyspark."):
            log = pipeline.checkpoints / LOG_FILE
            raise click.ClickException(f"Spark can't be started: {error}; see {log}") from error
        raise


def announce(runner: Announced, shown: Shown, began: float) -> None:
    """Report once how many jobs run, and which have failed."""
    told = threading.Event()

    def look(_before: "JobState", _after: "JobState") -> None:
        states = runner.board.states()
        if not told.is_set() and all(state.state in _SETTLED for state in states):
            told.set()
            secs = round(time.monotonic() - began, 1)
            failed = [state.job for state in states if state.state is State.FAILED]
            well = len(states) - len(failed)
            but = f"; failed: {', '.join(failed)}" if failed else ""
            words = f"{well} of {len(states)} jobs run after {secs} s{but}"
            shown.note("ready", words, seconds=secs, jobs=well, failed=failed, metrics_port=runner.metrics_port)

    runner.board.observe(look)


@contextmanager
def _signals(runner: Runner, asked: threading.Event, shown: Shown) -> Iterator[None]:
    """Stop at the first signal, and end at the second."""

    def heard(number: int, _frame: object) -> None:
        if asked.is_set():
            runner.kill()
            os._exit(128 + number)
        asked.set()
        runner.stop()
        shown.note("stopping", "stopping: each job finishes its batch; a second signal ends them at once")

    before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
