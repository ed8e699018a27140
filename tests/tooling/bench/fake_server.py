"""Servers that answer as a test wants them to, for as long as a `with` block lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

ACKNOWLEDGED = b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 1\r\n\r\n"
EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: control\ndata:{}\n\n"


class FakeConnection(asyncio.Protocol):
    """Every read is taken for one request and handed to `answer`."""

    def __init__(self, answer: "Answer") -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._answer(self, data)

    def write(self, data: bytes) -> None:
        self.transport.write(data)


Answer = Callable[[FakeConnection, bytes], None]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[int]:
    """A server on the port that is given."""
    server = await asyncio.get_running_loop().create_server(lambda: FakeConnection(answer), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()
