"""Where wakes arrive: a receiver of webhooks, and a reader of the wake stream, both on the load generator's loop."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import cast

from bench.channel import LoadConnection, LoadRun
from bench.processes import HOST
from bench.requests import format_request
from bench.streams import stream_path
from bench.subscriptions.scene import WAKE_STREAM

_DONE = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"done":true}'
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_NAME = re.compile(rb'"subscription_id": ?"([^"]+)"')


class Arrivals:
    """When which subscription was woken, by the clock of the generator."""

    def __init__(self) -> None:
        self.count = 0
        self.last_ns = 0
        self._waited: dict[str, asyncio.Future[int]] = {}

    def expect(self, name: str) -> "asyncio.Future[int]":
        """Wait for the next wake of a subscription."""
        future = self._waited[name] = asyncio.get_running_loop().create_future()
        return future

    def arrive(self, name: str) -> None:
        """Note a wake."""
        self.last_ns = perf_counter_ns()
        self.count += 1
        future = self._waited.pop(name, None)
        if future and not future.done():
            future.set_result(self.last_ns)


class _Call(asyncio.Protocol):
    """A connection on which webhooks come; each is done at once."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._partial = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def abort(self) -> None:
        """Break the connection off."""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take every whole request."""
        data = self._partial + data
        while (end := _whole(data)) is not None:
            found = _NAME.search(data, 0, end)
            self._arrivals.arrive(found[1].decode() if found else "")
            self._transport.write(_DONE)
            data = data[end:]
        self._partial = data


def _whole(data: bytes) -> int | None:
    """Return where the first request ends, if it is whole."""
    head = data.find(_HEAD_END)
    length = _LENGTH.search(data, 0, head + 2) if head >= 0 else None
    if length is None:
        return None
    end = head + len(_HEAD_END) + int(length[1])
    return end if len(data) >= end else None


@asynccontextmanager
async def receiving(arrivals: Arrivals, port: int) -> AsyncIterator[None]:
    """Take webhooks on a port of the loopback interface, for as long as the block lasts."""
    calls: list[_Call] = []

    def begin() -> _Call:
        calls.append(_Call(arrivals))
        return calls[-1]

    server = await asyncio.get_running_loop().create_server(begin, HOST, port, backlog=1024)
    try:
        yield
    finally:
        server.close()
        for call in calls:
            call.abort()
        await server.wait_closed()


class WakeReader(LoadConnection):
    """Follows the wake stream as events are pushed."""

    def __init__(self, run: LoadRun, arrivals: Arrivals) -> None:
        super().__init__(run)
        self._arrivals = arrivals
        self._partial = b""
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def follow(self) -> None:
        """Begin after what is there by now."""
        self.transport.write(format_request("GET", f"{stream_path(WAKE_STREAM)}?offset=now&live=sse"))

    def data_received(self, data: bytes) -> None:
        """Take what is pushed, event by event."""
        *events, self._partial = (self._partial + data).split(b"\n\n")
        for event in events:
            if b"event: control" in event and not self.ready.done():
                self.ready.set_result(None)
            for found in _NAME.finditer(event):
                self._arrivals.arrive(found[1].decode())
