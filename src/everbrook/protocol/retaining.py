"""Retention: letting go of the beginning of a stream, on wish or by policy.

No cut passes the latest snapshot that a client published. Where there is none, a policy publishes an empty one at its
cut, so that a bootstrap is whole all the same (002 §3.4).
"""

import re

from everbrook.protocol.commands import Retain, Trim
from everbrook.protocol.errors import InvalidHeader, InvalidOffset, RetentionBeyondSnapshot, quoted
from everbrook.protocol.lifetime import ended, living_stream
from everbrook.protocol.outcomes import Cut, Decision, Untouched
from everbrook.protocol.reading import require_kept
from everbrook.protocol.snapshots import cut
from everbrook.protocol.state import Kept, Retention, Snapshot
from everbrook.protocol.view import StreamView, View

_NUMBER = re.compile(rb"[1-9][0-9]{0,14}")
_DIRECTIVES = {b"max-age": "max_age_secs", b"max-bytes": "max_bytes", b"max-messages": "max_messages"}


def parse_retention(text: bytes | None) -> Retention | None:
    """Read `Stream-Retention`: `max-age=86400, max-bytes=1000000, max-messages=500`, or some of them."""
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
    """Write a policy as the value of `Stream-Retention`."""
    bounds = ((name, getattr(retention, bound)) for name, bound in _DIRECTIVES.items())
    return b", ".join(b"%b=%d" % (name, value) for name, value in bounds if value is not None)


def decide_retain(view: View, command: Retain) -> Decision:
    """Let go of what lies before an offset, if a snapshot covers it."""
    head = (stream := living_stream(view, command.name, command.now)).head
    require_kept(head, command.offset)
    snapshot = head.kept.snapshot
    if command.offset == head.kept.earliest:
        return Decision(Cut(head))
    if snapshot is None or command.offset > snapshot.offset:
        where = f"the latest one is at {snapshot.offset:016d}" if snapshot else "there is none"
        raise RetentionBeyondSnapshot(f"what lies before {command.offset:016d} is not covered by a snapshot; {where}")
    if not stream.is_boundary(command.offset):
        raise InvalidOffset(f"offset {command.offset:016d} lies inside a message; use one that this server issued")
    return cut(head, Kept(command.offset, snapshot))


def decide_trim(view: View, command: Trim) -> Decision:
    """Let go of what a stream's policy does not retain."""
    stream = view.stream(command.name)
    if stream is None or ended(stream.head, stream, command.now):
        return Decision(Untouched())
    head, policy = stream.head, stream.head.identity.retention
    if policy is None:
        return Decision(Untouched())
    snapshot = head.kept.snapshot
    earliest = _earliest(stream, policy, command.now)
    if snapshot and not snapshot.automatic:
        earliest = min(earliest, snapshot.offset)
    else:
        snapshot = Snapshot(earliest, command.now)
    if earliest <= head.kept.earliest:
        return Decision(Untouched())
    return cut(head, Kept(earliest, snapshot))


def _earliest(stream: StreamView, retention: Retention, now: int) -> int:
    """Give where a stream begins when every bound of its policy holds."""
    tail, earliest = stream.head.tail, stream.head.kept.earliest
    if retention.max_bytes is not None and tail - earliest > retention.max_bytes:
        earliest = _boundary_at_or_after(stream, tail - retention.max_bytes)
    if retention.max_messages is not None and earliest < tail:
        earliest = stream.seek(tail, -retention.max_messages, earliest)
    if retention.max_age_secs is not None and earliest < tail:
        earliest = stream.first_since(earliest, tail, now - retention.max_age_secs * 1000)
    return earliest


def _boundary_at_or_after(stream: StreamView, offset: int) -> int:
    return offset if stream.is_boundary(offset) else stream.boundary_after(offset)
