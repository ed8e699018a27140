"""Rendering: from responses to bytes."""

from email.utils import formatdate
from http import HTTPStatus

from everbrook.server.exchange import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_BODILESS = {204, 304}
_CLOSE = b"Connection: close\r\n"


def render_head(response: Response, date: bytes, connection: bytes | None, *, to_head: bool) -> bytes:
    """Write the head of a whole response. A response to HEAD has Content-Length only if the length is known.

    `connection` is the header line for a connection that stays open, None for one that closes.
    """
    length = len(response.body) if response.length is None else response.length
    bodiless = response.status in _BODILESS or (to_head and not response.body and response.length is None)
    return b"%b%b%b%b%b\r\n" % (
        _STATUS_LINES[response.status],
        response.headers,
        date,
        b"" if bodiless else b"Content-Length: %d\r\n" % length,
        _CLOSE if connection is None else connection,
    )


def render_stream_head(response: Response, date: bytes, connection: bytes | None, *, chunked: bool) -> bytes:
    """Write the head of a streamed response. Without a length or chunks, the end of the connection ends it."""
    known = b"" if response.length is None else b"Content-Length: %d\r\n" % response.length
    return b"%b%b%b%b%b\r\n" % (
        _STATUS_LINES[response.status],
        response.headers,
        date,
        b"Transfer-Encoding: chunked\r\n" if chunked else known,
        _CLOSE if connection is None else connection,
    )


def chunk(data: bytes) -> bytes:
    """Frame a piece of a body whose length is not known in advance (RFC 9112 §7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def unframed(data: bytes) -> bytes:
    """Return a piece unchanged, because Content-Length or the end of the connection ends the body."""
    return data


def date_line() -> bytes:
    """Write the Date header of the current second."""
    return b"Date: %b\r\n" % formatdate(usegmt=True).encode()


def render_without_upgrade(method: bytes, target: bytes, version: str, headers: dict[bytes, bytes]) -> bytes:
    """Write the head of a request without its offer of an upgrade (RFC 9110 §7.8)."""
    kept = {name: value for name, value in headers.items() if name != b"upgrade"}
    options = kept.pop(b"connection", b"").lower()
    if b"close" in options:
        kept[b"connection"] = b"close"
    lines = b"".join(b"%b: %b\r\n" % header for header in kept.items())
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), lines)
