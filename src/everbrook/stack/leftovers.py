"""Processes that a killed stack left behind: they are recorded when they start, and ended before the next start.

On Linux they end when the stack dies, but that takes a moment, and other systems do not do it. A process is identified
by its id and the time of its birth, because ids are reused.
"""

import json
from contextlib import suppress
from pathlib import Path
from signal import SIGINT, SIGTERM

import psutil  # type: ignore[import-untyped]

from everbrook.atomic_file import replace_file

_NAME = "processes.json"
_END_TIMEOUT_SECS = 20.0


class Processes:
    """The processes of a stack, in a file of its data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / _NAME
        self._births: dict[str, float] = {}

    def started(self, pid: int) -> None:
        """Record a process, unless it has ended already."""
        try:
            self._births[str(pid)] = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            return
        self._write()

    def ended(self, pid: int) -> None:
        self._births.pop(str(pid), None)
        self._write()

    def end_leftovers(self) -> list[int]:
        """End the processes that an earlier stack left, with their children, and return their ids."""
        found = [process for process in map(_alive, self._read().items()) if process is not None]
        families = [relative for process in found for relative in (process, *_children(process))]
        for process in found:
            _tell(process)
        _, stubborn = psutil.wait_procs(families, timeout=_END_TIMEOUT_SECS)
        for process in stubborn:
            _kill(process)
        self._write()
        return [process.pid for process in found]

    def _read(self) -> dict[str, float]:
        try:
            births = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return births if isinstance(births, dict) else {}

    def _write(self) -> None:
        replace_file(self._file, json.dumps(self._births).encode())


def _alive(record: tuple[str, float]) -> psutil.Process | None:
    pid, birth = record
    try:
        process = psutil.Process(int(pid))
        return process if process.create_time() == birth and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.NoSuchProcess, ValueError):
        return None


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _tell(process: psutil.Process) -> None:
    """Signal a process to end. For Postgres SIGINT is the fast shutdown, which does not wait for clients."""
    with suppress(psutil.NoSuchProcess):
        process.send_signal(SIGINT if process.name().startswith("postgres") else SIGTERM)


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()
