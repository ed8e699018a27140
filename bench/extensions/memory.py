"""How much memory a server takes for something: its peak, as the kernel keeps it, above what it had before."""

import re
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.processes import resident_bytes

# What the kernel is told to have it forget the peak so far; see proc_pid_clear_refs(5).
_FORGET_PEAK = "5"


def peak_bytes(pid: int) -> int:
    """Return the greatest resident memory of a process since the kernel was told to forget it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if match is None:
        raise ProcessLookupError(f"process {pid} shows no VmHWM: it has ended")
    return int(match[1]) * 1024


class ExtraMemory:
    """The extra memory of a process during a `with` block, in bytes. No moment of it is missed."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.extra_bytes = 0

    def __enter__(self) -> Self:
        Path(f"/proc/{self._pid}/clear_refs").write_text(_FORGET_PEAK, encoding="ascii")
        self._before_bytes = resident_bytes(self._pid)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.extra_bytes = peak_bytes(self._pid) - self._before_bytes
