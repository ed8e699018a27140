"""What `everbrook up` says: a line for each part, with its URL.

For programs a JSON object when a part is ready and when that changes; for a person the same in words, on a terminal
with what is being waited for below.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from everbrook.cli.output import PROGRAM, note, print_json
from everbrook.stack.parts import Part
from everbrook.stack.state import State

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

_COLOURS = {State.READY: "green", State.FAILING: "red", State.RESTARTING: "yellow", State.STOPPED: "bright_black"}
_UNDER_WAY = frozenset({State.STARTING, State.RESTARTING, State.STOPPING})


class Lines:
    """Lines for a pipe or a file. Once every part is ready, it says how long that took."""

    def __init__(self, parts: int) -> None:
        self._awaited = parts
        self._began = time.monotonic()
        self._ready: set[str] = set()

    def report(self, part: Part, state: State, reason: str) -> None:
        """Take a change of a state."""
        if state in _COLOURS:
            self.line(part, state)
        if reason:
            self.note(f"{part.name}: {reason}")
        if state is State.READY and part.name not in self._ready:
            self._ready.add(part.name)
            if part.hint:
                self.note(part.hint)
            if len(self._ready) == self._awaited:
                self.note(f"everything is up after {time.monotonic() - self._began:.1f} s; Ctrl-C stops it")

    def line(self, part: Part, state: State) -> None:
        """Print how a part is doing, and where it is."""
        click.echo(f"{part.name:<10} {state:<10} {part.url}")

    def note(self, words: str) -> None:
        """Print what is not about one part's state."""
        note(words)


class JsonLines(Lines):
    """Lines for programs."""

    def line(self, part: Part, state: State) -> None:
        """Print an object."""
        print_json({"part": part.name, "url": part.url, "state": str(state)})


class TerminalLines(Lines):
    """Lines in colour. What is being waited for stands below them, so one console prints both."""

    def __init__(self, parts: int, console: "Console", status: "Status") -> None:
        super().__init__(parts)
        self._console, self._status = console, status
        self._under_way: dict[str, State] = {}

    def report(self, part: Part, state: State, reason: str) -> None:
        """Take a change of a state, and show what is still to come."""
        super().report(part, state, reason)
        self._under_way.pop(part.name, None)
        if state in _UNDER_WAY:
            self._under_way[part.name] = state
        if self._under_way:
            self._status.update(", ".join(f"{name} is {state}" for name, state in self._under_way.items()))
            self._status.start()
        else:
            self._status.stop()

    def line(self, part: Part, state: State) -> None:
        """Print a line above the status."""
        from rich.text import Text  # noqa: PLC0415 - as below

        words = Text.assemble(f"{part.name:<10} ", (f"{state:<10}", _COLOURS[state]), f" {part.url}")
        self._console.print(words, soft_wrap=True)

    def note(self, words: str) -> None:
        """Print a note above the status."""
        self._console.print(f"{PROGRAM}: {words}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def lines_for(parts: int, *, as_json: bool) -> Iterator[Lines]:
    """Choose how to speak to whoever reads standard output."""
    if as_json or not sys.stdout.isatty():
        yield JsonLines(parts) if as_json else Lines(parts)
        return
    from rich.console import Console  # noqa: PLC0415 - nobody pays for it who sees nothing of it

    console = Console()
    with console.status("") as status:
        yield TerminalLines(parts, console, status)
