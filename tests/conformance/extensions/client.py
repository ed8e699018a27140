"""A plain HTTP client for any server: it sends paths as they are given and follows nothing by itself."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urljoin, urlsplit

from msgspec import Struct

TIMEOUT_SECS = 60.0


class Answer(Struct, frozen=True):
    """A whole response. Header names are lower-case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def next_offset(self) -> str:
        return self.headers["stream-next-offset"]

    @property
    def up_to_date(self) -> bool:
        """Whether the answer says that nothing comes after it. Absent means no, as in the base protocol."""
        return self.headers.get("stream-up-to-date", "false").lower() == "true"

    @property
    def json(self) -> Any:  # noqa: ANN401 - whatever the server sent
        """The body as JSON, which its content type must say."""
        assert self.headers["content-type"].partition(";")[0] == "application/json", self
        return json.loads(self.body)

    @property
    def refusal(self) -> tuple[int, str]:
        """The status and the stable code of a refusal."""
        document = json.loads(self.body)
        return self.status, document.get("error", document)["code"]


class Event(Struct, frozen=True):
    """One event of an event stream."""

    type: str
    data: str


class Upload:
    """A request whose body is sent piece by piece."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection

    def send(self, piece: bytes) -> None:
        self._connection.send(piece)

    def answer(self) -> Answer:
        """Read the answer; all of the body must have been sent."""
        return _read(self._connection)

    def abandon(self) -> None:
        """Break off without sending the rest, and wait until the server has noticed."""
        self._connection.sock.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            while self._connection.sock.recv(4096):
                pass
        self._connection.close()


class Client:
    """One connection for ordinary requests, and others for those that take their time. All end with the context."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url.rstrip("/")
        self._opened: list[http.client.HTTPConnection] = []
        self._connection = self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for connection in self._opened:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.base_url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._opened.append(kind(parts.netloc, timeout=TIMEOUT_SECS))
        return self._opened[-1]

    def _target(self, path: str) -> str:
        return urlsplit(self.base_url).path + path

    def request(self, method: str, path: str, body: bytes | None = None, /, **headers: str) -> Answer:
        """Send a request and read its answer. Underscores in header names stand for hyphens."""
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent: the answer is there
            self._connection.request(method, self._target(path), body, _named(headers))
        return _read(self._connection)

    def get(self, path: str, /, **headers: str) -> Answer:
        return self.request("GET", path, **headers)

    def locate(self, answer: Answer, asked: str) -> str:
        """The path below the base URL to which an answer for the path `asked` points."""
        url = urljoin(self.base_url + asked, answer.headers["location"])
        assert url.startswith(self.base_url), url
        return url.removeprefix(self.base_url)

    def upload(self, method: str, path: str, size: int, /, **headers: str) -> Upload:
        """Begin a request on a connection of its own, without its body."""
        connection = self._connect()
        connection.putrequest(method, self._target(path))
        for name, value in {**headers, "content_length": str(size)}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        return Upload(connection)

    def send_chunks(self, method: str, path: str, /, *chunks: bytes, **headers: str) -> Answer:
        """Send a request whose length is not told beforehand."""
        connection = self._connect()
        with suppress(BrokenPipeError, ConnectionResetError):
            chunked = {**_named(headers), "transfer-encoding": "chunked"}
            connection.request(method, self._target(path), iter(chunks), chunked, encode_chunked=True)
        return _read(connection)

    def follow(self, path: str, /, **headers: str) -> tuple[Answer, Iterator[Event]]:
        """Begin an event stream on a connection of its own: the head of its answer, and its events as they come."""
        connection = self._connect()
        connection.request("GET", self._target(path), headers=_named(headers))
        response = connection.getresponse()
        return Answer(response.status, _lower(response)), _events(response)


def query(path: str, /, **parameters: object) -> str:
    """Add parameters to a path. A blank is %20: whether a plus sign means one is left to forms."""
    return f"{path}?{urlencode(parameters, quote_via=quote)}" if parameters else path


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def _lower(response: http.client.HTTPResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in response.getheaders()}


def _read(connection: http.client.HTTPConnection) -> Answer:
    response = connection.getresponse()
    return Answer(response.status, _lower(response), response.read())


def _events(response: http.client.HTTPResponse) -> Iterator[Event]:
    kind, data = "", list[str]()
    while line := response.readline():
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif not name and kind:
            yield Event(kind, "\n".join(data))
            kind, data = "", []
