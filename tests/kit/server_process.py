"""The server as a person starts it: `everbrook serve` in a process of its own."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from tests.kit.wire import Wire

EXIT_TIMEOUT_SECS = 60.0
# A client may wait through a restart: two images have to start, which takes a while on a machine that is busy.
PATIENCE_SECS = 60.0
EVERBROOK = str(Path(sys.executable).parent / "everbrook")


def environment(**settings: str) -> dict[str, str]:
    """The environment, without settings of whoever runs the tests, and with no more connections than files allow."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DS_", "RUST_LOG"))}
    return inherited | {"DS_STORAGE__MODE": "memory", "DS_LIMITS__MAX_CONNECTIONS": "100"} | settings


class ServerProcess:
    """A server that has said where it listens."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.banner = [process.stdout.readline(), process.stdout.readline()]
        found = re.search(r"https?://(\S+):(\d+)", self.banner[0])
        assert found, self.banner
        self.address = (found[1], int(found[2]))

    def connect(self, receive_buffer_bytes: int | None = None) -> Wire:
        return Wire(self.address, receive_buffer_bytes, PATIENCE_SECS)

    def stop(self, signal_number: int = signal.SIGTERM) -> Self:
        """Tell the server to stop."""
        self.process.send_signal(signal_number)
        return self

    def ended(self) -> tuple[int, str, str]:
        """Wait for the end: the exit code, and what was written to both outputs since the banner."""
        out, err = self.process.communicate(timeout=EXIT_TIMEOUT_SECS)
        return self.process.returncode, out, err


@contextmanager
def serving(folder: Path, *arguments: str, **settings: str) -> Iterator[ServerProcess]:
    """Run `everbrook serve` in an empty folder, on a free port."""
    with subprocess.Popen(
        [EVERBROOK, "serve", "--port", "0", *arguments],
        cwd=folder,
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield ServerProcess(process)
        finally:
            process.kill()
