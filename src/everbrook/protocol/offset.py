"""Offsets: positions in a stream (§8).

An offset is the count of stored bytes before it, written as 16 decimal digits, so that it sorts as text and
subtracts as a number. The sentinels `-1` and `now` are read, never issued.
"""

from enum import Enum, auto

from everbrook.protocol.errors import InvalidOffset, quoted

OFFSET_DIGITS = 16

# The one composite token in use elsewhere for "the very beginning"; clients send it when forking.
ZERO_ALIAS = b"0000000000000000_0000000000000000"


class Sentinel(Enum):
    """The two positions that are asked for by name (§8)."""

    BEGINNING = auto()
    NOW = auto()


def parse_offset(text: bytes) -> int | Sentinel:
    """Read an offset token as a client sends it (§8)."""
    if len(text) == OFFSET_DIGITS and text.isdigit():
        return int(text)
    if text == b"-1":
        return Sentinel.BEGINNING
    if text == b"now":
        return Sentinel.NOW
    raise InvalidOffset(
        f"offset must be one that this server issued ({OFFSET_DIGITS} digits), -1 or now, got {quoted(text)}"
    )


def parse_fork_offset(text: bytes) -> int:
    """Read `Stream-Fork-Offset`: an issued offset, or the beginning (§4.2)."""
    if text == ZERO_ALIAS:
        return 0
    offset = parse_offset(text)
    if offset is Sentinel.BEGINNING:
        return 0
    if offset is Sentinel.NOW:
        raise InvalidOffset("Stream-Fork-Offset must be an issued offset; leave it out to fork at the tail")
    return offset


def format_offset(offset: int) -> bytes:
    """Write an offset as the token that clients keep (§8)."""
    return b"%016d" % offset
