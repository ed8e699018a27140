"""A server that answers every read with the same bytes: what remains is the cost of the load generator itself.

Run as `python -m bench.constant PORT`.
"""

import asyncio
import sys
from itertools import repeat
from typing import cast

import uvloop

from bench.channel import Expectation
from bench.load import Bounds, run_closed_loop
from bench.meter import Meter
from bench.processes import HOST, ServerProcess, free_port
from bench.requests import format_request

_ANSWER = (
    b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 0000000000000100\r\nAccess-Control-Allow-Origin: *\r\n"
    b"X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: cross-origin\r\n\r\n"
)
_CONNECTIONS = 64


class _Constant(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - whatever it was
        self._transport.write(_ANSWER)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Constant, HOST, port)
    await server.serve_forever()


def generator_cost_us(seconds: float) -> float:
    """CPU of the load generator per append, in microseconds, against a server that does nothing."""
    port = free_port()
    append = format_request("POST", "/v1/stream/constant", b"x" * 100, "application/octet-stream")
    plans = [repeat(append) for _ in range(_CONNECTIONS)]
    with ServerProcess([sys.executable, "-m", "bench.constant", str(port)], {}, port) as server:
        meter = Meter(server.pid)
        bounds = Bounds(seconds, 1_000_000)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            load = runner.run(run_closed_loop(port, plans, Expectation(204), bounds, meter))
    return meter.generator_cpu_ns / len(load.latencies_ns) / 1e3


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
