"""Drivers in processes of their own, to be killed with -9."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ROOT = Path(__file__).parents[2]


@contextmanager
def driving(program: Path, *arguments: str) -> Iterator[None]:
    """Run a driver from when it says that it has begun, and kill it with all that it has started."""
    process = subprocess.Popen(
        [sys.executable, str(program), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(_ROOT))))},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"begun")
        yield
        assert process.poll() is None, "the driver has ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
