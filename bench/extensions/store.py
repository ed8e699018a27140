"""A server of one mode on a folder that outlives it, so that a store can be opened again."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import ServerProcess, free_port
from bench.subjects import DATA, HIGH

# Closing may have to fold all that was written.
_STOP_TIMEOUT_SECS = 60.0
_LIMITS = {
    "DS_LIMITS__MAX_MEMORY_BYTES": HIGH,
    "DS_LIMITS__MAX_STREAM_BYTES": HIGH,
    "DS_LOG__LEVEL": "warn",
}


@contextmanager
def store_folder() -> Iterator[Path]:
    """Yield an empty folder on the disk of the code, for as long as the block lasts."""
    DATA.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="bench-", dir=DATA) as folder:
        yield Path(folder)


def serve(mode: str, folder: Path) -> ServerProcess:
    """Describe a server on a folder. A mode without a disk leaves it empty."""
    port = free_port()
    command = [str(Path(sys.executable).with_name("everbrook")), "serve", "--port", str(port), "--storage", mode]
    command += ["--data-dir", str(folder)] if mode != "memory" else []
    return ServerProcess(command, _LIMITS, port, stop_timeout_secs=_STOP_TIMEOUT_SECS)
