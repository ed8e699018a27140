"""The state of a stream, and the changes that replace it.

A stream has an identity that never changes, and a small head that each change replaces. A change is a tuple of edits of
one or several streams; it is durable entirely or not at all. The list of a stream's forks follows from the edits: the
first write of a fork adds it to its source, its drop removes it.

Times are milliseconds since the Unix epoch, positions are counts of stored bytes.
"""

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from everbrook.protocol.content_type import DEFAULT_CONTENT_TYPE, JSON

EMPTY_DIGEST = sha256().digest()


class Snapshot(Struct, frozen=True, gc=False):
    """A snapshot, which stands for the messages before `offset` (002 §2).

    Its bytes are blob number `blob` of the stream that published it, `owner`. A snapshot that a policy published in
    place of the messages that it cut is empty and has no blob.
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
        """Whether a retention policy has published it."""
        return self.blob == 0


class Kept(Struct, frozen=True, gc=False):
    """The retained part of a stream: the messages from `earliest` on, and the snapshot for those before (002 §2.2).

    Only messages that a snapshot covers are cut.
    """

    earliest: int = 0
    snapshot: Snapshot | None = None


WHOLE = Kept()


class Retention(Struct, frozen=True, gc=False):
    """A retention policy. None means that there is no such bound."""

    max_age_secs: int | None = None
    max_bytes: int | None = None
    max_messages: int | None = None


class Fork(Struct, frozen=True, gc=False):
    """The divergence of a stream from another one (§4.2).

    `offset` is the resolved divergence point. `anchor` and `sub_offset` are the parameters of the request, by which a
    repeated request is recognised. `kept` is the `Kept` of the source at the time, with which the fork began.
    """

    source: bytes
    source_incarnation: int
    offset: int
    anchor: int | None = None
    sub_offset: int = 0
    kept: Kept = WHOLE


class Identity(Struct, frozen=True, gc=False):
    """The immutable part of a stream. A re-created stream is another incarnation."""

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
        """Whether the stream is in JSON mode (§9.1)."""
        return self.media_type == JSON

    @property
    def mortal(self) -> bool:
        """Whether the stream, or its messages, are removed after a time or by a policy (§5.1)."""
        return self.ttl_secs is not None or self.expires_at is not None or self.retention is not None

    @property
    def slides(self) -> bool:
        """Whether each use renews the TTL of the stream."""
        return self.ttl_secs is not None and self.expires_at is None

    @property
    def ages(self) -> bool:
        """Whether the policy of the stream removes messages by their age."""
        return self.retention is not None and self.retention.max_age_secs is not None

    @property
    def first_own_offset(self) -> int:
        """The offset at which the stream's own bytes begin. Bytes before it belong to its source."""
        return self.fork.offset if self.fork else 0

    @property
    def first_kept(self) -> Kept:
        """The `Kept` of the new stream: that of its source, or `WHOLE`."""
        return self.fork.kept if self.fork else WHOLE


class Claim(Struct, frozen=True, gc=False):
    """The producer headers of an append: id, epoch and sequence number (§5.2.1)."""

    producer_id: bytes
    epoch: int
    seq: int


class Producer(Struct, frozen=True, gc=False):
    """The state of a producer in a stream: its epoch, and the last sequence number accepted in it (§5.2.1)."""

    epoch: int
    seq: int
    seen_at: int
    position: bytes | None = None
    """The position of the producer in its source after its last append, an opaque text; None if it sends none."""


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
    """Replace the head of a stream by `head`, and append `data` to its bytes.

    `ends` are the offsets at which the messages in `data` end, the last one being the new tail. `forgotten` are the
    producers whose state is removed. `created` is set in the first write of an incarnation, `cut` in a write that
    changes `head.kept`.
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
    """Remove a stream and its bytes. Its name is free afterwards."""

    head: Head


Edit = Write | Drop
Change = tuple[Edit, ...]
