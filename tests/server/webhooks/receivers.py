"""Receivers of webhooks with real sockets, and a network on which every public address is one of them."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import uvloop
from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError

from everbrook.server.webhooks.delivery import DeliveryLimits, WebhookClient
from tests.kit.server_thread import PATIENCE_SECS

T = TypeVar("T")

PUBLIC = "93.184.215.14"
OTHER_PUBLIC = "93.184.215.15"
NAME = "worker.example"
LIMITS = DeliveryLimits(
    max_concurrent=8,
    max_idle_connections=4,
    idle_secs=30,
    connect_timeout_secs=5,
    total_timeout_secs=10,
    max_response_bytes=64 * 1024,
)
NOBODY_TRUSTED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run on the loop that the server uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(main, PATIENCE_SECS))


def signed(_body: bytes) -> str:
    return "t=1,kid=k,ed25519=s"


def answer(text: bytes = b"", status: bytes = b"200 OK", headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n%b\r\n%b" % (status, len(text), headers, text)


class Receiver:
    """A server that reads requests and does with each what it is told."""

    def __init__(self, behave: Behave | bytes) -> None:
        self._behave = behave
        self.port = 0
        self.requests: list[bytes] = []
        self.connections = 0
        self.arrived = asyncio.Event()
        self.ended = asyncio.Event()

    @property
    def headers(self) -> dict[str, str]:
        lines = self.requests[-1].split(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ended.set()
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        self.requests.append(head + await reader.readexactly(length))
        self.arrived.set()
        if isinstance(self._behave, bytes):
            writer.write(self._behave)
            await writer.drain()
            return True
        await self._behave(reader, writer)
        return False


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Read what comes, and never answer."""
    await reader.read()


@asynccontextmanager
async def receiving(
    behave: Behave | bytes, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Receiver]:
    """Serve on a port of its own for as long as the context lasts."""
    receiver = Receiver(behave)
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with suppress(asyncio.CancelledError):  # below: the test is over
            await receiver.serve(reader, writer)

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


class Internet(AsyncNetworkBackend):
    """A network on which each public address leads to a receiver, or nowhere. It notes what was dialled."""

    def __init__(self, ports: dict[str, int]) -> None:
        self._ports = ports
        self._network = AnyIOBackend()
        self.dialled: list[str] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        self.dialled.append(f"{host}:{port}")
        if host not in self._ports:
            raise ConnectError("nobody is there")
        return await self._network.connect_tcp("127.0.0.1", self._ports[host], timeout, local_address, socket_options)


class Names:
    """A resolver that gives the answers it was told, one after the other, the last one for ever."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, name: str, port: int) -> Sequence[str]:
        self.asked.append(f"{name}:{port}")
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(found, OSError):
            raise found
        return found


def local_client(limits: DeliveryLimits = LIMITS) -> WebhookClient:
    """A client that may deliver to this machine, and knows no name."""
    names = Names(OSError("no name is to be looked up"))
    return WebhookClient(limits, allow_loopback_http=True, resolver=names, tls=NOBODY_TRUSTED)
