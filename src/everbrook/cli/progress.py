"""How far something is, for a person who looks at it: on standard error, and only if that is a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[str, int], None]


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Advance]:
    """Show a bar of bytes. Gives a function that takes what is being worked on, and how many bytes were done."""
    if not sys.stderr.isatty():
        yield lambda _label, _done_bytes: None
        return
    # Imported here: nobody pays for it who sees nothing of it.
    from rich.console import Console  # noqa: PLC0415
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    columns = (TextColumn(f"{what} {{task.description}}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda label, done_bytes: bar.update(task, description=escape(label), advance=done_bytes)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show what is being waited for."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415

    with Console(stderr=True).status(what):
        yield
