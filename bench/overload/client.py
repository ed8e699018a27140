"""One client that sends when its time has come, not when its last request was answered.

It appends numbered messages to a stream of its own, and notes which were acknowledged. If nothing is read of what it
sends, it gives up what is due rather than to keep it for ever, as a real client would.
"""

import asyncio
from array import array
from collections import deque
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

from bench.processes import HOST

PAYLOAD_BYTES = 100
MAX_UNSENT_BYTES = 256 * 1024
RECONNECT_SECS = 0.05

_HEAD_END = b"\r\n\r\n"


@dataclass(slots=True)
class Tally:
    """What became of the requests of one phase. Latencies are in seconds, of those that were acknowledged."""

    due: int = 0
    withheld: int = 0
    unsent: int = 0
    refused: int = 0
    lost: int = 0
    latencies: array = field(default_factory=lambda: array("d"))  # type: ignore[type-arg]


class Client(asyncio.Protocol):
    """A connection to its own stream, made again when it ends."""

    def __init__(self, port: int, number: int, *, heeding: bool) -> None:
        self._port = port
        self.path = f"/v1/stream/overload-{number}"
        self._heeding = heeding
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._outstanding: deque[tuple[float, int]] = deque()
        self._next = 0
        self._not_before = 0.0
        self.tally = Tally()
        self.acknowledged = array("Q")
        self._closed = False
        self._connecting: asyncio.Task[None] | None = None

    def connect(self) -> None:
        """Begin to connect."""
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        while not self._closed:
            try:
                await asyncio.get_running_loop().create_connection(lambda: self, HOST, self._port)
            except OSError:
                await asyncio.sleep(RECONNECT_SECS)
            else:
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Go on with a new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._received = b""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whatever ended it, it has ended
        """Give up what was not answered, and connect again."""
        self._transport = None
        self.tally.lost += len(self._outstanding)
        self._outstanding.clear()
        if not self._closed:
            asyncio.get_running_loop().call_later(RECONNECT_SECS, self.connect)

    def send(self, count: int) -> None:
        """Send as many requests as are due."""
        self.tally.due += count
        now = perf_counter()
        if now < self._not_before:
            self.tally.withheld += count
            return
        transport = self._transport
        if transport is None or transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            self.tally.unsent += count
            return
        numbers = range(self._next, self._next + count)
        self._next += count
        self._outstanding.extend((now, number) for number in numbers)
        transport.write(b"".join(map(self._render, numbers)))

    def _render(self, number: int) -> bytes:
        return b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%b" % (
            self.path.encode(),
            PAYLOAD_BYTES,
            b"%016d" % number + b"." * (PAYLOAD_BYTES - 17) + b"\n",
        )

    def data_received(self, data: bytes) -> None:
        """Take the answers, in the order of the requests."""
        received, position, now = self._received + data, 0, perf_counter()
        while (end := received.find(_HEAD_END, position)) >= 0:
            head = received[position:end]
            end += len(_HEAD_END)
            if head[9:12] == b"204":
                self._acknowledge(now)
            else:
                length = int(_value(head, b"content-length") or 0)
                if len(received) < end + length:
                    break
                end += length
                self._refuse(head, now)
            position = end
        self._received = received[position:]

    def _acknowledge(self, now: float) -> None:
        sent_at, number = self._outstanding.popleft()
        self.tally.latencies.append(now - sent_at)
        self.acknowledged.append(number)

    def _refuse(self, head: bytes, now: float) -> None:
        if self._outstanding:
            self._outstanding.popleft()
        self.tally.refused += 1
        if head[9:12] != b"503":
            raise RuntimeError(f"an unexpected answer: {head[:200]!r}")
        if self._heeding:
            self._not_before = now + int(_value(head, b"retry-after") or 1)

    def close(self) -> None:
        """End."""
        self._closed = True
        if self._transport:
            self._transport.abort()
        if self._connecting:
            self._connecting.cancel()


def _value(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.partition(b": ")
        if found.lower() == name:
            return value
    return None
