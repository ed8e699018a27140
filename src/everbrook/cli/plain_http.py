"""Plain HTTP over connections of the standard library, which are loaded already when httpx2 is.

Commands are over in an instant, and httpx2's own transport takes longer to load than most of them take. The rule: a
connection has one request at a time, and is used again only if the server has not closed it meanwhile.
"""

import http.client
import select
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

CHUNK_BYTES = 64 * 1024


class PlainTransport(httpx2.BaseTransport):
    """Sends the requests of an httpx2 client. Those to `https` URLs go httpx2's own way."""

    def __init__(self) -> None:
        self._secure: httpx2.HTTPTransport | None = None
        self._idle: dict[tuple[str, int], list[http.client.HTTPConnection]] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request, and give the answer with its body still to be read."""
        if request.url.scheme != "http":
            self._secure = self._secure or httpx2.HTTPTransport()
            return self._secure.handle_request(request)
        timeouts = request.extensions.get("timeout", {})
        connection = self._connected((request.url.host, request.url.port or 80), timeouts.get("connect"))
        try:
            answer = _exchange(connection, request, timeouts.get("read"))
        except BaseException:
            connection.close()
            raise
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.getheaders()]
        return httpx2.Response(answer.status, headers=headers, stream=_Body(self, connection, answer))

    def _connected(self, place: tuple[str, int], timeout_secs: float | None) -> http.client.HTTPConnection:
        while (kept := self._kept(place)) is not None:
            if not _readable(kept):
                return kept
            kept.close()
        connection = http.client.HTTPConnection(*place, timeout=timeout_secs)
        try:
            connection.connect()
        except TimeoutError as error:
            raise httpx2.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpx2.ConnectError(str(error)) from error
        return connection

    def _kept(self, place: tuple[str, int]) -> http.client.HTTPConnection | None:
        try:
            return self._idle[place].pop()
        except LookupError:
            return None  # or another thread was faster

    def keep(self, connection: http.client.HTTPConnection) -> None:
        """Take a connection back whose answer was read to its end."""
        self._idle.setdefault((connection.host, connection.port), []).append(connection)

    def close(self) -> None:
        """Close the connections that are not in use."""
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        if self._secure is not None:
            self._secure.close()


class _Body(httpx2.SyncByteStream):
    """The body of an answer, as it arrives."""

    def __init__(
        self, transport: PlainTransport, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> None:
        self._transport = transport
        self._connection = connection
        self._answer = answer
        self._whole = False

    def __iter__(self) -> Iterator[bytes]:
        with _reading():
            while piece := self._answer.read1(CHUNK_BYTES):
                yield piece
        if self._answer.length:
            raise httpx2.RemoteProtocolError(f"the answer ended {self._answer.length} bytes too early")
        self._whole = True

    def close(self) -> None:
        will_close = self._answer.will_close
        self._answer.close()
        if self._whole and not will_close:
            self._transport.keep(self._connection)
        else:
            self._connection.close()


def _exchange(
    connection: http.client.HTTPConnection, request: httpx2.Request, timeout_secs: float | None
) -> http.client.HTTPResponse:
    connection.sock.settimeout(timeout_secs)
    try:
        path = request.url.raw_path.decode("ascii")
        connection.putrequest(request.method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.raw:
            connection.putheader(name.decode("latin-1"), value)
        connection.endheaders(request.read() or None)
    except OSError as error:
        raise httpx2.WriteError(str(error)) from error
    with _reading():
        return connection.getresponse()


@contextmanager
def _reading() -> Iterator[None]:
    """Say what goes wrong while an answer is read in the words of httpx2."""
    try:
        yield
    except TimeoutError as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except http.client.HTTPException as error:
        raise httpx2.RemoteProtocolError(str(error) or type(error).__name__) from error
    except OSError as error:
        raise httpx2.ReadError(str(error)) from error


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Tell whether something came without being asked for: the server has closed the connection."""
    return bool(select.select([connection.sock], [], [], 0)[0])
