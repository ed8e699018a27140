"""Durable Streams for Python.

Everything below is loaded when it is first used, so that `import everbrook` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everbrook.client._async.bucket import AsyncBucket
    from everbrook.client._async.client import AsyncClient
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.stream import AsyncStream
    from everbrook.client._async.subscription import AsyncSubscription
    from everbrook.client._sync.bucket import Bucket
    from everbrook.client._sync.client import Client
    from everbrook.client._sync.materialise import Materialiser
    from everbrook.client._sync.producer import Producer
    from everbrook.client._sync.reader import Reader
    from everbrook.client._sync.stream import Stream
    from everbrook.client._sync.subscription import Subscription
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
    from everbrook.client.heads import Head, Snapshot, StreamInfo
    from everbrook.client.offsets import FileOffsets
    from everbrook.client.page import Page
    from everbrook.client.responses import DurableResponse, UIMessageResponse
    from everbrook.client.retry import Retry
    from everbrook.client.tee import record, tee
    from everbrook.protocol.dialects import Append, InvalidChange, Remove, Reset, Set
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

_PLACES = {
    "Append": "protocol.dialects",
    "AppendUncertain": "client.errors",
    "AsyncBucket": "client._async.bucket",
    "AsyncClient": "client._async.client",
    "AsyncMaterialiser": "client._async.materialise",
    "AsyncProducer": "client._async.producer",
    "AsyncReader": "client._async.reader",
    "AsyncStream": "client._async.stream",
    "AsyncSubscription": "client._async.subscription",
    "Bucket": "client._sync.bucket",
    "BucketNotFound": "protocol.errors",
    "Client": "client._sync.client",
    "ClientError": "client.errors",
    "Conflict": "protocol.errors",
    "ContentTypeMismatch": "protocol.errors",
    "DurableResponse": "client.responses",
    "FileOffsets": "client.offsets",
    "Forbidden": "protocol.errors",
    "Head": "client.heads",
    "InvalidAnswer": "client.errors",
    "InvalidChange": "protocol.dialects",
    "InvalidMessage": "client.errors",
    "InvalidOffset": "protocol.errors",
    "Materialiser": "client._sync.materialise",
    "NotAStream": "client.errors",
    "NotFound": "protocol.errors",
    "OffsetGone": "protocol.errors",
    "Page": "client.page",
    "PayloadTooLarge": "protocol.errors",
    "Producer": "client._sync.producer",
    "ProducerReused": "client.errors",
    "ProtocolError": "protocol.errors",
    "Reader": "client._sync.reader",
    "Remove": "protocol.dialects",
    "Reset": "protocol.dialects",
    "Retry": "client.retry",
    "SequenceGap": "protocol.errors",
    "SequenceRegression": "protocol.errors",
    "Set": "protocol.dialects",
    "Snapshot": "client.heads",
    "StaleEpoch": "protocol.errors",
    "Stream": "client._sync.stream",
    "StreamClosed": "protocol.errors",
    "StreamExists": "protocol.errors",
    "StreamGone": "protocol.errors",
    "StreamInfo": "client.heads",
    "StreamNotFound": "protocol.errors",
    "StreamRewound": "client.errors",
    "Subscription": "client._sync.subscription",
    "TailMoved": "protocol.errors",
    "UIMessageResponse": "client.responses",
    "Unauthorized": "protocol.errors",
    "Unavailable": "protocol.errors",
    "Unreachable": "client.errors",
    "Unsupported": "client.errors",
    "record": "client.tee",
    "tee": "client.tee",
}

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


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
