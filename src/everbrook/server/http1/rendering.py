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
    """Write the head of a whole response. One to HEAD has a length only where there would be a body.

    `connection` is the line for a connection that goes on; None ends it.
    """
    bodiless = response.status in _BODILESS or (to_head and not response.body)
    return b"%b%b%b%b%b\r\n" % (
        _STATUS_LINES[response.status],
        response.headers,
        date,
        b"" if bodiless else b"Content-Length: %d\r\n" % len(response.body),
        _CLOSE if connection is None else connection,
    )


def render_stream_head(response: Response, date: bytes, connection: bytes | None, *, chunked: bool) -> bytes:
    """Write the head of a streamed response."""
    return b"%b%b%b%b%b\r\n" % (
        _STATUS_LINES[response.status],
        response.headers,
        date,
        b"Transfer-Encoding: chunked\r\n" if chunked else b"",
        _CLOSE if connection is None else connection,
    )


def chunk(data: bytes) -> bytes:
    """Frame a piece of a body whose length is not known beforehand."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def unframed(data: bytes) -> bytes:
    """Leave a piece as it is, where the end of the connection is the end of the body."""
    return data


def date_line() -> bytes:
    """Write the Date header for this second."""
    return b"Date: %b\r\n" % formatdate(usegmt=True).encode()
