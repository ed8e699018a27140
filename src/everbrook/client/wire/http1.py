"""A small HTTP/1.1 client over the standard library, which loads in a fraction of the time that httpx2 takes.

It is the wire of short programs: for most commands, loading httpx2 would take longer than the requests. Pass it to a
`Client` as `http`. `spark/http_pipeline.py` is for many requests in flight on one connection.

The rule: a connection has one request at a time, and is reused only if the server has not closed it meanwhile.
"""

import http.client
import re
import selectors
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from everbrook.client._sync import parts
from everbrook.client._sync.wire import Response, Wire
from everbrook.client.errors import InvalidAnswer
from everbrook.client.wire.request import ConnectionBroken, NotConnected, Request, ResponseLate, shut

CHUNK_BYTES = 64 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_ALWAYS = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "everbrook"}
# URLs that need no encryption, no password and no quoting.
_PLAIN = re.compile(
    r"http://([\w.-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?)((?:[/?][\w.~:/?@!$&'()*+,;=%-]*)?)", re.ASCII
)


class PlainWire(Wire):
    """Sends requests to plain `http` URLs itself, and those to other URLs through httpx2."""

    def __init__(self) -> None:
        self._other: Wire | None = None
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}

    def send(self, request: Request) -> Response:
        """Send a request, and return the response with its body still to be read."""
        plain = _PLAIN.fullmatch(request.url)
        if plain is None:
            self._other = self._other or parts.HttpxWire()
            return self._other.send(request)
        place, target = plain.groups()
        connection = self._connected(place, request.timeout_secs)
        try:
            response = _exchange(connection, request, target if target.startswith("/") else f"/{target}")
        except BaseException:
            connection.close()
            raise
        return _PlainResponse(self, place, connection, response)

    def _connected(self, place: str, timeout_secs: float) -> http.client.HTTPConnection:
        while (kept := self._kept(place)) is not None:
            if not _readable(kept):
                return kept
            kept.close()
        connection = http.client.HTTPConnection(place, timeout=timeout_secs)
        try:
            connection.connect()
        except (OSError, OverflowError) as error:
            raise NotConnected(str(error)) from error
        return connection

    def _kept(self, place: str) -> http.client.HTTPConnection | None:
        try:
            return self._idle[place].pop()
        except LookupError:
            return None  # none is idle, or another thread was faster

    def keep(self, place: str, connection: http.client.HTTPConnection) -> None:
        """Keep a connection, whose response was read to its end, for the next request."""
        self._idle.setdefault(place, []).append(connection)

    def close(self) -> None:
        """Close the connections that are not in use."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        if self._other is not None:
            self._other.close()


class _PlainResponse(Response):
    """A response whose body is read from its connection."""

    def __init__(
        self, wire: PlainWire, place: str, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> None:
        self.status_code = response.status
        self.headers = Headers(response.getheaders())
        self._wire = wire
        self._place = place
        self._connection = connection
        self._response = response
        self._whole = False

    def iter_bytes(self) -> Iterator[bytes]:
        """Return the body as it arrives, decompressed."""
        coding = self.headers.get("Content-Encoding", "identity")
        if coding == "identity":
            return self._pieces()
        if coding != "gzip":
            raise InvalidAnswer(f"the Content-Encoding of a response must be gzip or identity, got {coding!r}")
        return _unpacked(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        with _reading():
            while piece := self._response.read1(CHUNK_BYTES):
                yield piece
        if self._response.length:
            raise ConnectionBroken(f"the connection ended {self._response.length} bytes before the end of the response")
        self._whole = True

    def close(self) -> None:
        """Release the connection. It is kept for the next request only if the whole response was read from it."""
        will_close = self._response.will_close
        self._response.close()
        if self._whole and not will_close:
            self._wire.keep(self._place, self._connection)
        else:
            self._connection.close()

    def interrupt(self) -> None:
        """End the response, unless the server closes the connection after it: then `http.client` has no socket left."""
        if self._connection.sock is not None:
            shut(self._connection.sock)


class Headers(Mapping[str, str]):
    """Headers, found by their names in any case."""

    def __init__(self, fields: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in fields:
            before = self._values.get(name.lower())
            self._values[name.lower()] = value if before is None else f"{before}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _exchange(connection: http.client.HTTPConnection, request: Request, target: str) -> http.client.HTTPResponse:
    connection.sock.settimeout(request.read_timeout_secs)
    connection.putrequest(request.method, target, skip_accept_encoding=True)
    for name, value in (_ALWAYS | {name.lower(): value for name, value in request.headers.items()}).items():
        connection.putheader(name, value.encode("ascii"))
    if request.content is not None or request.method in {"POST", "PUT"}:
        connection.putheader("Content-Length", str(len(request.content or b"")))
    unsent: OSError | None = None
    try:
        connection.endheaders(request.content or None)
    except OSError as error:
        unsent = error  # a server may refuse a request before it has read all of it: its response is read below
    try:
        with _reading():
            return connection.getresponse()
    except ConnectionBroken as error:
        raise error if unsent is None else ConnectionBroken(str(unsent)) from error


@contextmanager
def _reading() -> Iterator[None]:
    """Translate the errors of reading a response into those of the client."""
    try:
        yield
    except TimeoutError as error:
        raise ResponseLate(str(error)) from error
    except (http.client.HTTPException, OSError) as error:
        raise ConnectionBroken(str(error) or type(error).__name__) from error


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(_GZIP_WINDOW)
    try:
        for piece in pieces:
            if data := decoder.decompress(piece):
                yield data
        yield decoder.flush()
    except zlib.error as error:
        raise InvalidAnswer(f"the body does not match its Content-Encoding: {error}") from error


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection is readable, which means that the server has closed it."""
    # `select.select` takes no descriptor above 1023.
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))
