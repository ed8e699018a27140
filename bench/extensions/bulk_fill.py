"""Filling a store through the server itself, with many connections at once."""

import asyncio
from collections.abc import Iterator, Sequence

import uvloop

from bench.channel import Channel, Expectation, LoadRun, connect, disconnect
from bench.requests import format_request

_CONNECTIONS = 64
_PATIENCE_SECS = 600.0


class _Filling(LoadRun):
    def __init__(self, requests: Iterator[bytes], connections: int) -> None:
        super().__init__()
        self.requests = requests
        self._busy = connections

    def retire(self) -> None:
        """One connection has had its last answer."""
        self._busy -= 1
        if self._busy == 0:
            self.finish()


class _Filler(Channel):
    run: _Filling

    def answered(self, answer: bytes) -> None:  # noqa: ARG002 - it was checked
        self.send_next()

    def send_next(self) -> None:
        request = next(self.run.requests, None)
        if request is None:
            self.run.retire()
        else:
            self.send(request)


def send_all(port: int, requests: Sequence[bytes], expectation: Expectation) -> None:
    """Make each of the requests once, over many connections; every answer has to be the expected one."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_send_all(port, requests, expectation))


async def _send_all(port: int, requests: Sequence[bytes], expectation: Expectation) -> None:
    run = _Filling(iter(requests), _CONNECTIONS)
    fillers = [_Filler(run, expectation) for _ in range(_CONNECTIONS)]
    try:
        await connect(port, fillers)
        for filler in fillers:
            filler.send_next()
        async with asyncio.timeout(_PATIENCE_SECS):
            await run.outcome
    finally:
        disconnect(fillers)


def create_streams(port: int, paths: Sequence[str], body: bytes) -> None:
    """Create streams of bytes, each with one message."""
    send_all(port, [format_request("PUT", path, body, "application/octet-stream") for path in paths], Expectation(201))
