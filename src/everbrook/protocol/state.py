"""The state of a stream, and the changes that replace it.

A stream is an identity that never changes and a small head that each change replaces. A change is durable entirely or
not at all: a tuple of edits of one or several streams. Fork entries follow from the edits: writing the first head of a
fork enters it under its source, dropping it takes the entry out.

Times are milliseconds since the Unix epoch, positions are counts of stored bytes.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE, JSON

EMPTY_DIGEST = sha256().digest()


class Snapshot(Struct, frozen=True, gc=False):
    """What a stream's messages before `offset` add up to (002 §2).

    Its bytes are the blob of that number under the stream that published it, `owner`. One that a policy published in
    place of what it cut is empty and has none.
    """

    offset: int
    published_at: int
    content_type: bytes = DEFAULT_CONTENT_TYPE
    size: int = 0
    digest: bytes = EMPTY_DIGEST
    owner: int = 0
    blob: int = 0

    @property
    def automatic(self) -> bool:
        """Whether a retention policy published it."""
        return self.blob == 0


class Kept(Struct, frozen=True, gc=False):
    """What a stream still has of its past: everything from `earliest` on, and before that its snapshot (002 §2.2).

    Nothing is cut that a snapshot does not cover.
    """

    earliest: int = 0
    snapshot: Snapshot | None = None


WHOLE = Kept()


class Retention(Struct, frozen=True, gc=False):
    """How much of its past a stream keeps by itself. What is None has no bound."""

    max_age_secs: int | None = None
    max_bytes: int | None = None
    max_messages: int | None = None


class Fork(Struct, frozen=True, gc=False):
    """Where a stream branches off another one (§4.2).

    `offset` is the resolved divergence point. `anchor` and `sub_offset` are what was asked for, so that the same
    request made again is recognised. `kept` is what the source had of its past: the fork has it too.
    """

    source: bytes
    source_incarnation: int
    offset: int
    anchor: int | None = None
    sub_offset: int = 0
    kept: Kept = WHOLE


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
    retention: Retention | None = None

    @property
    def json(self) -> bool:
        """Whether the stream keeps JSON messages (§9.1)."""
        return self.media_type == JSON

    @property
    def mortal(self) -> bool:
        """Whether the stream, or what is in it, goes by itself (§5.1)."""
        return self.ttl_secs is not None or self.expires_at is not None or self.retention is not None

    @property
    def slides(self) -> bool:
        """Whether the lifetime of the stream begins anew with each use."""
        return self.ttl_secs is not None and self.expires_at is None

    @property
    def ages(self) -> bool:
        """Whether the messages of the stream go when they are old."""
        return self.retention is not None and self.retention.max_age_secs is not None

    @property
    def first_own_offset(self) -> int:
        """Where the stream's own bytes begin: what lies before is its source's."""
        return self.fork.offset if self.fork else 0

    @property
    def first_kept(self) -> Kept:
        """What the stream has of its past when it is new: what its source has, or everything."""
        return self.fork.kept if self.fork else WHOLE


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
    position: bytes | None = None
    """Where in its source the producer was after its last append, in words of its own, if it says so."""


class Head(Struct, frozen=True, gc=False):
    """A stream at one moment."""

    identity: Identity
    tail: int
    written_at: int
    closed: bool = False
    closed_by: Claim | None = None
    stream_seq: bytes | None = None
    deleted: bool = False
    kept: Kept = WHOLE


class Write(Struct, frozen=True, gc=False):
    """The stream's head becomes `head`, and `data` is appended to its bytes.

    `ends` are the offsets at which the messages in `data` end, the last being the new tail. `forgotten` are the
    producers whose state is not kept any longer. The first write of an incarnation has `created` set, one that changes
    what the stream keeps of its past has `cut`.
    """

    head: Head
    data: bytes = b""
    ends: Sequence[int] = ()
    producer_id: bytes | None = None
    producer: Producer | None = None
    forgotten: tuple[bytes, ...] = ()
    created: bool = False
    cut: bool = False


class Drop(Struct, frozen=True, gc=False):
    """The stream and its bytes are gone, and its name is free."""

    head: Head


Edit = Write | Drop
Change = tuple[Edit, ...]
