"""Incarnations (ours): which of the streams that had a name, one after the other, an answer or a request is about."""

from everbrook.protocol.errors import IncarnationMismatch, quoted
from everbrook.protocol.state import Identity


def format_incarnation(identity: Identity, epoch: int) -> bytes:
    """Name a stream. `epoch` is that of the store: a restore brings back streams that are not what they were."""
    return b"%x" % (identity.incarnation ^ epoch)


def require_incarnation(expected: bytes, identity: Identity, epoch: int) -> None:
    """Refuse a request that is meant for another stream which had, or has, this name."""
    told = format_incarnation(identity, epoch)
    if expected.lower() != told:
        raise IncarnationMismatch(
            f"the stream has the incarnation {quoted(told)}, not {quoted(expected)}", ((b"Stream-Incarnation", told),)
        )
