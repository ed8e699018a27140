"""From responses to bytes."""

from email.utils import formatdate
from http import HTTPStatus

from everbrook.server.exchange import Response

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

_STATUS_LINES = {status.value: b"HTTP/1.1 %d %b\r\n" % (status, status.phrase.encode()) for status in HTTPStatus}
_BODILESS = {204, 304}
_CLOSE = b"Connection: close\r\n"


def render_head(response: Response, date: bytes, connection: bytes | None, *, to_head: bool) -> bytes:
    """Write the head of a whole response. One to HEAD has a length only where that of the body is known.

    `connection` is the line for a connection that goes on; None ends it.
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
    """Write the head of a streamed response. Without a length and chunks, its end is that of the connection."""
    known = b"" if response.length is None else b"Content-Length: %d\r\n" % response.length
    return b"%b%b%b%b%b\r\n" % (
        _STATUS_LINES[response.status],
        response.headers,
        date,
        b"Transfer-Encoding: chunked\r\n" if chunked else known,
        _CLOSE if connection is None else connection,
    )


def chunk(data: bytes) -> bytes:
    """Frame a piece of a body whose length is not known beforehand."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def unframed(data: bytes) -> bytes:
    """Leave a piece as it is, where the length or the end of the connection says where the body ends."""
    return data


def date_line() -> bytes:
    """Write the Date header for this second."""
    return b"Date: %b\r\n" % formatdate(usegmt=True).encode()
