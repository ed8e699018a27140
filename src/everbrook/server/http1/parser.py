"""From bytes to whole requests, within bounds.

A request that cannot become whole is refused with a `ProtocolError`; after that the connection can't be trusted.
"""

from collections.abc import Callable
from functools import lru_cache

import httptools

from everbrook.protocol.errors import BadRequest, HeadersTooLarge, PayloadTooLarge, ProtocolError, quoted
from everbrook.server.exchange import Request

KEPT = b""
KEPT_1_0 = b"Connection: keep-alive\r\n"


class Http1Request(Request, kw_only=True, gc=False):
    """A request with what HTTP/1.x says about its connection.

    `connection` is the line that tells the client that the connection goes on, or None if it must end. HTTP/1.0 knows
    no chunks, so there the end of a streamed answer is the end of the connection.
    """

    connection: bytes | None
    chunkable: bool


class RequestParser:
    """Feeds one connection's bytes to `httptools`, and hands every whole request on."""

    def __init__(
        self,
        max_header_bytes: int,
        max_body_bytes: int,
        on_request: Callable[[Http1Request], None],
        on_continue: Callable[[], None],
    ) -> None:
        """Call `on_request` with each whole request, and `on_continue` when one waits to be asked for its body."""
        self._max_header_bytes = max_header_bytes
        self._max_body_bytes = max_body_bytes
        self._on_request = on_request
        self._on_continue = on_continue
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._fed_bytes = 0
        self._continued_bytes = 0
        self._body: list[bytes] = []
        self._in_head = False
        self.body_bytes = 0
        self.receiving = False

    def feed(self, data: bytes) -> None:
        """Take more bytes. Raises a `ProtocolError` when they can't be part of a request."""
        self._fed_bytes = len(data)
        if self._in_head:
            self._continued_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            # Nothing is upgraded: the request was answered as it is, and what follows is the next one.
            self._parser = httptools.HttpRequestParser(self)
            self.feed(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, ProtocolError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserError as error:
            raise BadRequest(f"the request is not HTTP/1.1: {error}") from None
        if self._in_head:
            self._check_head(self._continued_bytes)

    def _check_head(self, size: int) -> None:
        if size > self._max_header_bytes:
            raise HeadersTooLarge(f"the request line and headers hold at most {self._max_header_bytes} bytes")

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._url = b""
        self._headers = {}
        self._continued_bytes = 0
        self._body = []
        self.body_bytes = 0
        self._in_head = True
        self.receiving = True

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. One that comes twice is a list, except where that would hide who is addressed."""
        name = name.lower()
        if name in self._headers:
            if name == b"host":
                raise BadRequest("the Host header must be given once")
            value = b"%b, %b" % (self._headers[name], value)
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        """Look at the head before any of the body is taken."""
        self._in_head = False
        headers = self._headers
        if self._fed_bytes + self._continued_bytes > self._max_header_bytes:
            self._check_head(len(self._url) + sum(len(name) + len(value) for name, value in headers.items()))
        if b"host" not in headers and self._parser.get_http_version() == "1.1":
            raise BadRequest("an HTTP/1.1 request needs a Host header")
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._max_body_bytes:
            raise self._too_large()
        if b"expect" in headers:
            self._expect(headers[b"expect"])

    def _expect(self, expectation: bytes) -> None:
        if expectation.lower() != b"100-continue":
            raise BadRequest(f"Expect must be 100-continue, got {quoted(expectation)}")
        self._on_continue()

    def on_body(self, data: bytes) -> None:
        """Take a piece of the body."""
        self.body_bytes += len(data)
        if self.body_bytes > self._max_body_bytes:
            raise self._too_large()
        self._body.append(data)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"a body holds at most {self._max_body_bytes} bytes")

    def on_message_complete(self) -> None:
        """Hand the request on."""
        self.receiving = False
        parser, headers = self._parser, self._headers
        path, query = split_target(self._url)
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        kept = parser.should_keep_alive()
        # HTTP/1.0 keeps a connection only when asked to, so a kept one without that header is HTTP/1.1.
        chunkable = (kept and b"connection" not in headers) or parser.get_http_version() == "1.1"
        connection = (KEPT if chunkable else KEPT_1_0) if kept else None
        method = parser.get_method()
        self._on_request(Http1Request(method, path, query, headers, body, connection=connection, chunkable=chunkable))


@lru_cache(maxsize=4096)
def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Split a request target into path and query."""
    path, _, query = origin_form(target).partition(b"?")
    return path, query


def origin_form(target: bytes) -> bytes:
    """Reduce a request target to path and query (RFC 9112 §3.2)."""
    if b"#" in target:
        raise BadRequest(f"a request target has no fragment, got {quoted(target)}")
    if target.startswith(b"/"):
        return target
    scheme, separator, rest = target.partition(b"://")
    if separator and scheme.lower() in {b"http", b"https"}:
        slash = rest.find(b"/")
        return rest[slash:] if slash >= 0 else b"/"
    return target
