"""Catch-up: a reader that starts at the beginning of a long stream and follows the pages until it is up to date."""

import http.client
from dataclasses import dataclass
from time import perf_counter_ns

from bench.channel import LoadFailed
from bench.load import Bounds, Load, Target
from bench.meter import Meter
from bench.processes import HOST
from bench.streams import StreamPlan

_TIMEOUT_SECS = 60.0
_BUFFER_BYTES = 1 << 20
_OK = 200
_BATCH = 10_000


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """Reads a JSON stream of `messages` messages of `message_bytes` again and again. A latency is that of a page."""

    name: str
    title: str
    messages: int
    message_bytes: int = 100
    max_operations: int = 20

    @property
    def streams(self) -> tuple[StreamPlan, ...]:
        """One long stream, written in large batches."""
        message = b'"%b"' % (b"x" * (self.message_bytes - 2))
        batch = b"[%b]" % b",".join([message] * _BATCH)
        return (StreamPlan("application/json", (batch,) * (self.messages // _BATCH)),)

    async def load(self, target: Target, bounds: Bounds, meter: Meter) -> Load:
        """Read the whole stream at least once, then until a bound is reached."""
        load = Load(done=0.0)
        buffer = memoryview(bytearray(_BUFFER_BYTES))
        connection = http.client.HTTPConnection(HOST, target.port, timeout=_TIMEOUT_SECS)
        meter.wait_until_idle()
        try:
            with meter:
                deadline_ns = perf_counter_ns() + int(bounds.seconds * 1e9)
                for _ in range(bounds.operations):
                    load.done = (load.done or 0.0) + self._read(connection, target.paths[0], load, buffer) / 1e6
                    if perf_counter_ns() >= deadline_ns:
                        break
        finally:
            connection.close()
        return load

    def _read(self, connection: http.client.HTTPConnection, path: str, load: Load, buffer: memoryview) -> int:
        """Read the stream once; tells how many bytes of payload came."""
        offset, received, pages, up_to_date = "-1", 0, 0, False
        while not up_to_date:
            sent_ns = perf_counter_ns()
            connection.request("GET", f"{path}?offset={offset}")
            answer = connection.getresponse()
            if answer.status != _OK:
                raise LoadFailed(f"expected {_OK}, got {answer.status}: {answer.read(400)!r}")
            while size := answer.readinto(buffer):
                received += size
            load.latencies_ns.append(perf_counter_ns() - sent_ns)
            pages += 1
            offset = answer.getheader("Stream-Next-Offset", "")
            up_to_date = answer.getheader("Stream-Up-To-Date") == "true"
        # Every page is an array: its brackets, and a comma between two messages.
        expected = self.messages * (self.message_bytes + 1) + pages
        if received != expected:
            raise LoadFailed(f"expected a payload of {expected} bytes in {pages} pages, got {received}")
        return received
