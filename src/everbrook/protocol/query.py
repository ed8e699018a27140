"""The query of a read: where to begin, and how to wait (§5.6 to §5.8)."""

import re
from enum import Enum
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from everbrook.protocol.cursor import parse_cursor
from everbrook.protocol.errors import InvalidQuery, quoted
from everbrook.protocol.memory import remember
from everbrook.protocol.offset import Sentinel, parse_offset

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Live(Enum):
    """How a read waits for more."""

    LONG_POLL = b"long-poll"
    SSE = b"sse"


class ReadQuery(Struct, frozen=True, gc=False):
    """A parsed query."""

    offset: int | Sentinel
    live: Live | None = None
    cursor: int | None = None


@remember(maxsize=4096)
def parse_read_query(query: bytes) -> ReadQuery:
    """Read the parameters of a GET. Unknown ones belong to somebody else and are left alone (§11.1)."""
    values: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if key not in {b"offset", b"live", b"cursor"}:
            continue
        if key in values:
            raise InvalidQuery(f"{key.decode()} must be given once")
        values[key] = _decode(value)
    live = _parse_live(values.get(b"live"))
    if live and b"offset" not in values:
        raise InvalidQuery(f"live={live.value.decode()} needs an offset to begin at")
    offset = parse_offset(values[b"offset"]) if b"offset" in values else Sentinel.BEGINNING
    cursor = parse_cursor(values[b"cursor"]) if b"cursor" in values else None
    return ReadQuery(offset, live, cursor)


def _decode(value: bytes) -> bytes:
    if _BAD_ESCAPE.search(value):
        raise InvalidQuery(f"a percent sign must be followed by two hexadecimal digits, got {quoted(value)}")
    return unquote_to_bytes(value)


def _parse_live(value: bytes | None) -> Live | None:
    if value is None:
        return None
    try:
        return Live(value)
    except ValueError:
        raise InvalidQuery(f"live must be long-poll or sse, got {quoted(value)}") from None
