"""Retention and snapshots: cuts of the beginning of a stream, and the snapshots in its place (002 §2).

The beginning is cut on request, by policy, or when a client publishes a snapshot of it. No cut passes the latest
snapshot that a client published. Without such a snapshot, a policy publishes an empty one at its cut, so that a
bootstrap is always complete (002 §3.4).
"""

import re
from base64 import b64decode, b64encode
from hashlib import sha256

from msgspec.structs import replace

from everbrook.protocol.commands import Cut, Decision, DeleteSnapshot, PublishSnapshot, Retain, Trim, Untouched
from everbrook.protocol.errors import (
    Forbidden,
    InvalidHeader,
    InvalidOffset,
    PreconditionFailed,
    RetentionBeyondSnapshot,
    SnapshotBeyondTail,
    SnapshotNeeded,
    SnapshotNotFound,
    SnapshotSuperseded,
    StreamNotFound,
    quoted,
)
from everbrook.protocol.lifetime import ended, living_stream
from everbrook.protocol.offset import format_offset
from everbrook.protocol.read import require_kept
from everbrook.protocol.state import Head, Kept, Retention, Snapshot, Write
from everbrook.protocol.view import Boundaries, StreamView, View

_NUMBER = re.compile(rb"[1-9][0-9]{0,14}")
_DIRECTIVES = {b"max-age": "max_age_secs", b"max-bytes": "max_bytes", b"max-messages": "max_messages"}


def parse_retention(text: bytes | None) -> Retention | None:
    """Parse `Stream-Retention`: `max-age=86400, max-bytes=1000000, max-messages=500`, or some of these bounds."""
    if text is None:
        return None
    bounds: dict[str, int] = {}
    for item in text.split(b","):
        name, _, value = item.strip(b" \t").partition(b"=")
        bound = _DIRECTIVES.get(name)
        if bound is None or bound in bounds or not _NUMBER.fullmatch(value):
            raise InvalidHeader(
                "Stream-Retention must be max-age, max-bytes and max-messages, each at most once and with a positive "
                f"number, such as 'max-age=86400, max-messages=500', got {quoted(text)}"
            )
        bounds[bound] = int(value)
    return Retention(**bounds)


def format_retention(retention: Retention) -> bytes:
    """Format a policy as the value of `Stream-Retention`."""
    bounds = ((name, getattr(retention, bound)) for name, bound in _DIRECTIVES.items())
    return b", ".join(b"%b=%d" % (name, value) for name, value in bounds if value is not None)


def decide_retain(view: View, command: Retain) -> Decision:
    """Cut the messages before an offset, if a snapshot covers them."""
    head = (stream := living_stream(view, command.name, command.now)).head
    require_kept(head, command.offset)
    snapshot = head.kept.snapshot
    if command.offset == head.kept.earliest:
        return Decision(Cut(head))
    if snapshot is None or command.offset > snapshot.offset:
        where = f"the latest one is at {snapshot.offset:016d}" if snapshot else "there is none"
        raise RetentionBeyondSnapshot(f"no snapshot covers the messages before {command.offset:016d}; {where}")
    if not stream.boundaries.is_boundary(command.offset):
        raise InvalidOffset(f"offset {command.offset:016d} lies inside a message; use one that this server issued")
    return cut(head, Kept(command.offset, snapshot))


def decide_trim(view: View, command: Trim) -> Decision:
    """Cut the messages that the stream's policy does not retain."""
    stream = view.stream(command.name)
    if stream is None or ended(stream.head, stream, command.now):
        return Decision(Untouched())
    head, policy = stream.head, stream.head.identity.retention
    if policy is None:
        return Decision(Untouched())
    snapshot = head.kept.snapshot
    earliest = _earliest(stream, policy, command.now)
    if snapshot and not snapshot.automatic:
        # A cut behind a client's snapshot would leave a gap in a bootstrap.
        earliest = min(earliest, snapshot.offset)
    else:
        # An empty snapshot at the cut makes a bootstrap from there complete (002 §3.4).
        snapshot = Snapshot(earliest, command.now)
    if earliest <= head.kept.earliest:
        return Decision(Untouched())
    return cut(head, Kept(earliest, snapshot))


def _earliest(stream: StreamView, retention: Retention, now: int) -> int:
    """Return the first offset of a stream for which every bound of its policy holds."""
    tail, earliest = stream.head.tail, stream.head.kept.earliest
    if retention.max_bytes is not None and tail - earliest > retention.max_bytes:
        earliest = _boundary_at_or_after(stream.boundaries, tail - retention.max_bytes)
    if retention.max_messages is not None and earliest < tail:
        earliest = stream.boundaries.seek(tail, -retention.max_messages, earliest)
    if retention.max_age_secs is not None and earliest < tail:
        earliest = stream.boundaries.first_since(earliest, tail, now - retention.max_age_secs * 1000)
    return earliest


def _boundary_at_or_after(boundaries: Boundaries, offset: int) -> int:
    return offset if boundaries.is_boundary(offset) else boundaries.boundary_after(offset)


_LONGEST_MS = 16
_SHA_256 = re.compile(rb"sha-256=:([A-Za-z0-9+/]{43}=):")


def parse_history(value: bytes | None) -> bool:
    """Parse `Stream-Snapshot-History`: whether the messages that the snapshot covers are kept."""
    if value not in {None, b"keep"}:
        raise InvalidHeader(f"Stream-Snapshot-History must be keep, got {quoted(value or b'')}")
    return value is not None


def parse_created_at(value: bytes | None) -> int | None:
    """Parse `Stream-Created-At-Ms`: it identifies one of the streams that have had this name."""
    if value is None or (value.isdigit() and len(value) <= _LONGEST_MS):
        return None if value is None else int(value)
    raise InvalidHeader(f"Stream-Created-At-Ms must be milliseconds since 1970, got {quoted(value)}")


def parse_digest(value: bytes | None) -> bytes | None:
    """Return the SHA-256 in a `Content-Digest` (RFC 9530 §2). Other digests are ignored."""
    match = _SHA_256.search(value or b"")
    if match is None and value and b"sha-256=" in value:
        raise InvalidHeader(f"Content-Digest must be sha-256=:<base64 of 32 bytes>:, got {quoted(value)}")
    return b64decode(match[1]) if match else None


def format_digest(digest: bytes) -> bytes:
    """Format a digest as the value of `Content-Digest` (RFC 9530 §2)."""
    return b"sha-256=:%b:" % b64encode(digest)


def format_snapshot_etag(snapshot: Snapshot) -> bytes:
    """Format the entity tag of a snapshot: its content, its content type and its offset."""
    content = sha256(snapshot.digest + snapshot.content_type).hexdigest()
    return b'"%016d-%b"' % (snapshot.offset, content.encode())


def decide_publish(view: View, command: PublishSnapshot) -> Decision:
    """Decide whether a blob becomes the stream's snapshot (002 §2.2)."""
    head = (stream := living_stream(view, command.name, command.now)).head
    kept = head.kept
    if command.blob and command.owner != head.identity.incarnation:
        raise StreamNotFound("the stream that the snapshot was made of was deleted while its bytes arrived")
    if command.created_at not in {None, head.identity.created_at}:
        raise StreamNotFound(f"the stream that was created at {command.created_at} is gone; this one is another")
    if command.offset > head.tail:
        raise SnapshotBeyondTail(
            f"offset {command.offset:016d} is beyond the tail", ((b"Stream-Next-Offset", format_offset(head.tail)),)
        )
    require_kept(head, command.offset)
    if command.offset != head.tail and not stream.boundaries.is_boundary(command.offset):
        raise InvalidOffset(f"offset {command.offset:016d} lies inside a message; use one that this server issued")
    _require_newest(kept.snapshot, command)
    if command.adds_only and (kept.earliest or not command.keep_history):
        # Without history this cuts messages. With it, the present snapshot, the only trace of the cut ones, is
        # replaced.
        raise Forbidden("publishing this snapshot cuts messages: that needs the right to delete from the stream")
    snapshot = Snapshot(
        command.offset,
        command.now,
        command.content_type,
        command.size,
        command.digest,
        command.owner,
        command.blob,
    )
    earliest = kept.earliest if command.keep_history else command.offset
    return cut(head, Kept(earliest, snapshot))


def cut(head: Head, kept: Kept) -> Decision:
    """Return the decision that a stream has another beginning, or another snapshot."""
    changed = replace(head, kept=kept)
    return Decision(Cut(changed), (Write(changed, cut=True),))


def _require_newest(present: Snapshot | None, command: PublishSnapshot) -> None:
    """Refuse to replace a newer snapshot, or one that is not the snapshot that the publisher expects."""
    if present and command.offset < present.offset:
        raise SnapshotSuperseded(
            f"there is a newer snapshot, at {present.offset:016d}",
            ((b"Stream-Snapshot-Offset", format_offset(present.offset)),),
        )
    expected = command.expected_etag
    found = format_snapshot_etag(present) if present else b""
    if expected is not None and expected != found and not (expected == b"*" and present):
        raise PreconditionFailed(f"the latest snapshot is {_named(found)}, not {_named(expected)}")


def _named(etag: bytes) -> str:
    return quoted(etag) if etag else "absent"


def find_snapshot(head: Head, offset: int | None) -> Snapshot:
    """Return the latest snapshot. It must be the one at `offset`, if that is given (002 §2.3, §2.5)."""
    snapshot = head.kept.snapshot
    if snapshot is None:
        raise SnapshotNotFound("the stream has no snapshot")
    if offset is not None and offset != snapshot.offset:
        raise SnapshotNotFound(
            f"there is no snapshot at {offset:016d}",
            ((b"Stream-Snapshot-Offset", format_offset(snapshot.offset)),),
        )
    return snapshot


def decide_delete_snapshot(view: View, command: DeleteSnapshot) -> Decision:
    """Delete the latest snapshot, if none of the messages that it covers was cut (002 §2.6)."""
    head = living_stream(view, command.name, command.now).head
    find_snapshot(head, command.offset)
    if head.kept.earliest:
        raise SnapshotNeeded("the stream begins with this snapshot: without it a bootstrap would be incomplete")
    return cut(head, Kept())
