"""Forking: a stream that begins with another stream's bytes (§4.2).

Both share one offset space: what lies before the divergence point is the source's, what follows is the fork's own.
"""

from everbrook.protocol.commands import Create, ForkFrom
from everbrook.protocol.content_type import parse_media_type
from everbrook.protocol.errors import (
    ContentTypeMismatch,
    InvalidHeader,
    InvalidOffset,
    SnapshotBeyondFork,
    SourceDeleted,
    SourceNotFound,
    StreamGone,
    StreamNotFound,
    quoted,
)
from everbrook.protocol.lifetime import expiry_of, living_stream
from everbrook.protocol.offset import format_offset
from everbrook.protocol.path import bucket_of
from everbrook.protocol.reading import require_kept
from everbrook.protocol.state import Fork, Head, Identity, Kept
from everbrook.protocol.view import StreamView, View

MAX_SUB_OFFSET_DIGITS = 16


def parse_sub_offset(text: bytes) -> int:
    """Read `Stream-Fork-Sub-Offset`, a non-negative integer."""
    if not text.isdigit() or len(text) > MAX_SUB_OFFSET_DIGITS or (len(text) > 1 and text.startswith(b"0")):
        raise InvalidHeader(f"Stream-Fork-Sub-Offset must be a non-negative integer, got {quoted(text)}")
    return int(text)


def fork_identity(view: View, command: Create, request: ForkFrom) -> Identity:
    """Decide what a new fork is: where it branches off, and what it takes over from its source."""
    if bucket_of(request.source) != bucket_of(command.name):
        raise InvalidHeader(f"a fork stays in its source's bucket, which {quoted(request.source)} is not in")
    source = _living_source(view, request.source, command.now)
    own = source.head.identity
    offset = _divergence(source, request)
    kept = _inherited(source.head, offset)
    fork = Fork(request.source, own.incarnation, offset, request.offset, request.sub_offset, kept)
    return fork_of(own, command, fork)


def _inherited(source: Head, offset: int) -> Kept:
    """Give what a fork has of the past: what its source has, unless the snapshot covers more than the fork would."""
    earliest, snapshot = source.kept.earliest, source.kept.snapshot
    if snapshot is None or snapshot.offset <= offset:
        return source.kept
    if earliest:
        raise SnapshotBeyondFork(
            f"the source's snapshot covers more than the fork would have; fork at {snapshot.offset:016d} or later",
            ((b"Stream-Snapshot-Offset", format_offset(snapshot.offset)),),
        )
    return Kept()


def fork_of(source: Identity, command: Create, fork: Fork) -> Identity:
    """Give the identity of a fork: the source's content type, and its lifetime unless the command has its own."""
    sent = command.content_type
    if sent is not None and parse_media_type(sent) != source.media_type:
        raise ContentTypeMismatch(
            f"a fork has its source's content type, {quoted(source.content_type)}, got {quoted(sent)}"
        )
    inherits = command.ttl_secs is None and command.expires_at is None
    ttl_secs = source.ttl_secs if inherits else command.ttl_secs
    expires_at = source.expires_at if inherits and source.ttl_secs is None else command.expires_at
    return Identity(
        name=command.name,
        incarnation=command.incarnation,
        content_type=source.content_type,
        media_type=source.media_type,
        created_at=command.now,
        ttl_secs=ttl_secs,
        expires_at=expiry_of(command, ttl_secs, expires_at),
        fork=fork,
        retention=command.retention or source.retention,
    )


def _living_source(view: View, name: bytes, now: int) -> StreamView:
    try:
        return living_stream(view, name, now)
    except StreamNotFound:
        raise SourceNotFound(f"there is no stream at {quoted(name)} to fork from") from None
    except StreamGone:
        raise SourceDeleted(f"the stream at {quoted(name)} was deleted and cannot be forked") from None


def _divergence(source: StreamView, request: ForkFrom) -> int:
    tail = source.head.tail
    anchor = tail if request.offset is None else request.offset
    if anchor > tail:
        raise InvalidOffset(f"Stream-Fork-Offset is beyond the source's tail, {format_offset(tail).decode()}")
    require_kept(source.head, anchor)
    if anchor != tail and not source.is_boundary(anchor):
        raise InvalidOffset("Stream-Fork-Offset lies inside a message; use an offset that this server issued")
    if request.sub_offset == 0:
        return anchor
    if anchor == tail:
        raise InvalidHeader("Stream-Fork-Sub-Offset reaches past the source's tail")
    end = source.append_end(anchor)
    if source.head.identity.json:
        offset = _skip_messages(source, anchor, request.sub_offset, end)
    else:
        offset = anchor + request.sub_offset
    if offset > end:
        raise InvalidHeader(
            f"Stream-Fork-Sub-Offset reaches past the append that follows the anchor, got {request.sub_offset}"
        )
    return offset


def _skip_messages(source: StreamView, anchor: int, count: int, end: int) -> int:
    """Give the offset `count` messages after the anchor, or one past `end` if there are not as many."""
    offset = anchor
    for _ in range(count):
        if offset == end:
            return end + 1
        offset = source.boundary_after(offset)
    return offset
