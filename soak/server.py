"""A real server on a data folder: started, killed without warning, and started again on the same port."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
EVERBROOK = str(Path(sys.executable).with_name("everbrook"))
START_TIMEOUT_SECS = 60.0
STOP_TIMEOUT_SECS = 60.0
CHECK_TIMEOUT_SECS = 300.0
OUTPUT_BYTES = 4000


class ServerFailed(Exception):
    """A server did not come up, or ended by itself."""


def free_port() -> int:
    """Give a port nobody listens on right now."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """`everbrook serve` in one storage mode, on one folder and one port, however often it is started."""

    def __init__(
        self,
        mode: str,
        folder: Path,
        *,
        under: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> None:
        """Describe a server. `under` is a command that runs it, such as a tracer; without a port one is chosen."""
        self.mode = mode
        self.folder = folder
        self.port = port or free_port()
        self._command = [*under, EVERBROOK, "serve", "--port", str(self.port)]
        self._settings = {
            "DS_STORAGE__MODE": mode,
            "DS_STORAGE__DATA_DIR": str(folder),
            "DS_LIMITS__MAX_CONNECTIONS": "1000",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the server does

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        self._log.close()

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        if self._process is None:
            raise ServerFailed("the server was never started")
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """How it has ended, if it has."""
        return None if self._process is None else self._process.poll()

    @property
    def output(self) -> str:
        """What the servers have printed so far, for an error message."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-OUTPUT_BYTES:]

    def start(self) -> float:
        """Start it, and tell how many seconds it took until it accepted connections."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DS_", "RUST_LOG"))}
        begin = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - our own server, with arguments of our own
            self._command,
            env=inherited | self._settings,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        while time.monotonic() < begin + START_TIMEOUT_SECS:
            if self._process.poll() is not None:
                raise ServerFailed(f"the server ended with {self._process.returncode}:\n{self.output}")
            if self._accepts():
                return time.monotonic() - begin
            time.sleep(0.005)
        raise ServerFailed(f"the server accepted no connection within {START_TIMEOUT_SECS:g} s:\n{self.output}")

    def kill(self) -> None:
        """End it without warning, and whatever it runs under."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, and give its exit code."""
        return self._end(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def check(self) -> str:
        """Have `everbrook check` read everything that a server which has ended left. Gives what is damaged, if any."""
        command = [EVERBROOK, "check", str(self.folder)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CHECK_TIMEOUT_SECS, check=False)  # noqa: S603
        return done.stdout + done.stderr if done.returncode else ""

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            os.killpg(self._process.pid, number)
        code = self._process.wait(STOP_TIMEOUT_SECS)
        while self._accepts():  # what ran under a tracer may end a moment after it
            time.sleep(0.005)
        return code

    def _accepts(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True
