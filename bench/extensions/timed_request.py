"""Asking a server one thing: once, to see what it says, or again and again on one connection, to see what it costs."""

import http.client
import socket
from dataclasses import asdict, dataclass
from time import perf_counter_ns

from bench.channel import LoadFailed
from bench.meter import Meter
from bench.processes import HOST, ServerProcess
from bench.requests import format_request
from bench.responses import expected_status_line, header_value
from bench.streams import SetupFailed
from bench.summary import percentile

_TIMEOUT_SECS = 120.0
_OK = 200
_STATUS_LINE = expected_status_line(_OK)
_BUFFER_BYTES = 1 << 20
_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer. Header names are lower-case."""

    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Timing:
    """What the same request cost when it was made again and again. `cpu_ms` is the server's, per answer."""

    p50_ms: float
    p99_ms: float
    cpu_ms: float
    answers: int
    payload_bytes: int

    def sample(self) -> dict[str, str | int | float]:
        """Return the figures by name."""
        return asdict(self)


def ask(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    expected: int = _OK,
) -> Response:
    """Ask once, and take no other answer than the expected one."""
    connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_SECS)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    if answer.status != expected:
        raise SetupFailed(f"{method} {path} must be answered with {expected}, got {answer.status}: {content[:200]!r}")
    return Response({name.lower(): value for name, value in answer.getheaders()}, content)


class Line:
    """A connection on which one request waits for the answer to the last. It looks at no more than it has to."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=_TIMEOUT_SECS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_BUFFER_BYTES)

    def exchange(self, request: bytes, *, bodiless: bool) -> int:
        """Ask, and return the length of the payload; every answer has to be a 200 that says how long it is."""
        self._socket.sendall(request)
        received = self._socket.recv_into(self._buffer)
        while (end := self._buffer.find(_HEAD_END, 0, received)) < 0:
            received += self._receive(received)
        head = bytes(self._buffer[: end + 2])
        length = b"0" if bodiless else header_value(head.lower(), b"content-length")
        if not head.startswith(_STATUS_LINE) or length is None:
            raise LoadFailed(f"expected {_OK} and Content-Length, got {head!r}")
        left = int(length) - (received - end - len(_HEAD_END))
        while left > 0:
            left -= self._receive(0)
        return int(length)

    def _receive(self, position: int) -> int:
        size = self._socket.recv_into(memoryview(self._buffer)[position:])
        if not size:
            raise LoadFailed("the server closed the connection")
        return size

    def close(self) -> None:
        """Let the connection go."""
        self._socket.close()


def time_request(server: ServerProcess, method: str, path: str, seconds: float) -> Timing:
    """Make a request again and again on one connection. Every answer has to be as long as the first."""
    request, bodiless = format_request(method, path), method == "HEAD"
    latencies_ns: list[int] = []
    line, meter = Line(server.port), Meter(server.pid)
    try:
        payload_bytes = line.exchange(request, bodiless=bodiless)
        with meter:
            deadline_ns = (sent_ns := perf_counter_ns()) + int(seconds * 1e9)
            while sent_ns < deadline_ns:
                if line.exchange(request, bodiless=bodiless) != payload_bytes:
                    raise LoadFailed(f"{method} {path} was answered with payloads of different sizes")
                now_ns = perf_counter_ns()
                latencies_ns.append(now_ns - sent_ns)
                sent_ns = now_ns
    finally:
        line.close()
    latencies_ns.sort()
    return Timing(
        percentile(latencies_ns, 0.50) / 1e6,
        percentile(latencies_ns, 0.99) / 1e6,
        meter.server_cpu_ns / len(latencies_ns) / 1e6,
        len(latencies_ns),
        payload_bytes,
    )


def quietest(timings: list[Timing]) -> Timing:
    """Return the round that other work on the machine disturbed least."""
    return min(timings, key=lambda timing: timing.p99_ms)
