"""A server under test as a process: started, watched from outside, and always stopped."""

import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

HOST = "127.0.0.1"
_START_TIMEOUT_SECS = 20.0
_STOP_TIMEOUT_SECS = 5.0


class StartFailed(Exception):
    """A server did not come up."""


def free_port() -> int:
    """A port nobody listens on right now."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def process_cpu_ns(pid: int) -> int:
    """User and system time of all threads of a process, those that ended included.

    The kernel's CPU clock of the process is the sum that /proc/<pid>/stat shows, in nanoseconds instead of ticks of
    10 ms; its clock id follows from the process id (see clock_getcpuclockid(3)).
    """
    scheduler_clock = 2
    return time.clock_gettime_ns((~pid << 3) | scheduler_clock)


def resident_bytes(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    match = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise ProcessLookupError(f"process {pid} shows no VmRSS: it has ended")
    return int(match[1]) * 1024


class ServerProcess:
    """A server for the length of a `with` block: it accepts connections inside and is gone after."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        port: int,
        folder: Path | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        stop_timeout_secs: float = _STOP_TIMEOUT_SECS,
    ) -> None:
        """Describe a server, where it runs, and the headers that every request to it must carry.

        One that has not ended so long after it was asked to is killed.
        """
        self._command = command
        self._environment = environment
        self._folder = folder
        self._stop_timeout_secs = stop_timeout_secs
        self.port = port
        self.headers = headers or {}

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as cleanup:
            self._log: IO[bytes] = cleanup.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env={**os.environ, **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
            )
            cleanup.callback(self._stop)
            self._wait_until_it_accepts()
            self._cleanup = cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    @property
    def pid(self) -> int:
        """The id of the server's process."""
        return self._process.pid

    def output(self) -> str:
        """What the server has printed so far, for an error message."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]

    def _wait_until_it_accepts(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_SECS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise StartFailed(f"{self._command[0]} ended with {self._process.returncode}:\n{self.output()}")
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            time.sleep(0.02)
        raise StartFailed(
            f"{self._command[0]} accepted no connection within {_START_TIMEOUT_SECS:g} s:\n{self.output()}"
        )

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(self._stop_timeout_secs)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
