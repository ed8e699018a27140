"""Commands, which are parsed requests, and outcomes, which are the results of commands that were not refused.

A command has the time at which it is decided. A duplicate is an outcome, not an error.
"""

from msgspec import Struct

from everbrook.protocol.json_mode import Split
from everbrook.protocol.state import Change, Claim, Head, Producer, Retention
from everbrook.protocol.subscriptions.subscription import Changed as SubscriptionChanged, Confirmed


class ForkFrom(Struct, frozen=True, gc=False):
    """The part of a creation that makes it a fork (§4.2). No offset means the source's tail."""

    source: bytes
    offset: int | None = None
    sub_offset: int = 0


class Create(Struct, frozen=True, gc=False):
    """Create a stream, or find it with the same configuration (§5.1). `incarnation` is that of a new stream.

    With `fixed_ttl` the TTL counts from the creation, and no use renews it.
    """

    name: bytes
    now: int
    incarnation: int
    content_type: bytes | None = None
    body: bytes = b""
    closed: bool = False
    ttl_secs: int | None = None
    expires_at: int | None = None
    fork: ForkFrom | None = None
    retention: Retention | None = None
    split: Split | None = None
    """The body as it is to be stored in JSON mode, if it is so large that it was split before."""
    fixed_ttl: bool = False


class Append(Struct, frozen=True, gc=False):
    """Append a body, close the stream, or both at once (§5.2, §5.3). The tail must be the expected one, if given."""

    name: bytes
    now: int
    content_type: bytes | None = None
    body: bytes = b""
    close: bool = False
    claim: Claim | None = None
    stream_seq: bytes | None = None
    expected_tail: int | None = None
    split: Split | None = None
    """The body as it is to be stored in JSON mode, if it is so large that it was split before."""
    position: bytes | None = None
    """The position of the producer in its source after this append, an opaque text."""
    resumes_from: bytes | None = None
    """The position that the producer expects to be stored: empty for none."""


class Delete(Struct, frozen=True, gc=False):
    """Delete a stream on request (§5.4)."""

    name: bytes
    now: int


class Expire(Struct, frozen=True, gc=False):
    """End an expired stream (§5.1)."""

    name: bytes
    now: int


class PublishSnapshot(Struct, frozen=True, gc=False):
    """Make a blob the snapshot of all messages before `offset`, and cut them unless `keep_history` is set (002 §2.2).

    `owner` is the incarnation for which the blob was uploaded. A command without a blob asks whether one could be
    published. `expected_etag` is the entity tag of the snapshot to replace: empty for none, `*` for any. `created_at`
    is the time at which the stream of the snapshot was created. A command that `adds_only` must remove nothing: no
    messages, and no snapshot that stands for messages that were cut.
    """

    name: bytes
    now: int
    offset: int
    content_type: bytes
    owner: int = 0
    blob: int = 0
    size: int = 0
    digest: bytes = b""
    keep_history: bool = False
    expected_etag: bytes | None = None
    created_at: int | None = None
    adds_only: bool = False


class DeleteSnapshot(Struct, frozen=True, gc=False):
    """Delete the snapshot at an offset (002 §2.6)."""

    name: bytes
    now: int
    offset: int


class Retain(Struct, frozen=True, gc=False):
    """Cut the messages before `offset`."""

    name: bytes
    now: int
    offset: int


class Trim(Struct, frozen=True, gc=False):
    """Cut the messages that the stream's policy does not retain."""

    name: bytes
    now: int


class CreateBucket(Struct, frozen=True, gc=False):
    """Create a bucket, with a policy for the streams in it that have none (002 §1.2)."""

    bucket_id: bytes
    now: int
    incarnation: int
    retention: Retention | None = None


class DeleteBucket(Struct, frozen=True, gc=False):
    """Delete a bucket that is empty (002 §1.5)."""

    bucket_id: bytes
    now: int


Command = (
    Create | Append | Delete | Expire | PublishSnapshot | DeleteSnapshot | Retain | Trim | CreateBucket | DeleteBucket
)


class Created(Struct, frozen=True, gc=False):
    """The stream is new."""

    head: Head


class Existing(Struct, frozen=True, gc=False):
    """The stream exists with the configuration of the command."""

    head: Head


class Appended(Struct, frozen=True, gc=False):
    """New bytes are in the stream. It may have been closed with them."""

    head: Head
    producer: Producer | None = None


class Closed(Struct, frozen=True, gc=False):
    """The stream is closed, by this command or before it, and has no new bytes."""

    head: Head
    producer: Producer | None = None


class Duplicate(Struct, frozen=True, gc=False):
    """The producer's append was in the stream already."""

    head: Head
    producer: Producer


class Deleted(Struct, frozen=True, gc=False):
    """The stream no longer exists at its URL."""


class Cut(Struct, frozen=True, gc=False):
    """The stream begins at another offset, or has another snapshot."""

    head: Head


class Untouched(Struct, frozen=True, gc=False):
    """The command changed nothing."""


Outcome = (
    Created | Existing | Appended | Closed | Duplicate | Deleted | Cut | Untouched | SubscriptionChanged | Confirmed
)


class Decision(Struct, frozen=True, gc=False):
    """An outcome, and the change that must be durable before the response is sent."""

    outcome: Outcome
    change: Change = ()
