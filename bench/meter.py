"""What a stretch of load cost: wall-clock time, the server's CPU and the load generator's own."""

import gc
import time
from types import TracebackType
from typing import Self

from bench.processes import process_cpu_ns

_PATIENCE_SECS, _LOOK_SECS, _IDLE_SHARE = 5.0, 0.2, 0.05


class Meter:
    """Reads the clocks when a `with` block begins and ends; the garbage collector rests in between.

    The generator keeps millions of latencies; a collection over them would show up as a latency of the server.
    """

    def __init__(self, server_pid: int) -> None:
        self._server_pid = server_pid
        self.elapsed_ns = 0
        self.server_cpu_ns = 0
        self.generator_cpu_ns = 0

    def __enter__(self) -> Self:
        gc.collect()
        gc.disable()
        self._begin = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.enable()
        if error is None:
            end = self._read()
            self.elapsed_ns, self.server_cpu_ns, self.generator_cpu_ns = (
                after - before for before, after in zip(self._begin, end, strict=True)
            )

    def wait_until_idle(self) -> None:
        """Let the server do what it put off while it was answering, for as long as that takes within reason."""
        deadline = time.monotonic() + _PATIENCE_SECS
        busy_ns = process_cpu_ns(self._server_pid)
        while time.monotonic() < deadline:
            time.sleep(_LOOK_SECS)
            before_ns, busy_ns = busy_ns, process_cpu_ns(self._server_pid)
            if busy_ns - before_ns < _IDLE_SHARE * _LOOK_SECS * 1e9:
                return

    def _read(self) -> tuple[int, int, int]:
        return time.perf_counter_ns(), process_cpu_ns(self._server_pid), time.process_time_ns()
