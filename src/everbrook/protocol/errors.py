"""Refusals. Each knows its HTTP status, a stable code and its response headers; no table elsewhere maps them.

ProtocolError
├── BadRequest 400
│   ├── InvalidPath, InvalidHeader, InvalidQuery, InvalidOffset
│   ├── InvalidJson, EmptyAppend, MissingContentType
│   ├── EpochMustStartAtZero, DigestMismatch
│   └── InvalidRequest, WebhookUrlRejected
├── Unauthorized 401 ── TokenInvalid, TokenExpired
├── StaleEpoch 403
├── Forbidden 403
├── NotFound 404
│   ├── StreamNotFound, SourceNotFound, BucketNotFound, SnapshotNotFound
│   └── SubscriptionNotFound, BackupNotFound
├── MethodNotAllowed 405
├── RequestTimeout 408
├── Conflict 409
│   ├── StreamExists, StreamClosed, ContentTypeMismatch
│   ├── SequenceRegression, SequenceGap
│   ├── PathBlocked, SourceDeleted
│   ├── BucketExists, BucketNotEmpty
│   ├── SnapshotBeyondTail, SnapshotSuperseded, SnapshotNeeded, SnapshotBeyondFork
│   ├── RetentionBeyondSnapshot, NothingToBackUp
│   └── SubscriptionExists, Fenced, AlreadyClaimed, NoPendingWork, InvalidAck
├── StreamGone 410
├── OffsetGone 410
├── TokenGone 410
├── PreconditionFailed 412 ── TailMoved
├── PayloadTooLarge 413 ── BatchTooLarge, StreamFull, MemoryFull, StoreFull, BucketFull
├── UnsupportedCoding 415
├── TooManyRequests 429
├── TooManyProducers 429
├── HeadersTooLarge 431
├── StreamDamaged 500
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

    def __init_subclass__(cls) -> None:
        ProtocolError.by_code[cls.code] = cls

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.detail = detail
        self.headers = headers
        if self.retry_after_secs is not None:
            self.headers += ((b"Retry-After", b"%d" % self.retry_after_secs),)


class BadRequest(ProtocolError):
    """The request is malformed."""

    status = 400
    code = "bad_request"


class InvalidPath(BadRequest):
    """The URL path cannot name a stream."""

    code = "invalid_path"


class InvalidHeader(BadRequest):
    """A protocol header has a value outside its grammar."""

    code = "invalid_header"


class InvalidQuery(BadRequest):
    """A query parameter has a value outside its grammar."""

    code = "invalid_query"


class InvalidOffset(BadRequest):
    """The offset is malformed, or lies inside a message."""

    code = "invalid_offset"


class InvalidJson(BadRequest):
    """The body of an append to a JSON stream is not JSON."""

    code = "invalid_json"


class EmptyAppend(BadRequest):
    """An append carries nothing and does not close the stream (§5.2)."""

    code = "empty_append"


class MissingContentType(BadRequest):
    """A body came without a Content-Type (§5.2)."""

    code = "missing_content_type"


class EpochMustStartAtZero(BadRequest):
    """A producer opened a new epoch with another sequence than 0 (§5.2.1)."""

    code = "epoch_must_start_at_zero"


class DigestMismatch(BadRequest):
    """A body is not the one whose digest was announced."""

    code = "digest_mismatch"


class InvalidRequest(BadRequest):
    """A request about a subscription is malformed (§6.2)."""

    code = "INVALID_REQUEST"


class WebhookUrlRejected(BadRequest):
    """The server does not send to this URL (§12.8)."""

    code = "WEBHOOK_URL_REJECTED"


class Unauthorized(ProtocolError):
    """The request does not prove that it may do this."""

    status = 401
    code = "UNAUTHORIZED"

    def __init__(self, detail: str, headers: Headers = ()) -> None:
        super().__init__(detail, (*headers, (b"WWW-Authenticate", b"Bearer")))


class TokenInvalid(Unauthorized):
    """The token was not issued here, or for another subscription (§12.9)."""

    code = "TOKEN_INVALID"


class TokenExpired(Unauthorized):
    """The token was issued here, and its time is over (§12.9)."""

    code = "TOKEN_EXPIRED"


class StaleEpoch(ProtocolError):
    """The producer was fenced by a newer epoch (§5.2.1)."""

    status = 403
    code = "stale_epoch"


class Forbidden(ProtocolError):
    """Who asks is known, and may not do this."""

    status = 403
    code = "forbidden"


class NotFound(ProtocolError):
    """Nothing is at this URL."""

    status = 404
    code = "not_found"


class StreamNotFound(NotFound):
    """No stream is at this URL."""

    code = "stream_not_found"


class SourceNotFound(NotFound):
    """The stream to fork from does not exist (§4.2)."""

    code = "source_not_found"


class BucketNotFound(NotFound):
    """No bucket has this name (002 §1.6)."""

    code = "bucket_not_found"


class SnapshotNotFound(NotFound):
    """The stream has no such snapshot, or none any more (002 §2.5)."""

    code = "snapshot_not_found"


class SubscriptionNotFound(NotFound):
    """There is no such subscription (§6.3)."""

    code = "SUBSCRIPTION_NOT_FOUND"


class BackupNotFound(NotFound):
    """There is no such backup: it was released, its lease has ended, or the server was restarted."""

    code = "backup_not_found"


class MethodNotAllowed(ProtocolError):
    """The resource does not know this method."""

    status = 405
    code = "method_not_allowed"


class RequestTimeout(ProtocolError):
    """The request arrived too slowly."""

    status = 408
    code = "request_timeout"


class Conflict(ProtocolError):
    """The request contradicts the state of the stream."""

    status = 409
    code = "conflict"


class StreamExists(Conflict):
    """The stream exists with another configuration (§5.1)."""

    code = "stream_exists"


class StreamClosed(Conflict):
    """The stream is closed: no append can follow (§4.1)."""

    code = "stream_closed"


class ContentTypeMismatch(Conflict):
    """The content type is not the stream's (§5.2)."""

    code = "content_type_mismatch"


class SequenceRegression(Conflict):
    """Stream-Seq is not greater than the last one (§5.2)."""

    code = "sequence_regression"


class SequenceGap(Conflict):
    """Producer-Seq skips numbers: an earlier append is missing (§5.2.1)."""

    code = "sequence_gap"


class PathBlocked(Conflict):
    """The path belongs to a soft-deleted stream that forks still read (§4.2)."""

    code = "path_blocked"


class SourceDeleted(Conflict):
    """The stream to fork from is soft-deleted (§4.2)."""

    code = "source_deleted"


class BucketExists(Conflict):
    """There is a bucket of this name (002 §1.2)."""

    code = "bucket_exists"


class BucketNotEmpty(Conflict):
    """Streams are in the bucket (002 §1.5)."""

    code = "bucket_not_empty"


class SnapshotBeyondTail(Conflict):
    """A snapshot would cover what the stream does not have (002 §2.2)."""

    code = "snapshot_beyond_tail"


class SnapshotSuperseded(Conflict):
    """A snapshot of a later offset is there."""

    code = "snapshot_superseded"


class SnapshotNeeded(Conflict):
    """Without the snapshot a bootstrap would be incomplete (002 §2.6)."""

    code = "snapshot_needed"


class SnapshotBeyondFork(Conflict):
    """The source's snapshot covers more than the fork would have, and what it covers is not there by itself."""

    code = "snapshot_beyond_fork"


class RetentionBeyondSnapshot(Conflict):
    """What would be cut is covered by no snapshot (002 §3.4)."""

    code = "retention_beyond_snapshot"


class NothingToBackUp(Conflict):
    """The storage has no files that could be copied."""

    code = "nothing_to_back_up"


class SubscriptionExists(Conflict):
    """The subscription exists with another configuration (§6.2)."""

    code = "SUBSCRIPTION_ALREADY_EXISTS"


class Fenced(Conflict):
    """The wake is not the current one any more (§7.3)."""

    code = "FENCED"


class AlreadyClaimed(Conflict):
    """Another worker holds the lease (§7.2)."""

    code = "ALREADY_CLAIMED"

    def __init__(self, detail: str, headers: Headers = (), holder: str = "", generation: int = 0) -> None:
        super().__init__(detail, headers)
        self.holder = holder
        self.generation = generation


class NoPendingWork(Conflict):
    """There is nothing to claim (§7.2)."""

    code = "NO_PENDING_WORK"


class InvalidAck(Conflict):
    """An ack is of a stream that is not linked, moves back, or lies beyond the tail (§7)."""

    code = "INVALID_OFFSET"


class StreamGone(ProtocolError):
    """The stream is soft-deleted (§4.2)."""

    status = 410
    code = "stream_gone"


class OffsetGone(ProtocolError):
    """The offset lies before what the stream retains (002 §2.2)."""

    status = 410
    code = "offset_gone"


class TokenGone(ProtocolError):
    """What moved since the token of a listing was given is not known any more: list everything again."""

    status = 410
    code = "token_gone"


class PreconditionFailed(ProtocolError):
    """What the request was to rest on is not so any more (RFC 9110 §13)."""

    status = 412
    code = "precondition_failed"


class TailMoved(PreconditionFailed):
    """Others have appended since."""

    code = "tail_moved"


class PayloadTooLarge(ProtocolError):
    """The body is larger than the server accepts."""

    status = 413
    code = "payload_too_large"


class BatchTooLarge(PayloadTooLarge):
    """A JSON batch holds more values than the server splits at once."""

    code = "batch_too_large"


class StreamFull(PayloadTooLarge):
    """The append would make the stream larger than the server allows."""

    code = "stream_full"


class MemoryFull(PayloadTooLarge):
    """The append would make all streams together larger than the server allows."""

    code = "memory_full"


class StoreFull(PayloadTooLarge):
    """The change would make the whole store larger than the server allows."""

    code = "store_full"


class BucketFull(PayloadTooLarge):
    """The change would exceed the quota of its bucket."""

    code = "bucket_full"


class UnsupportedCoding(ProtocolError):
    """A body is packed; the server keeps bytes as they are and unpacks none."""

    status = 415
    code = "unsupported_coding"


class TooManyRequests(ProtocolError):
    """Somebody asks more often, sends more, or holds more open than one may."""

    status = 429
    code = "too_many_requests"

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int | None = None) -> None:
        """Say after how many seconds the same would pass, where that is known."""
        wait = () if wait_secs is None else ((b"Retry-After", b"%d" % wait_secs),)
        super().__init__(detail, (*headers, *wait))


class TooManyProducers(ProtocolError):
    """The stream knows as many producers as the server allows."""

    status = 429
    code = "too_many_producers"
    retry_after_secs = 60


class HeadersTooLarge(ProtocolError):
    """The request's header section is larger than the server accepts."""

    status = 431
    code = "headers_too_large"


class Unavailable(ProtocolError):
    """The server cannot do this now."""

    status = 503
    code = "unavailable"
    retry_after_secs = 5


class Overloaded(Unavailable):
    """More is asked of the server than it can do in good time; nothing of the request was done."""

    code = "overloaded"
    retry_after_secs = 1

    def __init__(self, detail: str, headers: Headers = (), wait_secs: int = 1) -> None:
        """Say after how many seconds it makes sense to try again."""
        self.retry_after_secs = wait_secs
        super().__init__(detail, headers)


class StreamDamaged(ProtocolError):
    """What is stored of the stream is not what was written."""

    status = 500
    code = "stream_damaged"


class VersionNotSupported(ProtocolError):
    """The request is in another version of HTTP."""

    status = 505
    code = "version_not_supported"
