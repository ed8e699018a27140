"""Creating a stream, or finding it as described (§5.1)."""

from everbrook.protocol.change import Change, Write
from everbrook.protocol.commands import Create, ForkFrom
from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE, parse_media_type
from everbrook.protocol.ending import end_of
from everbrook.protocol.errors import BadRequest, PathBlocked, StreamExists, quoted
from everbrook.protocol.forking import fork_identity, fork_of
from everbrook.protocol.lifetime import ended, expiry_of, missing
from everbrook.protocol.messages import pack
from everbrook.protocol.outcomes import Created, Decision, Existing
from everbrook.protocol.path import bucket_of, bucket_record, require_new_name
from everbrook.protocol.state import Fork, Head, Identity
from everbrook.protocol.view import StreamView, View


def decide_create(view: View, command: Create) -> Decision:
    """Decide on a creation: a new stream, the one that is there, or a conflict."""
    if command.ttl_secs is not None and command.expires_at is not None:
        raise BadRequest("send either Stream-TTL or Stream-Expires-At, not both")
    present = view.stream(command.name)
    if present is None:
        return _create(view, command, ())
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
    # The times of appends never go back, also from a source to its fork.
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
    """Give the bucket that a name is in. It must be there before its streams (002 §1.2)."""
    bucket_id = bucket_of(name)
    if bucket_id is None:
        return None
    bucket = view.stream(bucket_record(bucket_id))
    if bucket is None:
        raise missing(view, name)
    return bucket.head


def _require_same(view: View, present: StreamView, command: Create) -> None:
    """Compare configurations: content type, lifetime, closure, and where the stream branches off (§5.1, §4.2)."""
    head = present.head
    wanted = _wanted(view, head, command)
    differences = [
        word
        for word, same in (
            ("content type", wanted.media_type == head.identity.media_type),
            ("TTL", wanted.ttl_secs == head.identity.ttl_secs),
            # Where a TTL is fixed, the expiry follows from it, and from when the stream was created.
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
    """Give the identity that the command would create, were the name free.

    A request that made this very fork is recognised by what it asked for: its source may have grown or gone since.
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
