"""Producers: each appends numbered messages, one at a time, and sends an append again until it is acknowledged."""

import asyncio
import random
import re
from collections import Counter
from typing import cast

from soak.load.messages import Findings, format_message
from soak.load.options import HOST, LoadOptions, stream_path

RETRY_SECS = 0.05
BREAKS = 0.01
ANSWER_SECS = 60.0
ACKNOWLEDGED = {200, 204}
REFUSALS = {429, 503}
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_RETRY = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)


class Crowd:
    """All producers, and what has come of them."""

    def __init__(self, port: int, options: LoadOptions, seed: int) -> None:
        self.port = port
        self.options = options
        self.findings = Findings()
        self.refusals: Counter[int] = Counter()
        self.broken = 0
        self.latencies_ms: list[float] = []
        self.over = False
        dice = random.Random(seed)  # noqa: S311 - it must replay
        self.producers = [Producer(number, self, random.Random(dice.random())) for number in range(options.producers)]  # noqa: S311

    def begin(self) -> None:
        """Let all of them append."""
        for producer in self.producers:
            producer.wait_for_turn()

    @property
    def acknowledged(self) -> list[int]:
        """How many messages of each are acknowledged."""
        return [producer.sent for producer in self.producers]

    async def end(self) -> None:
        """Let none begin another append, and wait for those under way."""
        self.over = True
        deadline = asyncio.get_running_loop().time() + ANSWER_SECS
        while any(producer.waiting for producer in self.producers):
            if asyncio.get_running_loop().time() > deadline:
                self.findings.add("unanswered", "an append at the end")
                return
            await asyncio.sleep(RETRY_SECS)
        for producer in self.producers:
            producer.close()


class Producer(asyncio.Protocol):
    """Appends to one stream."""

    def __init__(self, number: int, crowd: Crowd, dice: random.Random) -> None:
        self.number = number
        self.sent = 0
        self.waiting = False
        self._crowd, self._dice = crowd, dice
        self._path = stream_path(number % crowd.options.streams)
        self._transport: asyncio.Transport | None = None
        self._held = b""
        self._breaking = False
        self._closed = False
        self._asked_at = 0.0
        self._loop = asyncio.get_running_loop()

    def wait_for_turn(self) -> None:
        """Append at a random time from now, unless it is over."""
        if not self._crowd.over:
            self._loop.call_later(self._dice.expovariate(1 / self._crowd.options.every_secs), self._append)

    def _append(self) -> None:
        if self._crowd.over:
            return
        self.waiting = True
        self._asked_at = self._loop.time()
        self._send()

    def _send(self) -> None:
        if self._transport is None or self._transport.is_closing():
            self._loop.create_task(self._connect())
            return
        self._held = b""
        self._transport.write(self._request())
        if self._dice.random() < BREAKS:
            self._crowd.broken += 1
            self._breaking = True
            self._loop.call_later(self._dice.random() / 200, self._transport.abort)

    def _request(self) -> bytes:
        body = format_message(self.number, self.sent)
        claim = b"Producer-Id: p%d\r\nProducer-Epoch: 0\r\nProducer-Seq: %d\r\n" % (self.number, self.sent)
        if self._crowd.options.control == "careless":
            claim = b""
        return b"POST %b HTTP/1.1\r\nHost: %b\r\nContent-Type: text/plain\r\n%bContent-Length: %d\r\n\r\n%b" % (
            self._path.encode(),
            HOST.encode(),
            claim,
            len(body),
            body,
        )

    async def _connect(self) -> None:
        while not self._closed:
            try:
                await self._loop.create_connection(lambda: self, HOST, self._crowd.port)
            except OSError as error:
                self._crowd.findings.add("refused connection", str(error))
                await asyncio.sleep(RETRY_SECS)
            else:
                return

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send what is to be sent."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=1 << 20)
        if self.waiting:
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        """Send again on another connection. One that we did not break ourselves is a failure of the server."""
        self._transport = None
        if not self._breaking and not self._closed:
            self._crowd.findings.add("lost connection", f"producer {self.number}: {error!r}")
        self._breaking = False
        if self.waiting:
            self._loop.call_later(RETRY_SECS, self._send)

    def data_received(self, data: bytes) -> None:
        """Take an answer."""
        self._held += data
        head, separator, rest = self._held.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _LENGTH.search(head)
        if length is not None and len(rest) < int(length[1]):
            return
        self._held = b""
        if not self._breaking:
            self._conclude(int(head[9:12]), head)

    def _conclude(self, status: int, head: bytes) -> None:
        if status in REFUSALS:
            self._crowd.refusals[status] += 1
            pause = _RETRY.search(head)
            self._loop.call_later(int(pause[1]) if pause else 1.0, self._send)
            return
        if status not in ACKNOWLEDGED:
            self._crowd.findings.add("refused", f"producer {self.number} was answered {status}")
        self._crowd.latencies_ms.append((self._loop.time() - self._asked_at) * 1000)
        self.sent += 1
        self.waiting = False
        self.wait_for_turn()

    def close(self) -> None:
        """Let the connection go."""
        self._closed = True
        if self._transport is not None:
            self._transport.close()
