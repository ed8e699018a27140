"""The state of a stream: an identity that never changes, and a small head that each change replaces.

Times are milliseconds since the Unix epoch, positions are counts of stored bytes.
"""

from msgspec import Struct

from everbrook.protocol.content_type import JSON


class Fork(Struct, frozen=True, gc=False):
    """Where a stream branches off another one (§4.2).

    `offset` is the resolved divergence point. `anchor` and `sub_offset` are what was asked for, so that the same
    request made again is recognised.
    """

    source: bytes
    source_incarnation: int
    offset: int
    anchor: int | None = None
    sub_offset: int = 0


class Identity(Struct, frozen=True, gc=False):
    """What a stream is from its creation to its end. A re-created stream is another incarnation."""

    name: bytes
    incarnation: int
    content_type: bytes
    media_type: bytes
    created_at: int
    ttl_secs: int | None = None
    expires_at: int | None = None
    fork: Fork | None = None

    @property
    def json(self) -> bool:
        """Whether the stream keeps JSON messages (§9.1)."""
        return self.media_type == JSON

    @property
    def mortal(self) -> bool:
        """Whether the stream can expire (§5.1)."""
        return self.ttl_secs is not None or self.expires_at is not None

    @property
    def first_own_offset(self) -> int:
        """Where the stream's own bytes begin: what lies before is its source's."""
        return self.fork.offset if self.fork else 0


class Claim(Struct, frozen=True, gc=False):
    """What a producer says of its append: who it is, which epoch, which sequence (§5.2.1)."""

    producer_id: bytes
    epoch: int
    seq: int


class Producer(Struct, frozen=True, gc=False):
    """What a stream remembers of a producer: its epoch and the last sequence accepted in it (§5.2.1)."""

    epoch: int
    seq: int
    seen_at: int


class Head(Struct, frozen=True, gc=False):
    """A stream at one moment."""

    identity: Identity
    tail: int
    written_at: int
    closed: bool = False
    closed_by: Claim | None = None
    stream_seq: bytes | None = None
    deleted: bool = False
