"""A driver of Spark in a session of its own: started, and killed without warning.

The program and its JVM are one group of processes; the Python workers are groups of their own, and may outlive them
for a moment, as they do when a real driver dies. All are of the session that was started here, and nothing else is.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from soak.ledger import PromiseBroken
from soak.spark.journal import BEGAN, JOURNAL, RUN, Journal

ROOT = Path(__file__).resolve().parents[2]
OUTPUT_BYTES = 6000
PROGRAM = "soak.spark.program"
STARVED = "Python worker failed to connect back"
_SESSION_FIELD = 3
_START_SECS, _GONE_SECS = 300.0, 20.0


class Driver:
    """One run of the program."""

    def __init__(
        self, settings: Mapping[str, Any], *, run: int, journal: Path, log: Path, program: str = PROGRAM
    ) -> None:
        scratch = Path(settings["scratch"])
        scratch.mkdir(parents=True, exist_ok=True)
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", program, json.dumps(settings)],
                cwd=scratch,
                env=_environment(scratch) | {JOURNAL: str(journal), RUN: str(run)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill(workers=True)
        self._await_end()
        self._process.wait()

    @property
    def running(self) -> bool:
        """Whether it has not ended. As long as nobody asks for its exit code, no other process gets its number."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    @property
    def output(self) -> str:
        """What it has printed: the beginning, where the first error is, and the end."""
        printed = self._log.read_bytes().decode(errors="replace")
        short = len(printed) <= 2 * OUTPUT_BYTES
        return printed if short else f"{printed[:OUTPUT_BYTES]}\n…\n{printed[-OUTPUT_BYTES:]}"

    @property
    def starved(self) -> bool:
        """Whether Spark gave up as a Python had not started within ten seconds: the machine has too much to do."""
        return not self.running and STARVED in self._log.read_text(errors="replace")

    def finish(self, secs: float) -> bool:
        """Wait until it ends by itself, and tell whether it did so without an error."""
        deadline = time.monotonic() + secs
        while self.running:
            if time.monotonic() > deadline:
                raise PromiseBroken(f"the last run did not end within {secs:g} s:\n{self.output}")
            time.sleep(0.05)
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        return ended is not None and not ended.si_status

    def kill(self, *, workers: bool) -> None:
        """End the program and the JVM at once; the Python workers too, or they find out for themselves."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if workers:
            self._kill_session()

    def _kill_session(self) -> None:
        for pid in _members(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _await_end(self) -> None:
        deadline = time.monotonic() + _GONE_SECS
        while any(_members(self._process.pid)) and time.monotonic() < deadline:
            self._kill_session()
            time.sleep(0.01)


def start_driver(
    settings: Mapping[str, Any], folder: Path, journal: Journal, drivers: ExitStack, *, run: int, program: str = PROGRAM
) -> Driver:
    """Start a driver, and wait until its queries run, or until Spark gave up on one of them."""
    start, log = journal.end(), folder / f"driver-{run}.log"
    driver = drivers.enter_context(Driver(settings, run=run, journal=journal.path, log=log, program=program))
    begun = journal.wait("driver", {BEGAN}, start, _START_SECS, while_true=lambda: driver.running)
    if not begun and not driver.starved:
        raise PromiseBroken(f"run {run} did not begin:\n{driver.output}")
    return driver


def _environment(scratch: Path) -> dict[str, str]:
    """The environment, with the package on the way of every Python, and all that is left behind in one folder."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "EVERBROOK_"))}
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return inherited | {"PYTHONPATH": path, "TMPDIR": str(scratch), "PYSPARK_PYTHON": sys.executable}


def _members(session: int) -> Iterator[int]:
    """Give the processes of a session. Its number is not given to another as long as one of them lives."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                state, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[_SESSION_FIELD - 1]) == session and state not in {"Z", "X"}:
                    yield int(entry.name)
