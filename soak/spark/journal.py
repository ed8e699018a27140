"""The journal: what Spark's processes did, a line for each thing, in the order in which they did it.

Drivers, planners and tasks append to one file, whole lines at a time; whoever kills them waits for a line.
"""

import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

JOURNAL, RUN = "SOAK_SPARK_JOURNAL", "SOAK_SPARK_RUN"
"""How processes that Spark starts are told of the journal, and of the run."""

BEGAN, READER = "began", "reader"
ON_DRIVER, BY_TASKS, TASK = "read on the driver", "read by tasks", "tasks that read"
APPENDED, KNOWN = "appends", "appends known already"
WROTE_HERE, WROTE_BY_TASKS = "written by the driver", "written by tasks"
_PAUSE_SECS = 0.001


def note(case: str, line: str) -> None:
    """Write a line, if there is a journal."""
    path = os.environ.get(JOURNAL)
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(file, f"{case}: {line}\n".encode())
        finally:
            os.close(file)


class Journal:
    """The journal, as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def end(self) -> int:
        """Tell how long it is."""
        return self.path.stat().st_size

    def since(self, start: int) -> list[str]:
        """Give the lines from a place on."""
        with self.path.open("rb") as file:
            file.seek(start)
            return file.read().decode().splitlines()

    def wait(self, case: str, lines: set[str], start: int, secs: float, *, while_true: Callable[[], bool]) -> bool:
        """Wait until one of these lines was written behind a place, and tell whether it was."""
        deadline = time.monotonic() + secs
        wanted = {f"{case}: {line}" for line in lines}
        while time.monotonic() < deadline and while_true():
            if self.end() > start and not wanted.isdisjoint(self.since(start)):
                return True
            time.sleep(_PAUSE_SECS)
        return False

    def count(self, case: str) -> Counter[str]:
        """Count the lines of a case."""
        told = (line.partition(": ") for line in self.since(0))
        return Counter(what for name, _, what in told if name == case)


def in_flight(checkpoint: Path) -> int | None:
    """Give the batch that was begun and is not done, by the logs of the checkpoint."""
    begun, done = _newest(checkpoint / "offsets"), _newest(checkpoint / "commits")
    return begun if begun > done else None


def batches_done(checkpoint: Path) -> int:
    """Tell how many batches are done."""
    return _newest(checkpoint / "commits") + 1


def _newest(folder: Path) -> int:
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []
    return max(numbers, default=-1)
