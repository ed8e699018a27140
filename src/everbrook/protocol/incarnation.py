"""Incarnations (an extension): tell a stream from those that had its name before."""

from everbrook.protocol.errors import IncarnationMismatch, quoted
from everbrook.protocol.state import Identity


def format_incarnation(identity: Identity, epoch: int) -> bytes:
    """Write the value of `Stream-Incarnation`. It depends on the epoch of the store, so that a restore changes it."""
    return b"%x" % (identity.incarnation ^ epoch)


def require_incarnation(expected: bytes, identity: Identity, epoch: int) -> None:
    """Refuse a request that names another incarnation of the stream."""
    told = format_incarnation(identity, epoch)
    if expected.lower() != told:
        raise IncarnationMismatch(
            f"the stream has the incarnation {quoted(told)}, not {quoted(expected)}", ((b"Stream-Incarnation", told),)
        )
