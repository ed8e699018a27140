"""Refusals. Each has its HTTP status, a stable code and its response headers; no other table maps them.

ProtocolError
├── BadRequest 400 ── InvalidPath, InvalidHeader, InvalidQuery, InvalidOffset, InvalidJson, EmptyAppend,
│   MissingContentType, EpochMustStartAtZero, PositionMissing, DigestMismatch, InvalidRequest, WebhookUrlRejected
├── Unauthorized 401 ── TokenInvalid, TokenExpired
├── Forbidden 403, StaleEpoch 403
├── NotFound 404 ── StreamNotFound, SourceNotFound, BucketNotFound, SnapshotNotFound, SubscriptionNotFound,
│   BackupNotFound
├── MethodNotAllowed 405, RequestTimeout 408
├── Conflict 409 ── StreamExists, StreamClosed, ContentTypeMismatch, SequenceRegression, SequenceGap, PathBlocked,
│   SourceDeleted, ForkTooDeep, BucketExists, BucketNotEmpty, SnapshotBeyondTail, SnapshotSuperseded, SnapshotNeeded,
│   SnapshotBeyondFork, RetentionBeyondSnapshot, NothingToBackUp, SubscriptionExists, Fenced, AlreadyClaimed,
│   NoPendingWork, InvalidAck
├── StreamGone 410, OffsetGone 410, TokenGone 410
├── PreconditionFailed 412 ── TailMoved, PositionMoved, IncarnationMismatch
├── PayloadTooLarge 413 ── BatchTooLarge, StreamFull, MemoryFull, StoreFull, BucketFull, WakeStreamFull,
│   TooManySubscriptions
├── UnsupportedCoding 415, TooManyRequests 429, TooManyProducers 429, HeadersTooLarge 431
├── StreamDamaged 500, MethodNotImplemented 501
├── Unavailable 503 ── Overloaded
└── VersionNotSupported 505
"""

from typing import ClassVar

Headers = tuple[tuple[bytes, bytes], ...]

SHOWN_BYTES = 64


def quoted(text: bytes) -> str:
    """Show a client's bytes in an error message, bounded and printable."""
    shown = text[:SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(shown + ("…" if len(text) > SHOWN_BYTES else ""))


class ProtocolError(Exception):
    """A request was refused: `detail` says what was wrong, the value, and what was expected."""

    status: int = 500
    code: str = "internal_error"
    retry_after_secs: int | None = None
    by_code: ClassVar[dict[str, type["ProtocolError"]]] = {}

    def __init_subclass__(
        cls, *, code: str | None = None, status: int | None = None, retry_after_secs: int | None = None
    ) -> None:
        """Define a kind of refusal. It inherits what is left out; a subclass without a code has that of its parent."""
        if status is not None:
            cls.status = status
        if retry_after_secs is not None:
            cls.retry_after_secs = retry_after_secs
        if code is not None:
            cls.code = code
            ProtocolError.by_code[code] = cls

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers
        if self.retry_after_secs is not None:
            self.headers += ((b"Retry-After", b"%d" % self.retry_after_secs),)


# Any request: families of refusals that share a status, and refusals that HTTP itself requires.


class BadRequest(ProtocolError, status=400, code="bad_request"):
    """The request is malformed."""


class Unauthorized(ProtocolError, status=401, code="UNAUTHORIZED"):
    """The request has no valid credentials."""

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail, (*headers, (b"WWW-Authenticate", b"Bearer")))


class Forbidden(ProtocolError, status=403, code="forbidden"):
    """The client is authenticated, but lacks the right."""


class NotFound(ProtocolError, status=404, code="not_found"):
    """Nothing is at this URL."""


class MethodNotAllowed(ProtocolError, status=405, code="method_not_allowed"):
    """The resource does not know this method."""


class RequestTimeout(ProtocolError, status=408, code="request_timeout"):
    """The request arrived too slowly."""


class Conflict(ProtocolError, status=409, code="conflict"):
    """The request contradicts the state of the stream."""


class PreconditionFailed(ProtocolError, status=412, code="precondition_failed"):
    """A precondition of the request does not hold (RFC 9110 §13)."""


class PayloadTooLarge(ProtocolError, status=413, code="payload_too_large"):
    """The body is larger than the server accepts."""


class UnsupportedCoding(ProtocolError, status=415, code="unsupported_coding"):
    """Content-Encoding is not supported: the server stores bytes as they arrive."""


class TooManyRequests(ProtocolError, status=429, code="too_many_requests"):
    """The client exceeds a rate, or has too much open at once."""

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int | None = None) -> None:
        """`wait_secs` is the time after which the same request would pass, if it is known."""
        wait = () if wait_secs is None else ((b"Retry-After", b"%d" % wait_secs),)
        super().__init__(detail, (*headers, *wait))


class HeadersTooLarge(ProtocolError, status=431, code="headers_too_large"):
    """The request's header section is larger than the server accepts."""


class Unavailable(ProtocolError, status=503, code="unavailable", retry_after_secs=5):
    """The server cannot do this now."""


class Overloaded(Unavailable, code="overloaded", retry_after_secs=1):
    """Load shedding: the server would miss its deadline. No part of the request was executed."""

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int = 1) -> None:
        """`wait_secs` is the time after which a retry makes sense."""
        self.retry_after_secs = wait_secs
        super().__init__(detail, headers)


class MethodNotImplemented(ProtocolError, status=501, code="method_not_implemented"):
    """No resource of the server knows this method (RFC 9110 §9.1)."""


class VersionNotSupported(ProtocolError, status=505, code="version_not_supported"):
    """The request is in another version of HTTP."""


# Requests outside the grammar of the protocol.


class InvalidPath(BadRequest, code="invalid_path"):
    """The URL path cannot name a stream."""


class InvalidHeader(BadRequest, code="invalid_header"):
    """A protocol header has a value outside its grammar."""


class InvalidQuery(BadRequest, code="invalid_query"):
    """A query parameter has a value outside its grammar."""


class InvalidOffset(BadRequest, code="invalid_offset"):
    """The offset is malformed, or lies inside a message."""


class InvalidJson(BadRequest, code="invalid_json"):
    """The body of an append to a JSON stream is not JSON."""


class EmptyAppend(BadRequest, code="empty_append"):
    """An append has no body and does not close the stream (§5.2)."""


class MissingContentType(BadRequest, code="missing_content_type"):
    """A body has no Content-Type (§5.2)."""


class DigestMismatch(BadRequest, code="digest_mismatch"):
    """A body is not the one whose digest was announced."""


# The state of a stream, of the source of a fork, or of a producer.


class StreamNotFound(NotFound, code="stream_not_found"):
    """No stream is at this URL."""


class StreamGone(ProtocolError, status=410, code="stream_gone"):
    """The stream is soft-deleted (§4.2)."""


class StreamExists(Conflict, code="stream_exists"):
    """The stream exists with another configuration (§5.1)."""


class StreamClosed(Conflict, code="stream_closed"):
    """The stream is closed: no append can follow (§4.1)."""


class StreamDamaged(ProtocolError, status=500, code="stream_damaged"):
    """Stored bytes of the stream are missing or fail their checksum."""


class OffsetGone(ProtocolError, status=410, code="offset_gone"):
    """The offset lies before the first retained message (002 §2.2)."""


class ContentTypeMismatch(Conflict, code="content_type_mismatch"):
    """The content type differs from that of the stream (§5.2)."""


class SequenceRegression(Conflict, code="sequence_regression"):
    """Stream-Seq is not greater than the last one (§5.2)."""


class TailMoved(PreconditionFailed, code="tail_moved"):
    """The tail is not the expected one: others have appended since."""


class IncarnationMismatch(PreconditionFailed, code="incarnation_mismatch"):
    """The stream at this URL is not the one that the request names."""


class PositionMoved(PreconditionFailed, code="position_moved"):
    """The stored position of the producer is not the one from which the append continues."""


class PositionMissing(BadRequest, code="position_missing"):
    """The producer has a stored position, and its append has none."""


class PathBlocked(Conflict, code="path_blocked"):
    """The path belongs to a soft-deleted stream that forks still read (§4.2)."""


class SourceNotFound(NotFound, code="source_not_found"):
    """The source of the fork does not exist (§4.2)."""


class SourceDeleted(Conflict, code="source_deleted"):
    """The source of the fork is soft-deleted (§4.2)."""


class ForkTooDeep(Conflict, code="fork_too_deep"):
    """The chain of forks would be longer than the server allows."""


class EpochMustStartAtZero(BadRequest, code="epoch_must_start_at_zero"):
    """A producer opened a new epoch with another sequence than 0 (§5.2.1)."""


class StaleEpoch(ProtocolError, status=403, code="stale_epoch"):
    """The producer was fenced by a newer epoch (§5.2.1)."""


class SequenceGap(Conflict, code="sequence_gap"):
    """Producer-Seq skips numbers: an earlier append is missing (§5.2.1)."""


# Snapshots, and cuts that no snapshot covers.


class SnapshotNotFound(NotFound, code="snapshot_not_found"):
    """The stream does not have this snapshot, or no longer has it (002 §2.5)."""


class SnapshotBeyondTail(Conflict, code="snapshot_beyond_tail"):
    """The snapshot would cover bytes behind the tail (002 §2.2)."""


class SnapshotSuperseded(Conflict, code="snapshot_superseded"):
    """The stream has a snapshot of a later offset."""


class SnapshotNeeded(Conflict, code="snapshot_needed"):
    """Without the snapshot a bootstrap would be incomplete (002 §2.6)."""


class SnapshotBeyondFork(Conflict, code="snapshot_beyond_fork"):
    """The source's snapshot covers bytes behind the offset of the fork, and the bytes before it were cut."""


class RetentionBeyondSnapshot(Conflict, code="retention_beyond_snapshot"):
    """No snapshot covers the bytes that would be cut (002 §3.4)."""


# Buckets, and lists of streams.


class BucketNotFound(NotFound, code="bucket_not_found"):
    """No bucket has this name (002 §1.6)."""


class BucketExists(Conflict, code="bucket_exists"):
    """A bucket of this name exists (002 §1.2)."""


class BucketNotEmpty(Conflict, code="bucket_not_empty"):
    """Streams are in the bucket (002 §1.5)."""


class TokenGone(ProtocolError, status=410, code="token_gone"):
    """The changes since the token are not known any more: the client must list everything again."""


# Bounds of a batch, a stream, a bucket, the store.


class BatchTooLarge(PayloadTooLarge, code="batch_too_large"):
    """A JSON batch holds more values than the server splits at once."""


class StreamFull(PayloadTooLarge, code="stream_full"):
    """The append would make the stream larger than the server allows."""


class MemoryFull(PayloadTooLarge, code="memory_full"):
    """The append would make all streams together larger than the server allows."""


class StoreFull(PayloadTooLarge, code="store_full"):
    """The change would make the whole store larger than the server allows."""


class BucketFull(PayloadTooLarge, code="bucket_full"):
    """The change would exceed the quota of its bucket."""


class WakeStreamFull(PayloadTooLarge, code="wake_stream_full"):
    """A wake stream holds as many wakes as the server allows."""


class TooManySubscriptions(PayloadTooLarge, code="too_many_subscriptions"):
    """There are as many subscriptions as the server allows, in a bucket or on the base surface."""


class TooManyProducers(ProtocolError, status=429, code="too_many_producers", retry_after_secs=60):
    """The stream knows as many producers as the server allows."""


# Subscriptions.


class InvalidRequest(BadRequest, code="INVALID_REQUEST"):
    """A request about a subscription is malformed (§6.2)."""


class WebhookUrlRejected(BadRequest, code="WEBHOOK_URL_REJECTED"):
    """The server does not send to this URL (§12.8)."""


class TokenInvalid(Unauthorized, code="TOKEN_INVALID"):
    """The token was not issued here, or for another subscription (§12.9)."""


class TokenExpired(Unauthorized, code="TOKEN_EXPIRED"):
    """The token was issued here, and its time is over (§12.9)."""


class SubscriptionNotFound(NotFound, code="SUBSCRIPTION_NOT_FOUND"):
    """No subscription has this id (§6.3)."""


class SubscriptionExists(Conflict, code="SUBSCRIPTION_ALREADY_EXISTS"):
    """The subscription exists with another configuration (§6.2)."""


class Fenced(Conflict, code="FENCED"):
    """The wake is no longer the current one (§7.3)."""


class AlreadyClaimed(Conflict, code="ALREADY_CLAIMED"):
    """Another worker holds the lease (§7.2)."""

    def __init__(self, detail: str, headers: Headers = (), holder: str = "", generation: int = 0) -> None:
        super().__init__(detail, headers)
        self.holder = holder
        self.generation = generation


class NoPendingWork(Conflict, code="NO_PENDING_WORK"):
    """No stream of the subscription has news (§7.2)."""


class InvalidAck(Conflict, code="INVALID_OFFSET"):
    """An ack names a stream that is not linked, moves back, or lies beyond the tail (§7)."""


# Backups.


class BackupNotFound(NotFound, code="backup_not_found"):
    """The backup was released, its lease has ended, or the server was restarted."""


class NothingToBackUp(Conflict, code="nothing_to_back_up"):
    """The storage has no files that could be copied."""
