"""The request parser: from bytes to complete requests, within limits.

`httptools` finds the parts of a request. This module adds the limits that it lacks, and ignores offers of an upgrade.
Bytes that are no request raise a `ProtocolError`; after one the parser must not be fed again.
"""

import re
from collections.abc import Callable

import httptools

from everbrook.protocol.errors import (
    BadRequest,
    HeadersTooLarge,
    MethodNotImplemented,
    PayloadTooLarge,
    ProtocolError,
    VersionNotSupported,
    quoted,
)
from everbrook.protocol.memo import remember
from everbrook.server.exchange import STREAMED_PATH, UNKNOWN_PEER, Peer, may_be_large
from everbrook.server.http1.body import KEPT, KEPT_1_0, Http1Request, IncomingBody, StreamedRequest
from everbrook.server.http1.known_heads import KnownHeads, Recognizer
from everbrook.server.http1.wire import render_without_upgrade
from everbrook.server.location import require_host
from everbrook.server.methods import SUBSCRIPTIONS, max_body_bytes, refuse_method
from everbrook.settings import LimitSettings

# The bytes of a header line beside its name and value: a colon, a space and the line end.
LINE_OVERHEAD_BYTES = 4
# Smaller pieces of a body are joined, so that a thousand tiny ones do not cost a thousand objects.
PIECE_BYTES = 1024


_REQUEST_LINE = re.compile(rb"(?:\A|\n)([!#$%&'*+.^_`|~0-9A-Za-z-]+) [!-~]+ HTTP/1\.[01]\r\n")


class RequestParser:
    """Parses the bytes of one connection, and passes on each request. `httptools` calls its `on_` methods."""

    def __init__(
        self,
        limits: LimitSettings,
        on_head: Callable[[StreamedRequest], None],
        on_request: Callable[[Http1Request], None],
        on_continue: Callable[[], None],
        inward: Callable[[bytes], bytes],
        heads: KnownHeads,
        *,
        judges_heads: bool = False,
    ) -> None:
        """Call `on_request` with each complete request, and `on_continue` when a client waits for `100 Continue`.

        `on_head` is called before that with a request whose body is processed while it arrives. With `judges_heads`
        these are all requests whose body may be large, without it only uploads and large requests about subscriptions.
        `inward` maps the path of a URL to the path that the application knows. `heads` are the known ones.
        """
        self._parser = httptools.HttpRequestParser(self)
        self._max_header_bytes = limits.max_header_bytes
        self._max_body_bytes = self._max_gathered_bytes = limits.max_append_bytes
        self._on_head = on_head
        self._on_request = on_request
        self._on_continue = on_continue
        self._inward = inward
        self._judges_heads = judges_heads
        self._recognizer = Recognizer(heads, self._max_header_bytes, self._max_body_bytes)
        self._withheld = b""
        self._streamed: StreamedRequest | None = None
        # Most clients request the same target again, so the parts of the last one are cached.
        self._target = self._path = self._query = b""
        self._host = b""
        self._method = self._url = b""
        self._body: list[bytes | bytearray] = []
        self._in_head = False
        self._upgrading = False
        self._fed_bytes = 0
        self._unended_bytes = 0
        self.headers: dict[bytes, bytes] = {}
        self.receiving = False
        self.body_bytes = 0
        self.peer: Peer = UNKNOWN_PEER
        self.scheme = b"http"
        self.heard_at = 0.0

    @property
    def gathered_bytes(self) -> int:
        """The size of the body that is buffered here until its request is complete."""
        return sum(map(len, self._body))

    def partial_request(self) -> Http1Request:
        """Return a request of which only the client and perhaps some headers are known."""
        return Http1Request(
            *(b"", b"", b"", self.headers, b"", self.scheme, b"", self.peer),
            connection=None,
            chunkable=True,
            operation="other",
        )

    def discard_body(self) -> None:
        """Release the part of a body that has arrived, because its request is refused."""
        self._body = []
        self.body_bytes = 0

    def close(self) -> None:
        """Break the reference cycles, so that the parser and its connection are freed at once."""
        del self._parser
        del self._on_head, self._on_request, self._on_continue

    def feed(self, data: bytes) -> None:
        """Parse more bytes. Raise a `ProtocolError` if they can't be part of a request."""
        if self._withheld:
            # A known head whose body was to come: many clients send the two apart.
            data, self._withheld, self.receiving = self._withheld + data, b"", False
        if not self.receiving:
            recognizer = self._recognizer
            request = recognizer.recognize(data, self.scheme, self.peer, self.heard_at)
            if request is not None:
                self._on_request(request)
                return
            if recognizer.awaits_body(data):
                self.headers, self.body_bytes, self._body = recognizer.headers, 0, []
                self._withheld, self.receiving = data, True
                return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._fed_bytes = len(data)
        if self.receiving:
            self._unended_bytes += len(data)
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._feed_past_upgrade(data, upgrade.args[0])
        except httptools.HttpParserCallbackError as error:
            # httptools wraps what a callback raises. The refusal inside is what the client must get.
            if isinstance(error.__context__, ProtocolError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserInvalidMethodError as error:
            raise unknown_method(data) or BadRequest(f"the request is not HTTP/1.1: {error}") from None
        except httptools.HttpParserError as error:
            raise BadRequest(f"the request is not HTTP/1.1: {error}") from None
        if self.receiving:
            self._check_head(self._unended_bytes)

    def _feed_past_upgrade(self, rest: bytes | memoryview, taken_bytes: int) -> None:
        """Parse a request again without its offer of an upgrade, because this server accepts none.

        `httptools` takes everything that follows the head of such a request for another protocol, its body included.
        """
        while True:
            rest = memoryview(rest)[taken_bytes:]
            if self._upgrading:
                method, version = self._parser.get_method(), self._parser.get_http_version()
                rest = render_without_upgrade(method, self._url, version, self.headers) + rest
            self._parser = httptools.HttpRequestParser(self)
            try:
                self._parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                taken_bytes = upgrade.args[0]
            else:
                return

    def _check_head(self, size: int) -> None:
        if size > self._max_header_bytes:
            raise HeadersTooLarge(f"the request line and headers hold at most {self._max_header_bytes} bytes")

    # Callbacks of httptools

    def on_message_begin(self) -> None:
        """Reset the state of the last request."""
        self._url = b""
        self.headers = {}
        self._unended_bytes = self.body_bytes = 0
        self._body = []
        self._in_head = self.receiving = True

    def on_url(self, url: bytes) -> None:
        """Add a piece of the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header. Repeated headers become one list (RFC 9110 §5.3); a repeated `Host` is refused.

        Trailers, which come after the body, are dropped: no header of the protocol may be a trailer. Otherwise they
        could change headers that were checked before the body.
        """
        if not self._in_head:
            return
        name, value, headers = name.lower(), value.rstrip(b" \t"), self.headers
        if name in headers:
            if name == b"host":
                raise BadRequest("the Host header must be given once")
            value = b"%b, %b" % (headers[name], value)
        headers[name] = value

    def on_headers_complete(self) -> None:
        """Check the head before the body is processed."""
        self._in_head = False
        headers = self.headers
        self._upgrading = b"upgrade" in headers and self._parser.should_upgrade()
        if self._upgrading:
            return
        if self._unended_bytes or self._fed_bytes > self._max_header_bytes:
            sizes = (len(name) + len(value) + LINE_OVERHEAD_BYTES for name, value in headers.items())
            self._check_head(len(self._url) + sum(sizes))
        self._unended_bytes = 0
        host = headers.get(b"host")
        if host != self._host:
            self._check_host(host)
        if b"transfer-encoding" in headers:
            self._check_coding(headers[b"transfer-encoding"])
        length = headers.get(b"content-length")
        method = self._method = self._parser.get_method()
        judged, self._max_gathered_bytes = self._judges_heads, self._max_body_bytes
        if SUBSCRIPTIONS in self._url:
            judged, self._max_gathered_bytes = True, max_body_bytes(self._split()[0], self._max_body_bytes)
        if (method == b"PUT" and STREAMED_PATH in self._url) or (judged and may_be_large(headers)):
            self._begin_streamed(int(length or 0))
        elif length is not None and int(length) > self._max_gathered_bytes:
            raise self._too_large()
        if b"expect" in headers:
            self._expect(headers[b"expect"])

    def _check_host(self, host: bytes | None) -> None:
        if host is not None:
            require_host(host)
            self._host = host
        elif self._parser.get_http_version() == "1.1":
            raise BadRequest("an HTTP/1.1 request needs a Host header")

    def _check_coding(self, coding: bytes) -> None:
        if coding.lower() != b"chunked" or self._parser.get_http_version() != "1.1":
            raise BadRequest(f"Transfer-Encoding must be chunked, in HTTP/1.1, got {quoted(coding)}")

    def _expect(self, expectation: bytes) -> None:
        if self._parser.get_http_version() != "1.1":
            return
        if expectation.lower() != b"100-continue":
            raise BadRequest(f"Expect must be 100-continue, got {quoted(expectation)}")
        self._on_continue()

    def on_body(self, data: bytes) -> None:
        """Add a piece of the body."""
        self._unended_bytes = 0
        self.body_bytes += len(data)
        if self.body_bytes > self._max_gathered_bytes:
            self._take_beyond(data)
        elif len(data) >= PIECE_BYTES or not self._body:
            self._body.append(data)
        elif isinstance(self._body[-1], bytearray):
            self._body[-1] += data
        else:
            self._body.append(bytearray(data))

    def _take_beyond(self, data: bytes) -> None:
        if self._streamed is None:
            raise self._too_large()
        self._streamed.incoming.write(data)

    def _too_large(self) -> PayloadTooLarge:
        return PayloadTooLarge(f"the body holds at most {self._max_gathered_bytes} bytes")

    def on_message_complete(self) -> None:
        """Pass on the complete request."""
        if self._upgrading:
            return
        self.receiving = False
        if self._streamed is not None:
            self._end_streamed(self._streamed)
            return
        parser, headers = self._parser, self.headers
        if self._url != self._target:
            self._target, (self._path, self._query) = self._url, self._split()
        body = bytes(self._body[0]) if len(self._body) == 1 else b"".join(self._body)
        kept = parser.should_keep_alive()
        # A request of HTTP/1.0 keeps its connection only if it has the Connection header. So a kept connection without
        # that header is HTTP/1.1, and the version need not be formatted.
        chunkable = (kept and b"connection" not in headers) or self._version() == "1.1"
        connection = (KEPT if chunkable else KEPT_1_0) if kept else None
        request = Http1Request(
            self._method,
            self._path,
            self._query,
            headers,
            body,
            self.scheme,
            b"",
            self.peer,
            self.heard_at,
            connection=connection,
            chunkable=chunkable,
        )
        if not kept:
            self._recognizer.stop()
        elif self._recognizer.missed is not None:
            self._recognizer.learn(request, self._url)
        self._on_request(request)

    def _split(self) -> tuple[bytes, bytes]:
        path, query = split_target(self._url)
        return self._inward(path), query

    def _begin_streamed(self, length: int) -> None:
        """Pass on the head of a request. The limit of buffered bytes becomes -1, so its body goes to `IncomingBody`."""
        path, query = self._split()
        chunkable = self._version() == "1.1"
        max_bytes, self._max_gathered_bytes = self._max_gathered_bytes, -1
        self._streamed = StreamedRequest(
            self._method,
            path,
            query,
            self.headers,
            b"",
            connection=(KEPT if chunkable else KEPT_1_0) if self._parser.should_keep_alive() else None,
            chunkable=chunkable,
            incoming=IncomingBody(length, max_bytes),
            peer=self.peer,
            scheme=self.scheme,
        )
        self._on_head(self._streamed)

    def _end_streamed(self, request: StreamedRequest) -> None:
        self._streamed = None
        if request.connection is None:
            self._recognizer.stop()
        request.received = self.heard_at
        self._on_request(request)

    def _version(self) -> str:
        version = self._parser.get_http_version()
        if version not in {"1.0", "1.1"}:
            raise VersionNotSupported(f"this server speaks HTTP/1.1 and HTTP/1.0, not {version}")
        return version


@remember(maxsize=4096)
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
        authority, slash, path = rest.partition(b"/")
        if not slash or b"?" in authority:
            raise BadRequest(f"an absolute request target must have a path, got {quoted(target)}")
        return slash + path
    return target


def unknown_method(data: bytes) -> MethodNotImplemented | None:
    """Find the unknown method in bytes that `httptools` refused, and return its refusal.

    `httptools` does not say at which request it stopped, so all request lines in the bytes are searched. An incomplete
    request line is not found.
    """
    methods = (refuse_method(method, b"") for method in _REQUEST_LINE.findall(data))
    return next((error for error in methods if isinstance(error, MethodNotImplemented)), None)
