"""Durable Streams for Python.

Each name is loaded when it is first used, so that `import everbrook` is fast.
"""

from typing import TYPE_CHECKING

from everbrook.lazy_imports import lazy_imports

if TYPE_CHECKING:
    from everbrook.client._async.client import AsyncClient
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.resources import AsyncBucket, AsyncSubscription
    from everbrook.client._async.stream import AsyncStream
    from everbrook.client._sync.client import Client
    from everbrook.client._sync.materialise import Materialiser
    from everbrook.client._sync.producer import Producer
    from everbrook.client._sync.reader import Reader
    from everbrook.client._sync.resources import Bucket, Subscription
    from everbrook.client._sync.stream import Stream
    from everbrook.client.errors import (
        AppendUncertain,
        ClientError,
        InvalidAnswer,
        InvalidMessage,
        NotAStream,
        ProducerReused,
        StreamRewound,
        Unreachable,
        Unsupported,
    )
    from everbrook.client.models import Head, Snapshot, StreamInfo
    from everbrook.client.offsets import FileOffsets
    from everbrook.client.page import Page
    from everbrook.client.responses import DurableResponse, UIMessageResponse
    from everbrook.client.retry import Retry
    from everbrook.client.tee import record, tee
    from everbrook.protocol.errors import (
        BucketNotFound,
        Conflict,
        ContentTypeMismatch,
        Forbidden,
        InvalidOffset,
        NotFound,
        OffsetGone,
        PayloadTooLarge,
        ProtocolError,
        SequenceGap,
        SequenceRegression,
        StaleEpoch,
        StreamClosed,
        StreamExists,
        StreamGone,
        StreamNotFound,
        TailMoved,
        Unauthorized,
        Unavailable,
    )
    from everbrook.protocol.state_changes import Append, InvalidChange, Remove, Reset, Set

__all__ = [
    "Append",
    "AppendUncertain",
    "AsyncBucket",
    "AsyncClient",
    "AsyncMaterialiser",
    "AsyncProducer",
    "AsyncReader",
    "AsyncStream",
    "AsyncSubscription",
    "Bucket",
    "BucketNotFound",
    "Client",
    "ClientError",
    "Conflict",
    "ContentTypeMismatch",
    "DurableResponse",
    "FileOffsets",
    "Forbidden",
    "Head",
    "InvalidAnswer",
    "InvalidChange",
    "InvalidMessage",
    "InvalidOffset",
    "Materialiser",
    "NotAStream",
    "NotFound",
    "OffsetGone",
    "Page",
    "PayloadTooLarge",
    "Producer",
    "ProducerReused",
    "ProtocolError",
    "Reader",
    "Remove",
    "Reset",
    "Retry",
    "SequenceGap",
    "SequenceRegression",
    "Set",
    "Snapshot",
    "StaleEpoch",
    "Stream",
    "StreamClosed",
    "StreamExists",
    "StreamGone",
    "StreamInfo",
    "StreamNotFound",
    "StreamRewound",
    "Subscription",
    "TailMoved",
    "UIMessageResponse",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "Unsupported",
    "record",
    "tee",
]

__getattr__, __dir__ = lazy_imports(
    __name__,
    {
        ".client._async.client": "AsyncClient",
        ".client._async.materialise": "AsyncMaterialiser",
        ".client._async.producer": "AsyncProducer",
        ".client._async.reader": "AsyncReader",
        ".client._async.stream": "AsyncStream",
        ".client._async.resources": "AsyncBucket AsyncSubscription",
        ".client._sync.client": "Client",
        ".client._sync.materialise": "Materialiser",
        ".client._sync.producer": "Producer",
        ".client._sync.reader": "Reader",
        ".client._sync.stream": "Stream",
        ".client._sync.resources": "Bucket Subscription",
        ".client.errors": (
            "AppendUncertain ClientError InvalidAnswer InvalidMessage NotAStream ProducerReused "
            "StreamRewound Unreachable Unsupported"
        ),
        ".client.models": "Head Snapshot StreamInfo",
        ".client.offsets": "FileOffsets",
        ".client.page": "Page",
        ".client.responses": "DurableResponse UIMessageResponse",
        ".client.retry": "Retry",
        ".client.tee": "record tee",
        ".protocol.state_changes": "Append InvalidChange Remove Reset Set",
        ".protocol.errors": (
            "BucketNotFound Conflict ContentTypeMismatch Forbidden InvalidOffset NotFound OffsetGone "
            "PayloadTooLarge ProtocolError SequenceGap SequenceRegression StaleEpoch StreamClosed "
            "StreamExists StreamGone StreamNotFound TailMoved Unauthorized Unavailable"
        ),
    },
)
