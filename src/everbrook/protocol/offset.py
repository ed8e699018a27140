"""Offsets, positions in a stream (§8), and the cursors of live reads (§10.1).

An offset is the count of stored bytes before it, written as 16 decimal digits, so that it sorts as text and subtracts
as a number. The sentinels `-1` and `now` are accepted, never issued. A cursor is a key that lets a CDN collapse readers
without serving a stale response for ever.
"""

from enum import Enum, auto

from everbrook.protocol.errors import InvalidOffset, InvalidQuery, quoted

OFFSET_DIGITS = 16

# A composite token that other servers use for the beginning. Clients send it when they create a fork.
ZERO_ALIAS = b"0000000000000000_0000000000000000"


class Sentinel(Enum):
    """The two positions that have names (§8)."""

    BEGINNING = auto()
    NOW = auto()


def parse_offset(text: bytes) -> int | Sentinel:
    """Parse an offset token from a client (§8)."""
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
    """Parse `Stream-Fork-Offset`: an issued offset, or the beginning (§4.2)."""
    if text == ZERO_ALIAS:
        return 0
    offset = parse_offset(text)
    if offset is Sentinel.BEGINNING:
        return 0
    if offset is Sentinel.NOW:
        raise InvalidOffset("Stream-Fork-Offset must be an issued offset; leave it out to fork at the tail")
    return offset


def format_offset(offset: int) -> bytes:
    """Format an offset as the token for clients (§8)."""
    return b"%016d" % offset


EPOCH_MS = 1_728_432_000_000  # 2024-10-09T00:00:00Z
INTERVAL_SECS = 20
MAX_JITTER_SECS = 3600

_MAX_DIGITS = 256


def parse_cursor(text: bytes) -> int | None:
    """Parse the `cursor` parameter that a client echoes. An empty one counts as none, and so does a very long one."""
    if text and not text.isdigit():
        raise InvalidQuery(f"cursor must be the Stream-Cursor of an earlier response, got {quoted(text)}")
    return int(text) if 0 < len(text) <= _MAX_DIGITS else None


def current_cursor(now: int) -> int:
    """Return the number of the interval of `now`. A clock that was never set is in the first interval."""
    return max(0, (now - EPOCH_MS) // (INTERVAL_SECS * 1000))


def next_cursor(now: int, echoed: int | None, chance: float) -> int:
    """Return the cursor for a response at `now`: the current interval, or a later one than the client has echoed.

    `chance` in [0, 1) picks the jitter of 1 to 3600 seconds.
    """
    current = current_cursor(now)
    if echoed is None or echoed < current:
        return current
    # Beyond the echoed cursor: the same URL again would hit the entry that the CDN has cached already.
    jitter_secs = 1 + int(chance * MAX_JITTER_SECS)
    return echoed + max(1, jitter_secs // INTERVAL_SECS)
