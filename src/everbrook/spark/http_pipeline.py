"""Pipelining: many small requests over one connection, several of them in flight, for tasks with many streams.

A general client takes half a millisecond for each request, more than the server takes and more than a small page is
worth. This one handles GET, HEAD, PUT and POST with plain success only. The general client repeats a request that has
any other response, or none.
"""

import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import httptools
from msgspec import Struct

_AHEAD = 32
_RECEIVE_BYTES = 256 * 1024
OK = 200

Credentials = Callable[[], Mapping[str, str]]
"""Returns the headers with the credentials. They are read again for each group of requests: a token may be renewed."""


class Broken(Exception):
    """The connection broke. It is unknown whether the server handled the requests that have no response."""


class Response(Struct):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def incarnation(self) -> str:
        """The incarnation of the stream, if the server reports it."""
        return self.headers.get(b"stream-incarnation", b"").decode()

    def is_of(self, incarnation: str) -> bool:
        """Return whether the response is of this incarnation of the stream, or any one was asked for."""
        return incarnation in {"", self.incarnation}


class Request(Struct, frozen=True):
    """A request with a body."""

    target: str
    headers: dict[str, str]
    body: bytes
    method: str = "PUT"


class _Responses:
    """Collects the responses that the parser finds."""

    def __init__(self) -> None:
        self.ready: deque[Response] = deque()
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise Broken(str(error)) from error

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self.ready.append(Response(self._parser.get_status_code(), self._headers, body))
        self._headers, self._parts = {}, []


class _Heads:
    """Collects the responses to HEAD, which end with their headers even if these announce a body."""

    def __init__(self) -> None:
        self.ready: deque[Response] = deque()
        self._partial = b""

    def feed(self, data: bytes) -> None:
        *heads, self._partial = (self._partial + data).split(b"\r\n\r\n")
        self.ready.extend(_head_of(head) for head in heads)


def _head_of(head: bytes) -> Response:
    line, *fields = head.split(b"\r\n")
    version, _, status = line.partition(b" ")
    if not version.startswith(b"HTTP/1.1") or not status[:3].isdigit():
        raise Broken(f"the server responded {line[:100]!r} to HEAD")
    pairs = (field.partition(b":") for field in fields)
    return Response(int(status[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}, b"")


class PipelinedConnection:
    """A connection on which a request need not wait for the response to the one before."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self._socket = sock
        self._host = host

    def close(self) -> None:
        self._socket.close()

    def get(self, targets: Iterator[str], headers: Credentials) -> Iterator[Response]:
        """Request each target, and return the responses in order."""
        return self._request_all("GET", targets, headers, _Responses())

    def head(self, targets: Iterator[str], headers: Credentials) -> Iterator[Response]:
        """Request the headers of each target, and return the responses in order."""
        return self._request_all("HEAD", targets, headers, _Heads())

    def send(self, requests: Sequence[Request], headers: Credentials) -> Iterator[Response]:
        """Send requests with bodies, few or small ones, and return the responses in order."""
        responses, given = _Responses(), headers()
        try:
            self._socket.sendall(b"".join(self._format(request, given) for request in requests))
            for _ in requests:
                while not responses.ready:
                    self._receive(responses)
                yield responses.ready.popleft()
        except OSError as error:
            raise Broken(str(error) or type(error).__name__) from error

    def _format(self, request: Request, headers: Mapping[str, str]) -> bytes:
        given = {"Host": self._host, **headers, **request.headers, "Content-Length": str(len(request.body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return f"{request.method} {request.target} HTTP/1.1\r\n{lines}\r\n".encode() + request.body

    def _request_all(
        self, method: str, targets: Iterator[str], headers: Credentials, responses: _Responses | _Heads
    ) -> Iterator[Response]:
        under_way = 0
        try:
            while True:
                # Refilled at half, so that requests leave in groups and the server never waits for the next one.
                if under_way <= _AHEAD // 2:
                    requests = self._requests(method, targets, headers(), _AHEAD - under_way)
                    under_way += len(requests)
                    self._socket.sendall(b"".join(requests))
                if not under_way:
                    return
                while responses.ready:
                    under_way -= 1
                    yield responses.ready.popleft()
                if under_way:
                    self._receive(responses)
        except OSError as error:
            raise Broken(str(error) or type(error).__name__) from error

    def _receive(self, responses: _Responses | _Heads) -> None:
        data = self._socket.recv(_RECEIVE_BYTES)
        if not data:
            raise Broken("the server closed the connection")
        responses.feed(data)

    def _requests(self, method: str, targets: Iterator[str], headers: Mapping[str, str], count: int) -> list[bytes]:
        lines = "".join(f"{name}: {value}\r\n" for name, value in {"Host": self._host, **headers}.items())
        taken = (target for _, target in zip(range(count), targets, strict=False))
        return [f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() for target in taken]


def open_pipeline(url: str, context: ssl.SSLContext | None, timeout_secs: float) -> PipelinedConnection | None:
    """Connect to a server. None if it is reached through a proxy: only the general client can do that."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return None
    try:
        sock = socket.create_connection((host, port), timeout_secs)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname=host)
    except OSError:
        return None  # the general client tries again, and raises the error
    return PipelinedConnection(sock, parts.netloc.rpartition("@")[2])


def target_of(url: str, query: Mapping[str, str]) -> str:
    """Return the target of a request for a URL."""
    parts = urlsplit(url)
    return f"{quote(parts.path, safe='/%')}?{urlencode(query)}"
