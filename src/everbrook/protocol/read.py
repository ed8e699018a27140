"""Reads: the beginning of a read, the end of a page, and how long a cache may keep it (§5.6, §8, §10, 002 §2.2)."""

from msgspec import Struct

from everbrook.protocol.errors import Headers, InvalidOffset, InvalidQuery, OffsetGone
from everbrook.protocol.offset import Sentinel, format_offset
from everbrook.protocol.query import ReadQuery
from everbrook.protocol.state import Head
from everbrook.protocol.view import Boundaries


class Page(Struct, frozen=True, gc=False):
    """A run of whole messages of a stream, as it was when `head` was its head."""

    head: Head
    start: int
    end: int

    @property
    def up_to_date(self) -> bool:
        """Whether the page reaches the tail (§5.6)."""
        return self.end == self.head.tail

    @property
    def final(self) -> bool:
        """Whether no message can ever follow the page: it ends at the tail of a closed stream (§4.1)."""
        return self.head.closed and self.end == self.head.tail


def locate(head: Head, boundaries: Boundaries, offset: int | Sentinel) -> int:
    """Return the position of an offset that a reader asks for. An offset beyond the tail is the tail."""
    if offset is Sentinel.BEGINNING:
        offset = 0
    if offset is Sentinel.NOW:
        return head.tail
    if offset < head.kept.earliest:
        require_kept(head, offset)
    if offset >= head.tail:
        return head.tail
    if offset and not boundaries.is_boundary(offset):
        raise InvalidOffset(f"offset {offset:016d} lies inside a message; use one that this server issued")
    return offset


def require_kept(head: Head, offset: int) -> None:
    """Refuse an offset before the first retained message. The refusal has the present beginning (002 §2.2)."""
    earliest, snapshot = head.kept.earliest, head.kept.snapshot
    if offset >= earliest:
        return
    headers: Headers = ((b"Stream-Earliest-Offset", format_offset(earliest)),)
    if snapshot:
        headers += ((b"Stream-Snapshot-Offset", format_offset(snapshot.offset)),)
    raise OffsetGone(f"messages before {earliest:016d} are no longer retained; begin with a bootstrap", headers)


def begin(head: Head, boundaries: Boundaries, query: ReadQuery) -> int:
    """Return the beginning of a read: at a time, at the last messages, or at an offset, with some messages skipped."""
    earliest, tail = head.kept.earliest, head.tail
    if query.at is not None:
        start = boundaries.first_since(earliest, tail, query.at)
    elif query.last is not None:
        end = tail if query.until is None else end_of_read(head, boundaries, earliest, query.until)
        start = boundaries.seek(end, -query.last, earliest)
    else:
        start = locate(head, boundaries, query.offset)
    return boundaries.seek(start, query.skip, tail) if query.skip else start


def look_up(head: Head, boundaries: Boundaries, query: ReadQuery) -> int:
    """Return the offset that a HEAD looks up: the beginning of the read or, with `max_bytes`, the end of its page."""
    start = begin(head, boundaries, query)
    return start if query.max_bytes is None else page_from(head, boundaries, start, query.max_bytes).end


def end_of_read(head: Head, boundaries: Boundaries, start: int, until: int) -> int:
    """Return the end of a read that must not go beyond `until`."""
    if until < start:
        raise InvalidQuery(f"until must not lie before the offset that the read begins at, {start:016d}")
    if until >= head.tail:
        return head.tail
    if until != start and not boundaries.is_boundary(until):
        raise InvalidOffset(f"until {until:016d} lies inside a message; use an offset that this server issued")
    return until


def page_from(head: Head, boundaries: Boundaries, start: int, max_bytes: int, until: int | None = None) -> Page:
    """Return the page that begins at `start`: whole messages of at most `max_bytes`, but at least one message."""
    bound = head.tail if until is None else until
    if bound - start <= max_bytes:
        return Page(head, start, bound)
    end = boundaries.boundary_at_or_before(start + max_bytes)
    return Page(head, start, end if end > start else boundaries.boundary_after(start))


MAX_AGE_SECS = 60
STALE_SECS = 300

NO_STORE = b"no-store"
NO_CACHE = b"no-cache"
PRIVATE_NO_CACHE = b"private, no-cache"

_FRESH = b"%b, max-age=%d, stale-while-revalidate=%d"


def format_etag(page: Page, *, epoch: int = 0, frames: bool = False) -> bytes:
    """Format the entity tag of a page. It changes when messages were appended behind the page, or the stream was
    closed.

    A page at the tail is marked `t`, the last page of a closed stream `c`, and a page in frames `f`. `epoch` is that of
    the store: after a restore from a backup the same offsets may have other bytes.
    """
    mark = b":c" if page.final else b":t" if page.up_to_date else b""
    form = b":f" if frames else b""
    return b'"%x:%d:%d%b%b"' % (page.head.identity.incarnation ^ epoch, page.start, page.end, mark, form)


def matches(if_none_match: bytes, etag: bytes) -> bool:
    """Compare `If-None-Match` weakly with an entity tag (RFC 9110 §13.1.2)."""
    if if_none_match.strip() == b"*":
        return True
    return any(candidate.strip().removeprefix(b"W/") == etag for candidate in if_none_match.split(b","))


def cache_control(page: Page, deadline: int | None, now: int, *, private: bool) -> bytes:
    """Return `Cache-Control` of a page: never beyond the stream's expiry, and no caching of an empty tail.

    The pages of a stream never change, but an empty page at the tail changes with the next append. A response to a
    request with credentials is private.
    """
    if page.start == page.end and not page.final:
        return PRIVATE_NO_CACHE if private else NO_CACHE
    scope = b"private" if private else b"public"
    if deadline is None:
        return _FRESH % (scope, MAX_AGE_SECS, STALE_SECS)
    left = max(0, deadline - now) // 1000
    max_age = min(MAX_AGE_SECS, left)
    return _FRESH % (scope, max_age, min(STALE_SECS, left - max_age))
