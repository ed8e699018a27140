"""Messages: turns a body into stored bytes with boundaries, and stored bytes into a body again.

A message is the unit of boundaries: one body in byte mode, one flattened element in JSON mode (§9.1).
"""

from collections.abc import Sequence

from everbrook.protocol.json_mode import Split, join_messages, join_part, joined_bytes, pack_messages
from everbrook.protocol.state import Identity


def pack(identity: Identity, body: bytes, tail: int, split: Split | None = None) -> tuple[bytes, Sequence[int]]:
    """Turn a body appended at `tail` into stored bytes and the offsets at which its messages end."""
    if not body:
        return b"", ()
    if identity.json:
        return split.pack(tail) if split else pack_messages(body, tail)
    return body, (tail + len(body),)


def unpack(identity: Identity, stored: bytes) -> bytes:
    """Turn a run of stored messages into the body of a response."""
    return join_messages(stored) if identity.json else stored


def unpacked_bytes(identity: Identity, stored_bytes: int) -> int:
    """Return the size of the body that a run of stored messages, which is not empty, becomes."""
    return joined_bytes(stored_bytes) if identity.json else stored_bytes


def unpack_part(identity: Identity, part: bytes, *, first: bool, last: bool) -> bytes:
    """Turn a part of a run of stored messages, cut anywhere, into the part of the body that it becomes."""
    return join_part(part, first=first, last=last) if identity.json else part
