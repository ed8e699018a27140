"""Parameters of requests: users pass times, lifetimes and bounds; requests carry text."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from urllib.parse import urlsplit

Moment = datetime | str
Lifetime = timedelta | int


def format_moment(moment: Moment) -> str:
    """Format a time, which must have a zone."""
    if isinstance(moment, str):
        return moment
    if moment.tzinfo is None:
        raise ValueError(f"a time must have a time zone, as datetime.now(UTC) has, got {moment!r}")
    return moment.isoformat()


def format_lifetime(lifetime: Lifetime) -> str:
    """Format a lifetime as whole seconds, rounded up."""
    if isinstance(lifetime, timedelta):
        return str(-(-lifetime // timedelta(seconds=1)))
    return str(lifetime)


def start_query(last: int | None, at: Moment | int | None, skip: int | None) -> dict[str, str]:
    """Return the query for the beginning of a read, other than its offset."""
    given = {
        "last": None if last is None else str(last),
        "at": None if at is None else str(at) if isinstance(at, int) else format_moment(at),
        "skip": None if skip is None else str(skip),
    }
    return {name: value for name, value in given.items() if value is not None}


def begin_query(offset: str, start: Mapping[str, str]) -> dict[str, str]:
    """Return the query for the beginning of a request. `at` and `last` replace the offset; `skip` goes with each."""
    return dict(start) if start.keys() & {"at", "last"} else {"offset": offset, **start}


def creation_headers(
    content_type: str | None,
    ttl_secs: Lifetime | None,
    expires_at: Moment | None,
    retention: str | None,
    *,
    closed: bool,
) -> dict[str, str]:
    """Return the headers that create a stream (§5.1)."""
    given = {
        "Content-Type": content_type,
        "Stream-TTL": None if ttl_secs is None else format_lifetime(ttl_secs),
        "Stream-Expires-At": None if expires_at is None else format_moment(expires_at),
        "Stream-Retention": retention,
        "Stream-Closed": "true" if closed else None,
    }
    return {name: value for name, value in given.items() if value is not None}


def path_of(url: str) -> str:
    """Return the path of a stream's URL, by which a fork names its source (§4.2)."""
    return urlsplit(url).path
