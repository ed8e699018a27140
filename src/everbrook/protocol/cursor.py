"""Cursors: keys that let a CDN collapse readers without serving an old answer for ever (§10.1)."""

from everbrook.protocol.errors import InvalidQuery, quoted

EPOCH_MS = 1_728_432_000_000  # 2024-10-09T00:00:00Z
INTERVAL_SECS = 20
MAX_JITTER_SECS = 3600

_MAX_DIGITS = 256


def parse_cursor(text: bytes) -> int | None:
    """Read the `cursor` parameter that a client echoes. One that is empty is none, and so is one of endless digits."""
    if text and not text.isdigit():
        raise InvalidQuery(f"cursor must be the Stream-Cursor of an earlier answer, got {quoted(text)}")
    return int(text) if 0 < len(text) <= _MAX_DIGITS else None


def current_cursor(now: int) -> int:
    """Give the number of the interval that `now` is in. A clock that was never set is in the first one."""
    return max(0, (now - EPOCH_MS) // (INTERVAL_SECS * 1000))


def next_cursor(now: int, echoed: int | None, chance: float) -> int:
    """Give the cursor for an answer at `now`: the current interval, or one beyond what the client echoed.

    `chance` in [0, 1) picks the jitter of 1 to 3600 seconds.
    """
    current = current_cursor(now)
    if echoed is None or echoed < current:
        return current
    jitter_secs = 1 + int(chance * MAX_JITTER_SECS)
    return echoed + max(1, jitter_secs // INTERVAL_SECS)
