"""Where an HTTP/1.1 answer ends, found with as little work as possible.

The load generator shares the machine with the server it measures, so it does not build header dictionaries: it
checks the status line, finds the end of the head, and takes the length from Content-Length or by walking chunks.
"""

from typing import NamedTuple

_HEAD_END = b"\r\n\r\n"
_LINE_END = b"\r\n"


class MalformedAnswer(Exception):
    """The bytes can't be an HTTP/1.1 answer, or its length can't be known."""


class Extent(NamedTuple):
    """Where the first answer in a buffer ends, and how many bytes of payload it carries."""

    end: int
    payload_bytes: int


def expected_status_line(status: int) -> bytes:
    """How an answer with this status has to begin; the reason phrase is the server's own affair."""
    return b"HTTP/1.1 %d " % status


def measure_answer(data: bytes, *, bodiless: bool) -> Extent | None:
    """Find the extent of the first answer in `data`; None while it is incomplete.

    `bodiless` answers (204, 304, and every answer to HEAD) end with their head, whatever their headers claim.
    """
    head_end = data.find(_HEAD_END)
    if head_end < 0:
        return None
    body_start = head_end + 4
    if bodiless:
        return Extent(body_start, 0)
    head = data[: head_end + 2].lower()
    length = header_value(head, b"content-length")
    if length is not None:
        return _sized(data, body_start, length)
    if header_value(head, b"transfer-encoding") == b"chunked":
        return _chunked(data, body_start)
    raise MalformedAnswer(f"an answer with neither Content-Length nor chunks: {head!r}")


def header_value(lowered_head: bytes, name: bytes) -> bytes | None:
    """Look one header up in a lower-cased head whose every line, the last included, ends in CRLF."""
    start = lowered_head.find(b"\r\n" + name + b":")
    if start < 0:
        return None
    start += len(name) + 3
    return lowered_head[start : lowered_head.index(_LINE_END, start)].strip()


def _sized(data: bytes, body_start: int, length: bytes) -> Extent | None:
    if not length.isdigit():
        raise MalformedAnswer(f"Content-Length must be decimal digits, got {length!r}")
    end = body_start + int(length)
    return Extent(end, end - body_start) if end <= len(data) else None


def _chunked(data: bytes, body_start: int) -> Extent | None:
    position, payload_bytes = body_start, 0
    while (line_end := data.find(_LINE_END, position)) >= 0:
        size = _chunk_size(data[position:line_end])
        position = line_end + 2 + size + 2
        if position > len(data):
            return None
        if data[position - 2 : position] != _LINE_END:
            raise MalformedAnswer(f"a chunk of {size} bytes does not end in CRLF")
        if size == 0:
            return Extent(position, payload_bytes)
        payload_bytes += size
    return None


def _chunk_size(line: bytes) -> int:
    try:
        return int(line, 16)
    except ValueError:
        raise MalformedAnswer(f"a chunk size must be hexadecimal, got {line!r}") from None
