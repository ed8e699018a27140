"""A connection's bytes on their way through `httptools`: what it refuses, what it leaves unbounded, and the one thing
that it takes for something else, the offer of an upgrade.
"""

import re

import httptools

from everbrook.protocol.errors import BadRequest, HeadersTooLarge, MethodNotImplemented, ProtocolError
from everbrook.server.methods import refuse_method

_REQUEST_LINE = re.compile(rb"(?:\A|\n)([!#$%&'*+.^_`|~0-9A-Za-z-]+) [!-~]+ HTTP/1\.[01]\r\n")


class Feeding:
    """Feeds a parser whose callbacks are the methods of the class that builds on this one."""

    def __init__(self, max_header_bytes: int) -> None:
        self._max_header_bytes = max_header_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self.headers: dict[bytes, bytes] = {}
        self._fed_bytes = 0
        self._unended_bytes = 0
        self._upgrading = False
        self.receiving = False

    def feed(self, data: bytes) -> None:
        """Take more bytes. Raises a `ProtocolError` when they can't be part of a request."""
        self._fed_bytes = len(data)
        if self.receiving:
            self._unended_bytes += len(data)
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._feed_on(data, upgrade.args[0])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, ProtocolError):
                raise error.__context__ from None
            raise
        except httptools.HttpParserInvalidMethodError as error:
            raise _unknown_method(data) or BadRequest(f"the request is not HTTP/1.1: {error}") from None
        except httptools.HttpParserError as error:
            raise BadRequest(f"the request is not HTTP/1.1: {error}") from None
        if self.receiving:
            self._check_head(self._unended_bytes)

    def end(self) -> None:
        """Take no more bytes. The parser, which knows who is called, goes: who knows each other is freed late."""
        del self._parser

    def _feed_on(self, rest: bytes | memoryview, taken_bytes: int) -> None:
        """Go on behind the offer of an upgrade. Nothing is ever upgraded, so its request is parsed without it.

        `httptools` takes whatever follows the head of such a request for another protocol, its body included.
        """
        while True:
            rest = memoryview(rest)[taken_bytes:]
            if self._upgrading:
                method, version = self._parser.get_method(), self._parser.get_http_version()
                rest = head_without_offer(method, self._url, version, self.headers) + rest
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


def _unknown_method(data: bytes) -> MethodNotImplemented | None:
    """Find the method that is none of HTTP's in bytes that were refused for it.

    The parser does not tell where it stopped. If the request line has not arrived as a whole, it is no request.
    """
    methods = (refuse_method(method, b"") for method in _REQUEST_LINE.findall(data))
    return next((error for error in methods if isinstance(error, MethodNotImplemented)), None)


def head_without_offer(method: bytes, target: bytes, version: str, headers: dict[bytes, bytes]) -> bytes:
    """Write a head again without its offer of an upgrade (RFC 9110 §7.8)."""
    kept = {name: value for name, value in headers.items() if name != b"upgrade"}
    options = kept.pop(b"connection", b"").lower()
    if b"close" in options:
        kept[b"connection"] = b"close"
    lines = b"".join(b"%b: %b\r\n" % header for header in kept.items())
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), lines)
