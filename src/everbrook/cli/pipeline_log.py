"""What a running pipeline says: a table that is kept current on a terminal, else a JSON object a line.

Spark, the JVM and its workers write to a file beside the checkpoints instead, so that neither has their lines in it.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from everbrook.cli.logs import JsonFormatter

if TYPE_CHECKING:
    from rich.table import Table

    from everbrook.spark.jobs.board import Board, JobState

LOG_FILE = "spark.log"
_LARGE_BYTES = 10 * 1024 * 1024
_REFRESH_PER_SECOND = 4
_COLOURS = {"running": "green", "done": "green", "failed": "red", "restarting": "yellow", "waiting": "yellow"}
_KILO = 1000
logger = logging.getLogger("everbrook.pipeline")


class Shown(Protocol):
    """What a person or a program gets to see."""

    def note(self, event: str, words: str, **facts: object) -> None:
        """Tell of something that concerns all jobs."""


@contextmanager
def own_stderr(folder: Path) -> Iterator[TextIO]:
    """Give standard error for us alone: whatever else is written there goes to a file."""
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
    """A line for each change of state. What is done in between is counted by metrics."""

    def __init__(self, board: "Board", out: TextIO) -> None:
        self._handler = logging.StreamHandler(out)
        self._handler.setFormatter(JsonFormatter())
        logger.handlers[:] = [self._handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
        board.observe(self._tell)

    def note(self, event: str, words: str, **facts: object) -> None:
        """Log it."""
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
    """A table of all jobs."""

    def __init__(self, board: "Board", out: TextIO) -> None:
        from rich.console import Console  # noqa: PLC0415 - nobody pays for it who sees nothing of it
        from rich.live import Live  # noqa: PLC0415

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
    """Draw a table of jobs."""
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

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
    """Give a job as the cells of a row."""
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


def format_bytes(count: int) -> str:
    """Write a number of bytes for a person."""
    size, units = float(count), ["B", "kB", "MB", "GB"]
    while size >= _KILO and len(units) > 1:
        size /= _KILO
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
