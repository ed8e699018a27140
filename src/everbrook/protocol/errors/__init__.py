"""Refusals. Each knows its HTTP status, a stable code and its response headers; no table elsewhere maps them.
Whoever imports one here has them all, so that each can be found by its code.

ProtocolError
├── BadRequest 400
│   ├── InvalidPath, InvalidHeader, InvalidQuery, InvalidOffset
│   ├── InvalidJson, EmptyAppend, MissingContentType
│   ├── EpochMustStartAtZero, PositionMissing, DigestMismatch
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
│   ├── PathBlocked, SourceDeleted, ForkTooDeep
│   ├── BucketExists, BucketNotEmpty
│   ├── SnapshotBeyondTail, SnapshotSuperseded, SnapshotNeeded, SnapshotBeyondFork
│   ├── RetentionBeyondSnapshot, NothingToBackUp
│   └── SubscriptionExists, Fenced, AlreadyClaimed, NoPendingWork, InvalidAck
├── StreamGone 410
├── OffsetGone 410
├── TokenGone 410
├── PreconditionFailed 412 ── TailMoved, PositionMoved, IncarnationMismatch
├── PayloadTooLarge 413
│   ├── BatchTooLarge, StreamFull, MemoryFull, StoreFull, BucketFull
│   └── WakeStreamFull, TooManySubscriptions
├── UnsupportedCoding 415
├── TooManyRequests 429
├── TooManyProducers 429
├── HeadersTooLarge 431
├── StreamDamaged 500
├── MethodNotImplemented 501
├── Unavailable 503 ── Overloaded
└── VersionNotSupported 505
"""

from everbrook.protocol.errors.backups import BackupNotFound, NothingToBackUp
from everbrook.protocol.errors.bounds import (
    BatchTooLarge,
    BucketFull,
    MemoryFull,
    StoreFull,
    StreamFull,
    TooManyProducers,
    TooManySubscriptions,
    WakeStreamFull,
)
from everbrook.protocol.errors.buckets import BucketExists, BucketNotEmpty, BucketNotFound, TokenGone
from everbrook.protocol.errors.families import (
    BadRequest,
    Conflict,
    Forbidden,
    HeadersTooLarge,
    MethodNotAllowed,
    MethodNotImplemented,
    NotFound,
    Overloaded,
    PayloadTooLarge,
    PreconditionFailed,
    RequestTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnsupportedCoding,
    VersionNotSupported,
)
from everbrook.protocol.errors.refusal import Headers, ProtocolError, quoted
from everbrook.protocol.errors.requests import (
    DigestMismatch,
    EmptyAppend,
    InvalidHeader,
    InvalidJson,
    InvalidOffset,
    InvalidPath,
    InvalidQuery,
    MissingContentType,
)
from everbrook.protocol.errors.snapshots import (
    RetentionBeyondSnapshot,
    SnapshotBeyondFork,
    SnapshotBeyondTail,
    SnapshotNeeded,
    SnapshotNotFound,
    SnapshotSuperseded,
)
from everbrook.protocol.errors.streams import (
    ContentTypeMismatch,
    EpochMustStartAtZero,
    ForkTooDeep,
    IncarnationMismatch,
    OffsetGone,
    PathBlocked,
    PositionMissing,
    PositionMoved,
    SequenceGap,
    SequenceRegression,
    SourceDeleted,
    SourceNotFound,
    StaleEpoch,
    StreamClosed,
    StreamDamaged,
    StreamExists,
    StreamGone,
    StreamNotFound,
    TailMoved,
)
from everbrook.protocol.errors.subscriptions import (
    AlreadyClaimed,
    Fenced,
    InvalidAck,
    InvalidRequest,
    NoPendingWork,
    SubscriptionExists,
    SubscriptionNotFound,
    TokenExpired,
    TokenInvalid,
    WebhookUrlRejected,
)

__all__ = [
    "AlreadyClaimed",
    "BackupNotFound",
    "BadRequest",
    "BatchTooLarge",
    "BucketExists",
    "BucketFull",
    "BucketNotEmpty",
    "BucketNotFound",
    "Conflict",
    "ContentTypeMismatch",
    "DigestMismatch",
    "EmptyAppend",
    "EpochMustStartAtZero",
    "Fenced",
    "Forbidden",
    "ForkTooDeep",
    "Headers",
    "HeadersTooLarge",
    "IncarnationMismatch",
    "InvalidAck",
    "InvalidHeader",
    "InvalidJson",
    "InvalidOffset",
    "InvalidPath",
    "InvalidQuery",
    "InvalidRequest",
    "MemoryFull",
    "MethodNotAllowed",
    "MethodNotImplemented",
    "MissingContentType",
    "NoPendingWork",
    "NotFound",
    "NothingToBackUp",
    "OffsetGone",
    "Overloaded",
    "PathBlocked",
    "PayloadTooLarge",
    "PositionMissing",
    "PositionMoved",
    "PreconditionFailed",
    "ProtocolError",
    "RequestTimeout",
    "RetentionBeyondSnapshot",
    "SequenceGap",
    "SequenceRegression",
    "SnapshotBeyondFork",
    "SnapshotBeyondTail",
    "SnapshotNeeded",
    "SnapshotNotFound",
    "SnapshotSuperseded",
    "SourceDeleted",
    "SourceNotFound",
    "StaleEpoch",
    "StoreFull",
    "StreamClosed",
    "StreamDamaged",
    "StreamExists",
    "StreamFull",
    "StreamGone",
    "StreamNotFound",
    "SubscriptionExists",
    "SubscriptionNotFound",
    "TailMoved",
    "TokenExpired",
    "TokenGone",
    "TokenInvalid",
    "TooManyProducers",
    "TooManyRequests",
    "TooManySubscriptions",
    "Unauthorized",
    "Unavailable",
    "UnsupportedCoding",
    "VersionNotSupported",
    "WakeStreamFull",
    "WebhookUrlRejected",
    "quoted",
]
