"""The stack as a person starts it: `everbrook up` in a process of its own, on free ports, in a folder of its own."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from unittest.mock import patch

import psutil  # type: ignore[import-untyped]

from everbrook.cli.main import main
from tests.kit.server_process import EVERBROOK, environment

UP_TIMEOUT_SECS = 240.0
DOWN_TIMEOUT_SECS = 90.0
PORTS = ("--port", "0", "--postgres-port", "0", "--envoy-port", "0", "--envoy-admin-port", "0")


class Stack:
    """A stack that has been started; `wait` says when its parts are ready."""

    def __init__(self, process: subprocess.Popen[str], parts: int) -> None:
        self.process = process
        self.parts = parts
        self.urls: dict[str, str] = {}
        self.began = time.monotonic()
        self.reports: list[dict[str, str]] = []
        self._lines: SimpleQueue[dict[str, str]] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(json.loads(line))

    def report(self, timeout_secs: float = UP_TIMEOUT_SECS) -> dict[str, str]:
        """Give the next line that it prints."""
        deadline = time.monotonic() + timeout_secs
        while True:
            try:
                line = self._lines.get(timeout=0.1)
            except Empty:
                assert self.process.poll() is None, f"it ended: {self.errors()}"
                assert time.monotonic() < deadline, "nothing more was reported"
                continue
            self.reports.append(line)
            self.urls[line["part"]] = line["url"]
            return line

    def wait(self, state: str = "ready", part: str | None = None) -> float:
        """Wait until a part, or each of them, was reported in a state; gives the time since the start."""
        missing = set(range(self.parts)) if part is None else {0}
        while missing:
            line = self.report()
            if line["state"] == state and part in {None, line["part"]}:
                missing.pop()
        return time.monotonic() - self.began

    def child(self, part: str) -> psutil.Process:
        return self.child_of(self.process.pid, part)

    @staticmethod
    def child_of(pid: int, part: str) -> psutil.Process:
        """Find the process of a part by what it runs."""
        words = {
            "server": "serve",
            "postgres": "postgres",
            "pipeline": "pipeline",
            "heartbeat": "heartbeat",
            "envoy": "envoy",
        }[part]
        for child in psutil.Process(pid).children():
            if any(words in argument for argument in child.cmdline()):
                return child
        raise AssertionError(f"{part} does not run")

    def family(self) -> list[psutil.Process]:
        """Give every process below it."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        self.process.send_signal(signal_number)
        code = self.process.wait(DOWN_TIMEOUT_SECS)
        self._reader.join(5)
        while not self._lines.empty():
            self.reports.append(self._lines.get())
        return code

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read()


def command(folder: Path, *arguments: str) -> list[str]:
    return [EVERBROOK, "up", "--json", "--data-dir", str(folder), *PORTS, *arguments]


def acid(**variables: str) -> dict[str, str]:
    """The environment of whoever runs the tests, with a server that keeps what it is given."""
    return environment(DS_STORAGE__MODE="acid", **variables)


@contextmanager
def up(folder: Path, *arguments: str, parts: int = 5, environ: dict[str, str] | None = None) -> Iterator[Stack]:
    """Start a stack in a folder. At the end it is stopped, if it still runs."""
    with subprocess.Popen(
        command(folder, *arguments),
        env=acid() if environ is None else environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Stack(process, parts)
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(DOWN_TIMEOUT_SECS)
                except subprocess.TimeoutExpired:
                    process.kill()


def refused(folder: Path, *arguments: str) -> tuple[int, str]:
    """Start a stack that can't start; give its exit code, and what it said."""
    code, _, said = ran(*command(folder, *arguments)[1:])
    return code, said


def ran(*arguments: str) -> tuple[int, str, str]:
    """Run a command that starts no process, in this one; give its exit code, and what it wrote."""
    out, err = StringIO(), StringIO()
    with patch.dict(os.environ, acid(), clear=True), redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def eventually(look: Any, timeout_secs: float = UP_TIMEOUT_SECS) -> Any:  # noqa: ANN401 - whatever is looked for
    """Look until there is something to see, and give it."""
    deadline = time.monotonic() + timeout_secs
    while not (seen := look()):
        assert time.monotonic() < deadline, f"nothing to see after {timeout_secs:g} s"
        time.sleep(0.05)
    return seen


def gone(processes: list[psutil.Process], timeout_secs: float = 120.0) -> bool:
    """Say whether processes have ended, or do so soon. A zombie of another parent's has ended."""
    deadline = time.monotonic() + timeout_secs
    while any(_runs(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def port_of(url: str) -> int:
    """Give the port in a URL, whatever follows it."""
    return int(url.split("/")[2].rpartition(":")[2])
