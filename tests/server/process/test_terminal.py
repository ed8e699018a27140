"""SIGHUP means two things: read keys and certificates anew, or that the terminal has gone."""

import os
import signal
import subprocess
from pathlib import Path

from tests.kit.server_process import EVERBROOK, environment, serving

# A session of its own, whose terminal is the one that is standard input.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


def test_a_server_whose_terminal_closes_stops(tmp_path: Path) -> None:
    terminal, end = os.openpty()
    with subprocess.Popen(
        ["python3", "-c", ON_TERMINAL, EVERBROOK, "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment(),
        stdin=end,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        os.close(end)
        assert process.stdout is not None
        process.stdout.readline()
        os.close(terminal)
        assert process.wait() == 0


def test_a_hang_up_without_a_terminal_is_a_reload(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as wire:
        server.stop(signal.SIGHUP)
        assert server.process.stdout is not None
        assert server.process.stdout.readline().startswith("everbrook has reloaded")
        assert wire.get("/healthz").status == 200
