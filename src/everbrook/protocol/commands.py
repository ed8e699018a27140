"""Commands: what a request asks for, parsed, with the time at which it is decided."""

from msgspec import Struct

from everbrook.protocol.state import Claim


class ForkFrom(Struct, frozen=True, gc=False):
    """The part of a creation that makes it a fork (§4.2). No offset means the source's tail."""

    source: bytes
    offset: int | None = None
    sub_offset: int = 0


class Create(Struct, frozen=True, gc=False):
    """Create a stream, or find it as described (§5.1). `incarnation` is its identity if it becomes new."""

    name: bytes
    now: int
    incarnation: int
    content_type: bytes | None = None
    body: bytes = b""
    closed: bool = False
    ttl_secs: int | None = None
    expires_at: int | None = None
    fork: ForkFrom | None = None


class Append(Struct, frozen=True, gc=False):
    """Append a body, close the stream, or both at once (§5.2, §5.3)."""

    name: bytes
    now: int
    content_type: bytes | None = None
    body: bytes = b""
    close: bool = False
    claim: Claim | None = None
    stream_seq: bytes | None = None


class Delete(Struct, frozen=True, gc=False):
    """Delete a stream on its owner's wish (§5.4)."""

    name: bytes
    now: int


class Expire(Struct, frozen=True, gc=False):
    """End a stream whose time has run out (§5.1)."""

    name: bytes
    now: int


Command = Create | Append | Delete | Expire
