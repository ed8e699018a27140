"""A client that hides nothing: it sends the bytes it is given, and reads answers one at a time."""

import socket
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from everbrook.protocol import Decoder, Event

TIMEOUT_SECS = 60.0
BODILESS = {100, 204, 304}


class Answer(Struct):
    """A whole response. Header names are lower-case; one that came twice is a list separated by commas."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    version: str = "HTTP/1.1"

    @property
    def problem(self) -> dict[str, object]:
        """The problem document, which has to be one."""
        assert self.headers["content-type"] == "application/problem+json"
        document: dict[str, object] = msgspec.json.decode(self.body)
        assert document["status"] == self.status
        assert document["title"]
        assert document["detail"]
        return document

    @property
    def refusal(self) -> tuple[int, object]:
        """The status and the code of a problem."""
        return self.status, self.problem["code"]

    @property
    def next_offset(self) -> str:
        return self.headers["stream-next-offset"]


class Wire:
    """One connection."""

    def __init__(
        self, address: tuple[str, int], receive_buffer_bytes: int | None = None, timeout_secs: float = TIMEOUT_SECS
    ) -> None:
        """Connect. Whatever is waited for longer than the timeout is a failure."""
        self._timeout_secs = timeout_secs
        self._socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
        if receive_buffer_bytes is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._socket.settimeout(self._timeout_secs)
        try:
            self._socket.connect(address)
        except OSError:
            self._socket.close()
            raise
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"{address[0]}:{address[1]}"
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def reset(self) -> None:
        """End the connection in the rudest way."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self._socket.close()

    # Sending

    def send(self, data: bytes) -> Self:
        self._socket.sendall(data)
        return self

    def send_until_blocked(self, data: bytes, max_bytes: int) -> int:
        """Send `data` over and over until the server takes no more for a while: how many bytes it took."""
        sent, rest = 0, memoryview(data)
        self._socket.settimeout(0.3)
        try:
            while sent < max_bytes:
                count = self._socket.send(rest)
                sent, rest = sent + count, rest[count:] or memoryview(data)
        except TimeoutError:
            return sent
        finally:
            self._socket.settimeout(self._timeout_secs)
        raise AssertionError(f"the server took {sent} bytes and went on")

    def send_slowly(self, pieces: Iterator[bytes] | list[bytes], pause_secs: float) -> None:
        """Send piece by piece, until all is sent or the server has had enough."""
        for piece in pieces:
            try:
                self._socket.sendall(piece)
            except OSError:
                return
            time.sleep(pause_secs)

    def stop_sending(self) -> Self:
        self._socket.shutdown(socket.SHUT_WR)
        return self

    def ask(self, method: str, target: str, body: bytes | None = None, /, **headers: str) -> Self:
        """Send a request, without waiting for its answer."""
        return self.send(render(method, target, body, **{"host": self._host, **headers}))

    def request(self, method: str, target: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Send a request and read its answer."""
        return self.ask(method, target, body, **headers).read(head_only=method == "HEAD")

    def create(self, path: str, content_type: str = "text/plain", body: bytes | None = None, **headers: str) -> Answer:
        answer = self.request("PUT", path, body, content_type=content_type, **headers)
        assert answer.status == 201, answer
        return answer

    def append(self, path: str, body: bytes, content_type: str = "text/plain", **headers: str) -> Answer:
        return self.request("POST", path, body, content_type=content_type, **headers)

    def get(self, target: str, **headers: str) -> Answer:
        return self.request("GET", target, **headers)

    # Receiving

    def receive(self) -> bytes:
        """Receive whatever comes next, or nothing at the end."""
        return self._socket.recv(256 * 1024)

    def read_until(self, end: bytes) -> bytes:
        while end not in self._received:
            data = self.receive()
            if not data:
                raise EOFError(f"the connection ended after {self._received!r}")
            self._received += data
        found, _, self._received = self._received.partition(end)
        return found

    def read_exactly(self, size: int) -> bytes:
        parts, held = [self._received[:size]], len(self._received[:size])
        self._received = self._received[size:]
        while held < size:
            data = self._socket.recv(min(256 * 1024, size - held))
            if not data:
                raise EOFError(f"the connection ended {size - held} bytes early")
            parts.append(data)
            held += len(data)
        return b"".join(parts)

    def read_head(self) -> Answer:
        """Read a status line and headers."""
        status_line, *lines = self.read_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, _ = status_line.split(" ", 2)
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Answer(int(status), headers, version=version)

    def read(self, *, head_only: bool = False) -> Answer:
        """Read a whole answer."""
        answer = self.read_head()
        if head_only or answer.status in BODILESS:
            return answer
        if answer.headers.get("transfer-encoding") == "chunked":
            answer.body = b"".join(self.chunks())
        elif "content-length" in answer.headers:
            answer.body = self.read_exactly(int(answer.headers["content-length"]))
        else:
            answer.body = self.rest()
        return answer

    def chunks(self) -> Iterator[bytes]:
        """Read chunks to the last one, and the empty line after it."""
        while size := int(self.read_until(b"\r\n"), 16):
            chunk = self.read_exactly(size)
            assert self.read_exactly(2) == b"\r\n"
            yield chunk
        assert self.read_exactly(2) == b"\r\n"

    def rest(self) -> bytes:
        """Read everything until the server ends the connection."""
        parts = [self._received]
        self._received = b""
        while data := self.receive():
            parts.append(data)
        return b"".join(parts)

    def remains(self) -> bytes:
        """Read everything until the connection ends, properly or not."""
        try:
            while data := self.receive():
                self._received += data
        except ConnectionResetError:
            pass
        found, self._received = self._received, b""
        return found

    def ended(self) -> bool:
        """Whether the server ends the connection, properly or not, without another byte."""
        try:
            return self.rest() == b""
        except ConnectionResetError:
            return True

    def nothing_for(self, secs: float) -> bool:
        """Whether nothing arrives for a while."""
        self._socket.settimeout(secs)
        try:
            self._received += self.receive()
        except TimeoutError:
            return not self._received
        finally:
            self._socket.settimeout(self._timeout_secs)
        return False

    def follow(self, target: str, **headers: str) -> "Follower":
        """Begin an event stream."""
        self.ask("GET", target, **headers)
        return Follower(self)


class Follower:
    """The reader of an event stream, in chunks or without."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.head = wire.read_head()
        self._chunked = self.head.headers.get("transfer-encoding") == "chunked"
        self._chunks = wire.chunks()
        self._decoder = Decoder()
        self._events: list[Event] = []

    def piece(self) -> bytes:
        """The next piece as it came, or nothing at the end."""
        return next(self._chunks, b"") if self._chunked else self.wire.receive()

    def event(self) -> Event | None:
        """The next event, or None at the end."""
        while not self._events:
            piece = self.piece()
            if not piece:
                return None
            self._events = self._decoder.feed(piece)
        return self._events.pop(0)

    def events(self) -> list[Event]:
        """Every event to the end."""
        return list(iter(self.event, None))

    def data(self) -> bytes:
        """The payload of the next data event."""
        event = self.event()
        while event is not None and event.type != b"data":
            event = self.event()
        assert event is not None, "the event stream ended"
        return event.data

    def control(self) -> dict[str, object]:
        """The next control event."""
        event = self.event()
        while event is not None and event.type != b"control":
            event = self.event()
        assert event is not None, "the event stream ended"
        control: dict[str, object] = msgspec.json.decode(event.data)
        return control


def render(method: str, target: str, body: bytes | None = None, /, **headers: str) -> bytes:
    """Write a request. Underscores in header names stand for hyphens."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    if "host" in headers:
        lines.pop()
    if body is not None:
        headers.setdefault("content_length", str(len(body)))
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def chunked(*chunks: bytes, trailers: bytes = b"") -> bytes:
    """Frame a body in chunks."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return framed + b"0\r\n" + trailers + b"\r\n"
