"""Load on a server: connections that send the next request after each response, and followers.

It has a minimal HTTP client of its own, because Everbrook's client would take most of the measured time.
"""

import asyncio
from collections.abc import Callable
from ssl import SSLContext, create_default_context
from time import perf_counter_ns
from typing import cast
from urllib.parse import urlsplit

import httptools
from msgspec import Struct, field

from everbrook.protocol.sse import Decoder

STALL_SECS = 30.0
STAMP_BYTES = 20
_OK = range(200, 300)


class LoadFailed(Exception):
    """A connection failed, or a response was not the expected one."""


class Load(Struct):
    """The measurements: the latency of each response or delivery, and the number of bytes."""

    latencies_ns: list[int] = field(default_factory=list)
    count: int = 0
    bytes: int = 0


class LoadTarget(Struct, frozen=True):
    """The server under load, and the token for it."""

    url: str
    token: str | None = None

    def request(self, method: str, url: str, body: bytes = b"", **headers: str) -> bytes:
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*lines, "", ""]).encode() + body

    async def connect(self, protocol: "LoadConnection") -> None:
        parts = urlsplit(self.url)
        secure = parts.scheme == "https"
        context: SSLContext | None = create_default_context() if secure else None
        port = parts.port or (443 if secure else 80)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: protocol, parts.hostname or "", port, ssl=context)
        except OSError as error:
            raise LoadFailed(f"can't connect to {self.url}: {error}") from error


class LoadConnection(asyncio.Protocol):
    """A connection that calls `answered` for each response."""

    def __init__(self) -> None:
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(f"the server sent invalid HTTP: {error}")

    def connection_lost(self, error: Exception | None) -> None:
        self.fail(f"the server closed a connection: {error or 'without an error'}")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status not in _OK:
            self.fail(f"the server answered {status}")

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)

    def on_message_complete(self) -> None:
        body_bytes, self._body_bytes = self._body_bytes, 0
        if not self.over.done():
            self.answered(body_bytes)

    def answered(self, body_bytes: int) -> None:
        """Handle a response whose body had this many bytes."""

    def send(self, request: bytes) -> None:
        if self.transport is not None:
            self.transport.write(request)

    def fail(self, message: str) -> None:
        """End the load with an error."""
        if not self.over.done():
            self.over.set_exception(LoadFailed(message))

    def finish(self) -> None:
        """End the load on this connection."""
        if not self.over.done():
            self.over.set_result(None)
        if self.transport is not None:
            self.transport.abort()


class Requester(LoadConnection):
    """Sends the next request after each response, until its time is over."""

    def __init__(self, load: Load, make: Callable[[], bytes], sent_bytes: int, until_ns: int) -> None:
        super().__init__()
        self._load = load
        self._make = make
        self._sent_bytes = sent_bytes
        self._until_ns = until_ns
        self._asked_ns = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._ask()

    def _ask(self) -> None:
        self._asked_ns = perf_counter_ns()
        self.send(self._make())

    def answered(self, body_bytes: int) -> None:
        now_ns = perf_counter_ns()
        self._load.latencies_ns.append(now_ns - self._asked_ns)
        self._load.count += 1
        self._load.bytes += body_bytes + self._sent_bytes
        if now_ns < self._until_ns:
            self._ask()
        else:
            self.finish()


class Follower(LoadConnection):
    """Follows a stream of messages that all have one size and begin with the time at which they were sent."""

    def __init__(self, load: Load, request: bytes, message_bytes: int) -> None:
        super().__init__()
        self._load = load
        self._request = request
        self._message_bytes = message_bytes
        self._decoder = Decoder()
        self.ready = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.send(self._request)

    def on_body(self, body: bytes) -> None:
        now_ns = perf_counter_ns()
        for event in self._decoder.feed(body):
            self.ready.set()
            if event.type == b"data":
                self._delivered(event.data, now_ns)

    def _delivered(self, data: bytes, now_ns: int) -> None:
        self._load.bytes += len(data)
        for at in range(0, len(data), self._message_bytes):
            self._load.count += 1
            self._load.latencies_ns.append(now_ns - int(data[at : at + STAMP_BYTES]))


async def ask_for(
    place: LoadTarget, make: Callable[[], bytes], *, connections: int, seconds: float, sent_bytes: int = 0
) -> Load:
    """Keep connections busy for a time."""
    load = Load()
    until_ns = perf_counter_ns() + int(seconds * 1e9)
    requesters = [Requester(load, make, sent_bytes, until_ns) for _ in range(connections)]
    await _run(place, requesters, seconds)
    return load


async def follow(
    place: LoadTarget,
    request: bytes,
    make: Callable[[], bytes],
    *,
    connections: int,
    seconds: float,
    message_bytes: int,
) -> Load:
    """Let connections follow a stream, append to it over one more, and measure the latency of each delivery."""
    load = Load()
    followers = [Follower(load, request, message_bytes) for _ in range(connections)]
    try:
        async with asyncio.timeout(STALL_SECS):
            for follower in followers:
                await place.connect(follower)
            await asyncio.gather(*(follower.ready.wait() for follower in followers))
        await ask_for(place, make, connections=1, seconds=seconds)
        # The last deliveries are on their way when the last append is acknowledged.
        await asyncio.sleep(0.2)
    except TimeoutError as error:
        raise LoadFailed(f"the followers received nothing within {STALL_SECS:.0f} s") from error
    finally:
        for follower in followers:
            follower.finish()
    return load


async def _run(place: LoadTarget, requesters: list[Requester], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds + STALL_SECS):
            for requester in requesters:
                await place.connect(requester)
            await asyncio.gather(*(requester.over for requester in requesters))
    except TimeoutError as error:
        raise LoadFailed(f"the server did not respond within {STALL_SECS:.0f} s") from error
    finally:
        for requester in requesters:
            requester.finish()


def stamped(message_bytes: int) -> bytes:
    """Make a message that begins with the current time."""
    return (b"%020d" % perf_counter_ns()).ljust(message_bytes, b".")
