"""The creation of streams, forks and buckets (§5.1, §4.2, 002 §1).

A creation makes a new stream, finds the existing one with the same configuration, or is refused. A fork begins with the
bytes of another stream and shares its offsets: bytes before the divergence point belong to the source, later ones to
the fork. A bucket is created before its first stream, and can be deleted when it has none.
"""

from everbrook.protocol.commands import (
    Create,
    CreateBucket,
    Created,
    Decision,
    DeleteBucket,
    Deleted,
    Existing,
    ForkFrom,
)
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE, JSON, parse_media_type
from everbrook.protocol.errors import (
    BadRequest,
    BucketExists,
    BucketNotEmpty,
    BucketNotFound,
    ContentTypeMismatch,
    InvalidHeader,
    InvalidOffset,
    PathBlocked,
    SnapshotBeyondFork,
    SourceDeleted,
    SourceNotFound,
    StreamExists,
    StreamGone,
    StreamNotFound,
    quoted,
)
from everbrook.protocol.lifetime import end_of, ended, expiry_of, living_stream, missing
from everbrook.protocol.messages import pack
from everbrook.protocol.offset import format_offset
from everbrook.protocol.path import bucket_of, bucket_prefix, bucket_record, require_new_name
from everbrook.protocol.read import require_kept
from everbrook.protocol.state import Change, Drop, Fork, Head, Identity, Kept, Write
from everbrook.protocol.view import Boundaries, StreamView, View


def decide_create(view: View, command: Create) -> Decision:
    """Decide on a creation: a new stream, the existing one, or a conflict."""
    if command.ttl_secs is not None and command.expires_at is not None:
        raise BadRequest("send either Stream-TTL or Stream-Expires-At, not both")
    present = view.stream(command.name)
    if present is None:
        return _create(view, command, ())
    # An expired stream that has not been removed yet does not block its name, unless forks need it.
    if ended(present.head, present, command.now):
        if present.fork_count:
            raise PathBlocked(f"{quoted(command.name)} was deleted, but forks still read it: the path is not free")
        return _create(view, command, end_of(view, present))
    _require_same(view, present, command)
    return Decision(Existing(present.head))


def _create(view: View, command: Create, cleared: Change) -> Decision:
    require_new_name(command.name)
    identity = _identity(view, command)
    start = identity.first_own_offset
    data, ends = pack(identity, command.body, start, command.split)
    source = view.stream(identity.fork.source) if identity.fork else None
    # The times of appends never decrease, not even from a source to its fork: reads by time search the whole lineage.
    written_at = max(command.now, source.head.written_at) if source else command.now
    head = Head(identity, start + len(data), written_at, command.closed, kept=identity.first_kept)
    return Decision(Created(head), (*cleared, Write(head, data, ends, created=True)))


def _identity(view: View, command: Create) -> Identity:
    bucket = _bucket(view, command.name)
    if command.fork:
        return fork_identity(view, command, command.fork)
    content_type = command.content_type or DEFAULT_CONTENT_TYPE
    return Identity(
        name=command.name,
        incarnation=command.incarnation,
        content_type=content_type,
        media_type=parse_media_type(content_type),
        created_at=command.now,
        ttl_secs=command.ttl_secs,
        expires_at=expiry_of(command, command.ttl_secs, command.expires_at),
        retention=command.retention or (bucket.identity.retention if bucket else None),
    )


def _bucket(view: View, name: bytes) -> Head | None:
    """Return the bucket of a name; None on the base surface. A bucket must exist before its streams (002 §1.2)."""
    bucket_id = bucket_of(name)
    if bucket_id is None:
        return None
    bucket = view.stream(bucket_record(bucket_id))
    if bucket is None:
        raise missing(view, name)
    return bucket.head


def _require_same(view: View, present: StreamView, command: Create) -> None:
    """Require the same configuration: content type, lifetime, closure, retention and divergence point (§5.1, §4.2)."""
    head = present.head
    wanted = _wanted(view, head, command)
    differences = [
        word
        for word, same in (
            ("content type", wanted.media_type == head.identity.media_type),
            ("TTL", wanted.ttl_secs == head.identity.ttl_secs),
            # The expiry of a fixed TTL follows from the time of creation, which differs in a repeated request.
            ("expiry", wanted.ttl_secs is not None or wanted.expires_at == head.identity.expires_at),
            ("fork", _same_fork(wanted, head.identity)),
            ("retention", wanted.retention == head.identity.retention),
            ("closure", command.closed == head.closed),
        )
        if not same
    ]
    if differences:
        raise StreamExists(f"the stream exists with another {', '.join(differences)}")


def _wanted(view: View, head: Head, command: Create) -> Identity:
    """Return the identity that the command would create if the name were free.

    A repeated request for this fork is recognised by its parameters, because the source may have grown or ended since.
    """
    present, request = head.identity, command.fork
    if present.fork and request and _made_by(present.fork, request):
        source = view.stream(request.source)
        return fork_of(source.head.identity if source else present, command, present.fork)
    return _identity(view, command)


def _made_by(fork: Fork, request: ForkFrom) -> bool:
    asked = (request.offset, request.sub_offset)
    return fork.source == request.source and asked in {(fork.anchor, fork.sub_offset), (fork.offset, 0)}


def _same_fork(wanted: Identity, present: Identity) -> bool:
    if wanted.fork is None or present.fork is None:
        return wanted.fork is present.fork
    return (wanted.fork.source, wanted.fork.offset) == (present.fork.source, present.fork.offset)


MAX_SUB_OFFSET_DIGITS = 16


def parse_sub_offset(text: bytes) -> int:
    """Parse `Stream-Fork-Sub-Offset`, a non-negative integer."""
    if not text.isdigit() or len(text) > MAX_SUB_OFFSET_DIGITS or (len(text) > 1 and text.startswith(b"0")):
        raise InvalidHeader(f"Stream-Fork-Sub-Offset must be a non-negative integer, got {quoted(text)}")
    return int(text)


def fork_identity(view: View, command: Create, request: ForkFrom) -> Identity:
    """Return the identity of a new fork: its divergence point, and the properties that it inherits."""
    if bucket_of(request.source) != bucket_of(command.name):
        raise InvalidHeader(f"a fork stays in its source's bucket, which {quoted(request.source)} is not in")
    source = _living_source(view, request.source, command.now)
    own = source.head.identity
    offset = _divergence(source, request)
    kept = _inherited(source.head, offset)
    fork = Fork(request.source, own.incarnation, offset, request.offset, request.sub_offset, kept)
    return fork_of(own, command, fork)


def _inherited(source: Head, offset: int) -> Kept:
    """Return the `Kept` of a new fork: that of its source, unless the snapshot covers bytes behind its offset."""
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
    """Return the identity of a fork: it inherits the content type, and the lifetime unless the command has one."""
    sent = command.content_type
    if sent is not None and parse_media_type(sent) != source.media_type:
        raise ContentTypeMismatch(
            f"a fork has its source's content type, {quoted(source.content_type)}, got {quoted(sent)}"
        )
    # An inherited TTL counts from the creation of the fork, an inherited absolute expiry is the same moment.
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
    if anchor != tail and not source.boundaries.is_boundary(anchor):
        raise InvalidOffset("Stream-Fork-Offset lies inside a message; use an offset that this server issued")
    if request.sub_offset == 0:
        return anchor
    if anchor == tail:
        raise InvalidHeader("Stream-Fork-Sub-Offset reaches past the source's tail")
    # A sub-offset must stay within the append that follows the anchor (§4.2).
    end = source.boundaries.append_end(anchor)
    if source.head.identity.json:
        offset = _skip_messages(source.boundaries, anchor, request.sub_offset, end)
    else:
        offset = anchor + request.sub_offset
    if offset > end:
        raise InvalidHeader(
            f"Stream-Fork-Sub-Offset reaches past the append that follows the anchor, got {request.sub_offset}"
        )
    return offset


def _skip_messages(boundaries: Boundaries, anchor: int, count: int, end: int) -> int:
    """Return the offset `count` messages after the anchor, or `end` + 1 if there are fewer messages before `end`."""
    offset = anchor
    for _ in range(count):
        if offset == end:
            return end + 1
        offset = boundaries.boundary_after(offset)
    return offset


def decide_create_bucket(view: View, command: CreateBucket) -> Decision:
    """Create a bucket (002 §1.2)."""
    name = bucket_record(command.bucket_id)
    if view.stream(name):
        raise BucketExists(f"the bucket {quoted(command.bucket_id)} exists")
    head = Head(
        Identity(name, command.incarnation, JSON, JSON, command.now, retention=command.retention), 0, command.now
    )
    return Decision(Created(head), (Write(head, created=True),))


def decide_delete_bucket(view: View, command: DeleteBucket) -> Decision:
    """Delete a bucket without streams (002 §1.5)."""
    bucket = view.stream(bucket_record(command.bucket_id))
    if bucket is None:
        raise BucketNotFound(f"there is no bucket {quoted(command.bucket_id)}")
    if view.populated(bucket_prefix(command.bucket_id)):
        raise BucketNotEmpty(f"streams are in the bucket {quoted(command.bucket_id)}; delete them first")
    return Decision(Deleted(), (Drop(bucket.head),))
