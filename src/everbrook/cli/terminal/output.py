"""The output of commands. Results go to standard output, and are the same in a pipe as on a terminal. Notes, errors,
colours and progress go to standard error, the last two only if it is a terminal.
"""

import json
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, BinaryIO

import click

from everbrook.cli.exits import OUTPUT_GONE

PROGRAM = "everbrook"

Command = Callable[..., Any]
_KILO = 1000


def json_option(command: Command) -> Command:
    """Give a command the option to print JSON."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(command)


def show(facts: Mapping[str, object], *, as_json: bool) -> None:
    """Print facts: as a JSON object in one line, or a line for each fact that has a value."""
    if as_json:
        print_json(facts)
        return
    told = {key.replace("_", " "): format_fact(fact) for key, fact in facts.items() if fact is not None}
    click.echo("\n".join(align([(f"{key}:", fact) for key, fact in told.items()])))


def print_json(document: object) -> None:
    """Print a JSON document in one line."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def format_fact(fact: object) -> str:
    """Format a value for people."""
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    return str(fact)


def format_moment(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def format_time(time_ms: int) -> str:
    """Format a time in milliseconds, to the second."""
    return format_moment(datetime.fromtimestamp(time_ms // 1000, UTC))


def format_bytes(count: int) -> str:
    """Format a number of bytes for people."""
    size, units = float(count), ["B", "kB", "MB", "GB"]
    while size >= _KILO and len(units) > 1:
        size /= _KILO
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def align(rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> Iterator[str]:
    """Align rows in columns; those in `right` are numbers, and are aligned at their ends."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def bytes_out() -> BinaryIO:
    """Return standard output as a binary stream."""
    return sys.stdout.buffer


def note(message: str) -> None:
    """Print a note on standard error."""
    click.echo(f"{PROGRAM}: {_one_line(message)}", err=True)


def complain(message: str, code: int) -> int:
    """Print an error in one line, and return the exit code."""
    prefix = click.style(f"{PROGRAM}:", fg="red") if colourful() else f"{PROGRAM}:"
    click.echo(f"{prefix} {_one_line(message)}", err=True, color=colourful() or None)
    return code


def colourful() -> bool:
    """Return whether standard error is a terminal with colours that are not switched off (no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _one_line(message: str) -> str:
    return " ".join(message.split())


def leave_with_reader() -> None:
    """End the process when the reader of its output has gone, even while the process has nothing to write.

    Otherwise `everbrook tail -f … | head -1` would run until the message after the first.
    """
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):
        return  # not a file: an embedding program has replaced standard output
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        threading.Thread(target=_await_hang_up, args=(descriptor,), daemon=True).start()


def _await_hang_up(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    os._exit(OUTPUT_GONE)


Advance = Callable[[str, int], None]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show a progress bar of bytes. Yields a function that takes a label and the bytes done since its last call."""
    if not sys.stderr.isatty():
        yield lambda _label, _done_bytes: None
        return
    # Imported here: only progress on a terminal needs it.
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn(f"{what} {{task.description}}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda label, done_bytes: bar.update(task, description=escape(label), advance=done_bytes)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show a spinner with the name of the step."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
