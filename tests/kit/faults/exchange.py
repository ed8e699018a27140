"""One request on its way through the proxy, as a fault handles it: what came, what the server said, what goes back.

Both sides are real connections, and h11 keeps their framing. A fault may do with them what it likes: what it leaves
unfinished is cut.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import suppress

import h11
from msgspec import Struct

HOST = "127.0.0.1"
READ_BYTES = 256 * 1024
_HOP_BY_HOP = {b"content-length", b"transfer-encoding"}

Headers = list[tuple[bytes, bytes]]


class Request(Struct, frozen=True):
    """A request as the client sent it. Header names are lower-case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes = b""


class Side:
    """A connection and the state of HTTP on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, to_client: bool) -> None:
        self.machine = h11.Connection(h11.SERVER if to_client else h11.CLIENT, max_incomplete_event_size=READ_BYTES)
        self._reader, self._writer = reader, writer

    async def event(self) -> object:
        """Wait for the next event of the other side."""
        while (event := self.machine.next_event()) is h11.NEED_DATA:
            self.machine.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def pieces(self) -> AsyncIterator[bytes]:
        """Give the body that is on its way, as it comes."""
        while not isinstance(event := await self.event(), h11.EndOfMessage):
            if not isinstance(event, h11.Data):
                raise ConnectionResetError(f"expected more of a body, got {event!r}")
            yield bytes(event.data)

    async def send(self, *events: h11.Event) -> None:
        for event in events:
            self._writer.write(self.machine.send(event) or b"")
        await self._writer.drain()

    async def gone(self) -> None:
        """Wait until the other side has hung up. What it sends meanwhile is kept for later."""
        while data := await self._reader.read(READ_BYTES):
            self.machine.receive_data(data)

    def cut(self, *, rudely: bool = False) -> None:
        """End the connection after what was sent; rudely, with a reset instead of an end."""
        if rudely:
            held: socket.socket = self._writer.get_extra_info("socket")
            with suppress(OSError):
                held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        self._writer.close()


class Exchange:
    """A request of a client, and the way to the server and back."""

    def __init__(self, client: Side, request: Request, port: int) -> None:
        self.request = request
        self._client, self._port = client, port
        self._asked: list[Side] = []

    async def ask(self, *, identity: bool = False) -> "Answer":
        """Send the request to the server, on a connection of its own, and wait for the head of its answer."""
        server = Side(*await asyncio.open_connection(HOST, self._port), to_client=False)
        self._asked.append(server)
        dropped = {"transfer-encoding", "content-length"} | ({"accept-encoding"} if identity else set())
        headers = [(name, value) for name, value in self.request.headers.items() if name not in dropped]
        if self.request.body or self.request.method in {"POST", "PUT"}:
            headers.append(("content-length", str(len(self.request.body))))
        asked = h11.Request(method=self.request.method, target=self.request.target, headers=headers)
        await server.send(asked, h11.Data(data=self.request.body), h11.EndOfMessage())
        head = await server.event()
        if not isinstance(head, h11.Response):
            raise ConnectionResetError(f"expected an answer of the server, got {head!r}")
        return Answer(head.status_code, list(head.headers.raw_items()), server)

    async def begin(self, answer: "Answer") -> None:
        """Give the client the head of an answer."""
        await self._client.send(h11.Response(status_code=answer.status, headers=answer.headers))

    async def give(self, piece: bytes) -> None:
        """Give the client a piece of the body."""
        await self._client.send(h11.Data(data=piece))

    async def end(self) -> None:
        """Tell the client that the answer is whole."""
        await self._client.send(h11.EndOfMessage())

    async def pass_on(self, answer: "Answer") -> None:
        """Give the client the whole of an answer, as it comes."""
        await self.begin(answer)
        async for piece in answer.pieces():
            await self.give(piece)
        await self.end()

    async def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Answer in the server's place."""
        framed = [*headers.items(), ("content-length", str(len(body)))]
        await self._client.send(h11.Response(status_code=status, headers=framed))
        await self._client.send(h11.Data(data=body if self.request.method != "HEAD" else b""), h11.EndOfMessage())

    def cut(self, *, rudely: bool = False) -> None:
        """Hang up on the client."""
        self._client.cut(rudely=rudely)

    def close(self) -> None:
        """Hang up on the server."""
        for server in self._asked:
            server.cut()


class Answer:
    """The head of what the server said, and its body on the way."""

    def __init__(self, status: int, headers: Headers, server: Side) -> None:
        self.status, self.headers = status, headers
        self._server = server

    def pieces(self) -> AsyncIterator[bytes]:
        """Give the body as it comes."""
        return self._server.pieces()

    async def body(self) -> bytes:
        """Wait for the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    def unframed(self) -> dict[str, str]:
        """Give the headers that hold whatever the body is."""
        return {name.decode(): value.decode() for name, value in self.headers if name.lower() not in _HOP_BY_HOP}
