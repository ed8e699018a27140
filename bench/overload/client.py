"""One client that sends when its time has come, not when its last request was answered.

It appends numbered messages to a stream of its own, and notes which were acknowledged. If nothing is read of what it
sends, it gives up what is due rather than to keep it for ever, as a real client would. Requests that are sent together
are one entry in its books: it shall cost much less than what it asks for.
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
_GOOD = b"HTTP/1.1 204 "
_BAD = b"HTTP/1.1 503 "


@dataclass(slots=True)
class Tally:
    """What became of the requests that were due in one phase. `answered` holds pairs: seconds since due, how many."""

    due: int = 0
    withheld: int = 0
    unsent: int = 0
    refused: int = 0
    cut_off: int = 0
    answered: list[tuple[float, int]] = field(default_factory=list)


@dataclass(slots=True)
class Sent:
    """Requests that were sent together and are not all answered."""

    due_at: float
    first: int
    count: int
    tally: Tally


class Client(asyncio.Protocol):
    """A connection to its own stream, made again when it ends."""

    def __init__(self, port: int, number: int, *, heeding: bool) -> None:
        self._port = port
        self.path = f"/v1/stream/overload-{number}"
        self._heeding = heeding
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._sent: deque[Sent] = deque()
        self._next = 0
        self._not_before = 0.0
        self._window = 0
        self.tally = Tally()
        self.acknowledged = array("Q")
        self._closed = False
        self._connecting: asyncio.Task[None] | None = None
        self._head = (
            f"POST {self.path} HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n"
            f"Content-Length: {PAYLOAD_BYTES}\r\n\r\n"
        ).encode()

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
        for sent in self._sent:
            sent.tally.cut_off += sent.count
        self._sent.clear()
        if not self._closed:
            asyncio.get_running_loop().call_later(RECONNECT_SECS, self.connect)

    # Requests

    def keep_outstanding(self, window: int) -> None:
        """From now on, send another request for each that is answered; none if the window is 0."""
        self._window = window
        self.send(window, perf_counter())

    def send(self, count: int, due_at: float) -> None:
        """Send as many requests as are due."""
        tally, transport = self.tally, self._transport
        tally.due += count
        if perf_counter() < self._not_before:
            tally.withheld += count
        elif transport is None or transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            tally.unsent += count
        elif count:
            numbers = range(self._next, self._next + count)
            self._sent.append(Sent(due_at, self._next, count, tally))
            self._next += count
            transport.write(b"".join(map(self._render, numbers)))

    def _render(self, number: int) -> bytes:
        return b"%b%016d%b" % (self._head, number, _PADDING)

    # Answers

    def data_received(self, data: bytes) -> None:
        """Take the answers, in the order of the requests."""
        received, now = self._received + data if self._received else data, perf_counter()
        if received.endswith(_HEAD_END) and _BAD not in received:
            self._received = b""
            self._acknowledge(received.count(_GOOD), now)
        else:
            self._received = received[self._take_each(received, now) :]

    def _take_each(self, received: bytes, now: float) -> int:
        """Take answers one by one. Returns the place of the first that is not whole."""
        position = 0
        while (end := received.find(_HEAD_END, position)) >= 0:
            head, end = received[position:end], end + len(_HEAD_END)
            if head.startswith(_GOOD):
                self._acknowledge(1, now)
            else:
                end += int(_value(head, b"content-length") or 0)
                if len(received) < end:
                    break
                self._refuse(head, now)
            position = end
        return position

    def _acknowledge(self, count: int, now: float) -> None:
        left = count
        while left:
            sent = self._sent[0]
            taken = min(left, sent.count)
            sent.tally.answered.append((now - sent.due_at, taken))
            self.acknowledged.extend(range(sent.first, sent.first + taken))
            self._drop(sent, taken)
            left -= taken
        if self._window:
            self.send(count, now)

    def _drop(self, sent: Sent, count: int) -> None:
        sent.first += count
        sent.count -= count
        if not sent.count:
            self._sent.popleft()

    def _refuse(self, head: bytes, now: float) -> None:
        if not head.startswith(_BAD):
            raise RuntimeError(f"an unexpected answer: {head[:200]!r}")
        if self._sent:
            self._sent[0].tally.refused += 1
            self._drop(self._sent[0], 1)
        if self._heeding:
            self._not_before = now + int(_value(head, b"retry-after") or 1)

    def close(self) -> None:
        """End."""
        self._closed = True
        if self._transport:
            self._transport.abort()
        if self._connecting:
            self._connecting.cancel()


_PADDING = b"." * (PAYLOAD_BYTES - 17) + b"\n"


def _value(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        found, _, value = line.partition(b": ")
        if found.lower() == name:
            return value
    return None
