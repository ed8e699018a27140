"""Lifetimes: expiry and deletion (§4.2, §5.1, §5.4).

Each read and each write renews a sliding TTL. An absolute expiry never moves. A fixed TTL, an option of the settings,
counts from the creation: such a stream has a TTL and an absolute expiry.

A stream that ends while forks still read it is soft-deleted: requests for it get 410, and its bytes stay. The end of
its last fork ends it too, and so on up the chain of sources, all in one change.

An incarnation distinguishes a stream from earlier ones of the same name (an extension).
"""

import re
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from everbrook.protocol.commands import Create, Decision, Delete, Deleted, Expire, Untouched
from everbrook.protocol.errors import (
    BucketNotFound,
    IncarnationMismatch,
    InvalidHeader,
    NotFound,
    ProtocolError,
    StreamGone,
    StreamNotFound,
    quoted,
)
from everbrook.protocol.path import bucket_of, bucket_record
from everbrook.protocol.state import Change, Drop, Edit, Head, Identity, Write
from everbrook.protocol.view import StreamView, View

MAX_TIME_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last moment that a date can hold

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(rb"0|[1-9][0-9]*")
_RFC3339 = re.compile(
    rb"(\d{4}-\d\d-\d\d)[Tt]((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
)


def parse_ttl(text: bytes, now: int) -> int:
    """Parse `Stream-TTL` (§5.1)."""
    if not _DIGITS.fullmatch(text):
        raise InvalidHeader(f"Stream-TTL must be decimal digits without leading zeros, got {quoted(text)}")
    if len(text) > len(str(MAX_TIME_MS)) or now + int(text) * 1000 > MAX_TIME_MS:
        raise InvalidHeader(f"Stream-TTL must end before the year 10000, got {quoted(text)}")
    return int(text)


def parse_expires_at(text: bytes) -> int:
    """Parse `Stream-Expires-At`, an RFC 3339 timestamp (§5.1)."""
    return parse_time(b"Stream-Expires-At", text)


def parse_time(field: bytes, text: bytes) -> int:
    """Parse an RFC 3339 timestamp."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise InvalidHeader(f"{field.decode()} must be an RFC 3339 timestamp, got {quoted(text)}")
    date, time, fraction, zone = (part.decode() for part in match.groups(default=b""))
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{zone.upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidHeader(f"{field.decode()} must be a real date and time, got {quoted(text)}") from None
    return (moment - _EPOCH) // timedelta(milliseconds=1) + int(fraction.ljust(3, "0")[:3])


def format_expires_at(moment: int) -> bytes:
    """Format an absolute expiry as an RFC 3339 timestamp (§5.5)."""
    text = (_EPOCH + timedelta(milliseconds=moment)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").encode()


def deadline(identity: Identity, touched_at: int) -> int | None:
    """Return the time at which a stream expires without another use; None if it has no lifetime."""
    if identity.ttl_secs is not None and identity.expires_at is None:
        return touched_at + identity.ttl_secs * 1000
    return identity.expires_at


def expiry_of(command: Create, ttl_secs: int | None, expires_at: int | None) -> int | None:
    """Return the absolute expiry of a new stream: the end of its TTL if that is fixed (§5.1)."""
    return command.now + ttl_secs * 1000 if command.fixed_ttl and ttl_secs is not None else expires_at


def told_ttl_secs(identity: Identity, now: int) -> int | None:
    """Return the TTL in a response to HEAD: the whole TTL if it slides, the rest if it is fixed (§5.5)."""
    if identity.ttl_secs is None or identity.expires_at is None:
        return identity.ttl_secs
    return max(0, -(-(identity.expires_at - now) // 1000))


def last_touch(written_at: int, started_at: int, now: int) -> int:
    """Return the time at which a loaded stream counts as used: the start of the server, or the last write since.

    A time in the future was taken before the clock was set back, so it is ignored.
    """
    return started_at if written_at > now else max(written_at, started_at)


def living_stream(view: View, name: bytes, now: int) -> StreamView:
    """Return the stream of a name, or raise the refusal: it does not exist, or has ended (§5.4)."""
    stream = view.stream(name)
    if stream is None:
        raise missing(view, name)
    if ended(stream.head, stream, now):
        raise end_error(stream.head, stream)
    return stream


def missing(view: View, name: bytes) -> NotFound:
    """Return the refusal of a name without a stream: its bucket may be missing too (002 §1.6)."""
    bucket_id = bucket_of(name)
    if bucket_id is not None and view.stream(bucket_record(bucket_id)) is None:
        return BucketNotFound(f"there is no bucket {quoted(bucket_id)}")
    return StreamNotFound(f"there is no stream at {quoted(name)}")


def ended(head: Head, stream: StreamView, now: int) -> bool:
    """Return whether the stream is soft-deleted or expired."""
    identity = head.identity
    if identity.ttl_secs is None and identity.expires_at is None:
        return head.deleted
    end = deadline(identity, stream.touched_at)
    if head.deleted or end is None or now < end:
        return head.deleted
    # A live reader counts as a use until it leaves, so a sliding TTL can't run out under it.
    return not identity.slides or not stream.followed


def end_error(head: Head, stream: StreamView) -> ProtocolError:
    """Return the refusal of a stream that has ended: 410 while forks still read it, 404 otherwise (§5.4)."""
    name = quoted(head.identity.name)
    if stream.fork_count:
        return StreamGone(f"the stream at {name} was deleted; forks of it live on")
    return StreamNotFound(f"there is no stream at {name}")


def decide_delete(view: View, command: Delete) -> Decision:
    """Delete a stream on request (§5.4)."""
    return Decision(Deleted(), end_of(view, living_stream(view, command.name, command.now)))


def decide_expire(view: View, command: Expire) -> Decision:
    """End a stream if it is expired and has not been ended before."""
    stream = view.stream(command.name)
    if stream is None or stream.head.deleted or not ended(stream.head, stream, command.now):
        return Decision(Untouched())
    return Decision(Deleted(), end_of(view, stream))


def end_of(view: View, stream: StreamView) -> Change:
    """Return the change that ends a stream: softly if forks read it, else with the sources that only it needed."""
    if stream.fork_count:
        return (Write(replace(stream.head, deleted=True)),)
    edits: list[Edit] = [Drop(stream.head)]
    fork = stream.head.identity.fork
    while fork and (source := view.stream(fork.source)):
        # The count still includes the fork that ends here.
        if not source.head.deleted or source.fork_count > 1:
            break
        edits.append(Drop(source.head))
        fork = source.head.identity.fork
    return tuple(edits)


def format_incarnation(identity: Identity, epoch: int) -> bytes:
    """Format `Stream-Incarnation`. It depends on the epoch of the store, so that a restore changes it."""
    return b"%x" % (identity.incarnation ^ epoch)


def require_incarnation(expected: bytes, identity: Identity, epoch: int) -> None:
    """Refuse a request that names another incarnation of the stream."""
    told = format_incarnation(identity, epoch)
    if expected.lower() != told:
        raise IncarnationMismatch(
            f"the stream has the incarnation {quoted(told)}, not {quoted(expected)}", ((b"Stream-Incarnation", told),)
        )
