"""One keep-alive connection of the load generator. Every answer is checked; the first wrong one fails the run."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from bench.processes import HOST
from bench.responses import MalformedAnswer, expected_status_line, measure_answer

_NO_CONTENT = 204


class LoadFailed(Exception):
    """The load was not answered as it had to be: the figures of this run mean nothing."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What every answer on a connection has to be."""

    status: int
    to_head: bool = False
    payload_bytes: int | None = None

    @property
    def bodiless(self) -> bool:
        """Whether an answer ends with its head."""
        return self.to_head or self.status == _NO_CONTENT


class LoadRun:
    """The one outcome that all connections of a load share: finished, or the first failure."""

    def __init__(self) -> None:
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(self) -> None:
        """Everything that had to be answered was."""
        if not self.outcome.done():
            self.outcome.set_result(None)

    def fail(self, reason: str) -> None:
        """Something went wrong; later failures are only its echo."""
        if not self.outcome.done():
            self.outcome.set_exception(LoadFailed(reason))


class LoadConnection(asyncio.Protocol):
    """A connection whose loss is a failure for as long as the run has no outcome."""

    transport: asyncio.Transport

    def __init__(self, run: LoadRun) -> None:
        self.run = run

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport: a Protocol is always given one that reads and writes."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The server, or the way to it, ended the connection."""
        self.run.fail(f"a connection broke: {exc or 'closed by the server'}")


class Channel(LoadConnection):
    """A connection on which requests are answered in order, each as expected."""

    def __init__(self, run: LoadRun, expectation: Expectation) -> None:
        super().__init__(run)
        self._status_line = expected_status_line(expectation.status)
        self._bodiless = expectation.bodiless
        self._payload_bytes = expectation.payload_bytes
        self._partial = b""
        self._unanswered = 0

    def send(self, request: bytes) -> None:
        """Send a request; `answered` is called when its answer is complete."""
        self._unanswered += 1
        self.transport.write(request)

    def answered(self, answer: bytes) -> None:
        """Take one complete, checked answer."""
        raise NotImplementedError

    def data_received(self, data: bytes) -> None:
        """Check whatever arrived and pass complete answers on."""
        if self._partial:
            data, self._partial = self._partial + data, b""
        try:
            while data:
                end = self._check(data)
                if not end:
                    self._partial = data
                    return
                answer, data = (data, b"") if end == len(data) else (data[:end], data[end:])
                self._unanswered -= 1
                self.answered(answer)
        except (LoadFailed, MalformedAnswer) as error:
            self.run.fail(str(error))

    def _check(self, data: bytes) -> int:
        """Where the first answer ends, 0 while that is open."""
        if not data.startswith(self._status_line):
            if self._status_line.startswith(data):
                return 0
            raise LoadFailed(f"expected {self._status_line.decode()}, got {data[:400]!r}")
        if self._unanswered == 0:
            raise LoadFailed(f"an answer to no request: {data[:400]!r}")
        extent = measure_answer(data, bodiless=self._bodiless)
        if extent is None:
            return 0
        if self._payload_bytes is not None and extent.payload_bytes != self._payload_bytes:
            raise LoadFailed(f"expected a payload of {self._payload_bytes} bytes, got {extent.payload_bytes}")
        return extent.end


ConnectionT = TypeVar("ConnectionT", bound=LoadConnection)


async def connect(port: int, connections: Sequence[ConnectionT]) -> None:
    """Open a connection for each of `connections`, one after the other so that no backlog overflows."""
    loop = asyncio.get_running_loop()
    for connection in connections:
        await loop.create_connection(lambda made=connection: made, HOST, port)  # type: ignore[misc]


def disconnect(connections: Sequence[LoadConnection]) -> None:
    """Drop the connections of a run that has its outcome."""
    for connection in connections:
        if hasattr(connection, "transport"):
            connection.transport.abort()
