"""The query of a read: its beginning, its end, and how it waits (§5.6 to §5.8)."""

import re
from enum import Enum
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from everbrook.protocol.errors import InvalidHeader, InvalidOffset, InvalidQuery, quoted
from everbrook.protocol.lifetime import MAX_TIME_MS, parse_time
from everbrook.protocol.memo import remember
from everbrook.protocol.offset import Sentinel, parse_cursor, parse_offset

MAX_COUNT_DIGITS = 15

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Live(Enum):
    """How a read waits for new messages."""

    LONG_POLL = b"long-poll"
    SSE = b"sse"


class ReadQuery(Struct, frozen=True, gc=False):
    """A parsed query."""

    offset: int | Sentinel
    live: Live | None = None
    cursor: int | None = None
    until: int | None = None
    at: int | None = None
    last: int | None = None
    skip: int | None = None
    max_bytes: int | None = None
    frames: bool = False
    cached: bool = True
    """Whether the query itself fixes the beginning of the read, so that caches may keep the response."""

    @property
    def seeks(self) -> bool:
        """Whether the beginning of the read must be searched in the stream."""
        return self.at is not None or self.last is not None or self.skip is not None

    @property
    def plain(self) -> bool:
        """Whether the query has parameters of the base protocol only."""
        return self.until is None and self.max_bytes is None and not self.frames and not self.seeks


_OF_ONE_ANSWER = {b"until", b"max_bytes", b"format"}
_STARTS = {b"offset", b"at", b"last", b"skip"}
_OTHERS = {b"live", b"cursor"} | _OF_ONE_ANSWER


@remember(maxsize=4096)
def parse_read_query(query: bytes) -> ReadQuery:
    """Parse the parameters of a GET. Unknown ones are ignored (§11.1)."""
    values = parse_parameters(query, _STARTS | _OTHERS)
    live = _parse_live(values.get(b"live"))
    if live and not values.keys() & {b"offset", b"at", b"last"}:
        raise InvalidQuery(f"live={live.value.decode()} needs an offset to begin at")
    if live and values.keys() & _OF_ONE_ANSWER:
        raise InvalidQuery("until, max_bytes and format are for reads that do not wait")
    return ReadQuery(
        _parse_start(values),
        live,
        parse_cursor(values[b"cursor"]) if b"cursor" in values else None,
        _parse_until(values.get(b"until")),
        *_parse_seeking(values),
        max_bytes=_parse_max_bytes(values.get(b"max_bytes")),
        frames=_parse_format(values.get(b"format")),
    )


def parse_lookup(query: bytes) -> ReadQuery | None:
    """Parse the parameters with which a HEAD looks up an offset; None if it has none of them."""
    values = parse_parameters(query, _STARTS | {b"max_bytes"})
    if not values:
        return None
    at, last, skip = _parse_seeking(values)
    max_bytes = _parse_max_bytes(values.get(b"max_bytes"))
    return ReadQuery(_parse_start(values), at=at, last=last, skip=skip, max_bytes=max_bytes)


def _parse_start(values: dict[bytes, bytes]) -> int | Sentinel:
    starts = [key for key in (b"offset", b"at", b"last") if key in values]
    if len(starts) > 1:
        raise InvalidQuery(f"a read begins at one of offset, at and last, got {b' and '.join(starts).decode()}")
    return parse_offset(values[b"offset"]) if b"offset" in values else Sentinel.BEGINNING


def _parse_seeking(values: dict[bytes, bytes]) -> tuple[int | None, int | None, int | None]:
    """Parse `at`, `last` and `skip`."""
    last, skip = (parse_count(key, values[key]) if key in values else None for key in (b"last", b"skip"))
    return _parse_at(values.get(b"at")), last, skip


def require_utf8(key: bytes, value: bytes) -> bytes:
    """Return the value of a parameter if it is UTF-8, or refuse it."""
    try:
        value.decode()
    except UnicodeDecodeError:
        raise InvalidQuery(f"{key.decode()} must be UTF-8, got {quoted(value)}") from None
    return value


def parse_parameters(query: bytes, known: set[bytes]) -> dict[bytes, bytes]:
    """Parse the known parameters of a query. Each may occur once."""
    values: dict[bytes, bytes] = {}
    for pair in query.split(b"&"):
        key, _, value = pair.partition(b"=")
        if key not in known:
            continue
        if key in values:
            raise InvalidQuery(f"{key.decode()} must be given once")
        values[key] = _decode(value)
    return values


def parse_count(key: bytes, text: bytes) -> int:
    """Parse the value of a parameter that is a count."""
    if not text.isdigit() or len(text) > MAX_COUNT_DIGITS:
        raise InvalidQuery(f"{key.decode()} must be a number of at most {MAX_COUNT_DIGITS} digits, got {quoted(text)}")
    return int(text)


def _parse_until(text: bytes | None) -> int | None:
    if text is None:
        return None
    offset = parse_offset(text)
    if isinstance(offset, Sentinel):
        raise InvalidOffset(f"until must be an offset that this server issued, got {quoted(text)}")
    return offset


def _parse_at(text: bytes | None) -> int | None:
    if text is None:
        return None
    if text.isdigit() and len(text) <= len(str(MAX_TIME_MS)):
        return int(text)
    try:
        return parse_time(b"at", text)
    except InvalidHeader:
        raise InvalidQuery(f"at must be an RFC 3339 timestamp or milliseconds since 1970, got {quoted(text)}") from None


def _parse_max_bytes(text: bytes | None) -> int | None:
    if text is None:
        return None
    count = parse_count(b"max_bytes", text)
    if not count:
        raise InvalidQuery("max_bytes must be at least 1")
    return count


def _parse_format(text: bytes | None) -> bool:
    if text not in {None, b"frames"}:
        raise InvalidQuery(f"format must be frames, got {quoted(text or b'')}")
    return text is not None


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
