"""The pipeline under fire: `everbrook pipeline run FILE` as a process of its own, started, killed and stopped.

A control runs the same command with a rule broken (see `flaws`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from everbrook.cli.exits import UNREACHABLE
from soak.ledger import PromiseBroken
from soak.server import EVERBROOK
from soak.spark.journal import JOURNAL
from soak.sync.processes import MARK, Process, kill, kill_marked, marked, workers_among

ROOT = Path(__file__).resolve().parents[2]
STOP_SECS = 120.0
_LOOK_SECS = 0.05
_SHOWN_BYTES = 6000
_NOT_BEGUN = "JAVA_GATEWAY_EXITED"


class Pipeline:
    """The jobs of a file, however often they are started."""

    def __init__(self, file: Path, *, flaw: str = "", journal: Path | None = None) -> None:
        self.restarts: Counter[str] = Counter()
        self._file, self._flaw, self._journal = file, flaw, journal
        self._mark = uuid4().hex
        self._log = file.with_name("pipeline.log")
        self._log.touch()
        self._begins = 0
        self._jvm_killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        kill_marked(self._mark)
        if self._process is not None:
            self._process.wait()

    def start(self) -> None:
        """Start it. Jobs run a while later: see `ready`."""
        command = [EVERBROOK, "pipeline", "run", str(self._file)]
        if self._flaw:
            command = [sys.executable, "-m", "soak.sync.program", self._flaw, str(self._file)]
        self._begins, self._jvm_killed = self._log.stat().st_size, False
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command,
                cwd=self._file.parent,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SPARK_", "EVERBROOK_", "DS_", "POSTGRES_"))
        }
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        scratch = self._file.with_name("scratch")
        scratch.mkdir(exist_ok=True)
        told = {} if self._journal is None else {JOURNAL: str(self._journal)}
        return inherited | {"PYTHONPATH": path, "TMPDIR": str(scratch), MARK: self._mark} | told

    @property
    def ready(self) -> bool:
        """Whether all jobs run since it was started last."""
        told = [event["event"] for event in self.events() if event["event"] in {"lost", "ready"}]
        return told[-1:] == ["ready"]

    def events(self) -> list[dict[str, Any]]:
        """Give what it has said since it was started last."""
        lines = self._said().splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
        return [event for event in events if "event" in event]

    def _said(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._begins)
            return file.read().decode(errors="replace")

    def check(self) -> None:
        """Raise if it has ended, or has given a job up: nothing that happens here is a reason.

        But for a JVM that is killed: that ends the program, and whoever runs it starts it again. If that was before
        the JVM had said how to reach it, it is as if there were no Java that works.
        """
        for event in self.events():
            if event.get("state") == "failed":
                raise PromiseBroken(f"the job {event['job']} was given up: {event['error']}")
        if self._process is not None and self._process.poll() is not None:
            lost = self._process.returncode == UNREACHABLE or _NOT_BEGUN in self._said()
            if not (self._jvm_killed and lost):
                raise PromiseBroken(f"the pipeline ended with {self._process.returncode}:\n{self.output}")
            self.note()
            self.start()

    @property
    def output(self) -> str:
        """The last of what it has said."""
        return self._log.read_bytes().decode(errors="replace")[-_SHOWN_BYTES:]

    def kill(self, *, workers: bool) -> None:
        """End the program and the JVM at once; the Python workers too, or they find out for themselves."""
        self.note()
        members = self._members()
        kill(each.pid for each in members if workers or each.is_jvm or self._is_program(each))
        if self._process is not None:
            self._process.wait()
            self._process = None

    def kill_jvm(self) -> str:
        """End the JVM alone. Says nothing if there was none."""
        found = [each.pid for each in self._members() if each.is_jvm]
        self._jvm_killed = self._jvm_killed or bool(found)
        kill(found)
        return "the JVM" if found else ""

    def kill_worker(self, random: Random) -> str:
        """End one Python worker, and say what it did. Says nothing if there was none."""
        found = {kind: pids for kind, pids in workers_among(self._members()).items() if pids}
        if not found:
            return ""
        kind = random.choice(list(found))
        kill([random.choice(sorted(found[kind]))])
        return f"a {kind}"

    def stop(self) -> None:
        """Ask it to end, and see that it does."""
        self.note()
        assert self._process is not None  # noqa: S101 - for the type checker
        self._process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECS
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise PromiseBroken(f"the pipeline did not end within {STOP_SECS:g} s:\n{self.output}")
            time.sleep(_LOOK_SECS)
        if self._process.returncode:
            raise PromiseBroken(f"the pipeline ended with {self._process.returncode}:\n{self.output}")
        self._process = None

    def note(self) -> None:
        """Count what happened to the jobs since the last start."""
        for event in self.events():
            state = event.get("state") if event["event"] == "state" else event["event"]
            if state in {"restarting", "waiting", "lost"}:
                self.restarts[str(state)] += 1

    def _members(self) -> list[Process]:
        return marked(self._mark)

    def _is_program(self, process: Process) -> bool:
        return self._process is not None and process.pid == self._process.pid
