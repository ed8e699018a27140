"""The processes of a pipeline, whoever has become their parent: all have a mark of ours in their environment.

The JVM leads a session of its own, its workers have groups of their own, and what has lost its parent gets another.
Nothing without the mark is ever touched.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

MARK = "SOAK_SYNC_MARK"
_GONE_SECS = 20.0
_PARENT_FIELD = 1


class Process(NamedTuple):
    """A process, its parent, and its command."""

    pid: int
    parent: int
    command: str

    @property
    def is_jvm(self) -> bool:
        """Whether it is the JVM of Spark."""
        return self.command.partition("\0")[0].endswith("java")


def marked(mark: str) -> list[Process]:
    """Give the processes that have a mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(_process(int(entry.name)))
    return found


def _process(pid: int) -> Process:
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return Process(pid, int(fields[_PARENT_FIELD]), (folder / "cmdline").read_bytes().decode(errors="replace"))


def children_of(parent: int) -> list[int]:
    """Give the processes that a process has started, and those that these have started."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                process = _process(int(entry.name))
                parents.setdefault(process.parent, []).append(process.pid)
    found = list(parents.get(parent, ()))
    for pid in found:
        found.extend(parents.get(pid, ()))
    return found


def workers_among(processes: Iterable[Process]) -> dict[str, list[int]]:
    """Give the Python workers by what they do: they run tasks, or read a source for the driver."""
    daemons = {each.pid for each in processes if "pyspark.daemon" in each.command}
    tasks = [each.pid for each in processes if each.pid in daemons and each.parent in daemons]
    readers = [each.pid for each in processes if "python_streaming_source_runner" in each.command]
    return {"worker of a task": tasks, "reader of a source": readers}


def kill(pids: Iterable[int]) -> None:
    """End processes without warning."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def kill_marked(mark: str) -> None:
    """End all that have a mark, and whatever they start meanwhile."""
    deadline = time.monotonic() + _GONE_SECS
    while (left := marked(mark)) and time.monotonic() < deadline:
        kill(each.pid for each in left)
        time.sleep(0.02)
