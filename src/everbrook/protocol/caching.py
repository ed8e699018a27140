"""Caching: entity tags and cache policy of reads (§10)."""

from everbrook.protocol.reading import Page

MAX_AGE_SECS = 60
STALE_SECS = 300

NO_STORE = b"no-store"
NO_CACHE = b"no-cache"
PRIVATE_NO_CACHE = b"private, no-cache"

_FRESH = b"%b, max-age=%d, stale-while-revalidate=%d"


def format_etag(page: Page, *, epoch: int = 0, frames: bool = False) -> bytes:
    """Name a page so that the name changes when more came after it, or when the stream closed.

    A page that ends at the tail is marked `t`, one that ends a closed stream `c`, and one in frames `f`. `epoch` is
    that of the store: after a restore from a backup the same offsets may have other bytes.
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
    """Say how long a page may be kept: never beyond the stream's expiry, and an empty tail not at all.

    The pages of a stream never change, but what "nothing yet" says does with the next append. What was asked for with
    credentials is for those who have them.
    """
    if page.start == page.end and not page.final:
        return PRIVATE_NO_CACHE if private else NO_CACHE
    scope = b"private" if private else b"public"
    if deadline is None:
        return _FRESH % (scope, MAX_AGE_SECS, STALE_SECS)
    left = max(0, deadline - now) // 1000
    max_age = min(MAX_AGE_SECS, left)
    return _FRESH % (scope, max_age, min(STALE_SECS, left - max_age))
