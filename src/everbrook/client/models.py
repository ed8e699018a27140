"""Descriptions of streams, buckets, snapshots and subscriptions, and their decoding from responses."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from everbrook.client.errors import InvalidAnswer, NotAStream
from everbrook.client.tables.notebook import show_record, show_records


class Head(Struct, frozen=True):
    """A stream, as HEAD and PUT describe it. `offset` is its tail."""

    content_type: str
    offset: str
    closed: bool = False
    created: bool = False
    """Whether the request created the stream."""
    ttl_secs: int | None = None
    expires_at: datetime | None = None
    etag: str | None = None
    earliest_offset: str | None = None
    snapshot_offset: str | None = None
    retention: str | None = None
    incarnation: str = ""
    extensions: frozenset[str] = frozenset()

    _repr_html_ = show_record


class KnownProducer(Struct, frozen=True):
    """The state of a producer on the server."""

    epoch: int
    seq: int
    position: str | None


class ProducerHead(Struct, frozen=True):
    """A stream, as HEAD describes it to a producer."""

    content_type: str
    known: KnownProducer | None
    has_positions: bool
    """Whether the server returns the state of producers, including positions."""


class StreamInfo(Struct, frozen=True, omit_defaults=True):
    """A stream in a list. If its status is `Deleted`, the other fields except the name may be missing."""

    name: str = field(name="stream_id")
    status: str
    content_type: str = ""
    tail_offset: int = 0
    earliest_offset: int = 0
    snapshot_offset: int | None = None
    snapshot_bytes: int = 0
    snapshot_at_ms: int | None = None
    size_bytes: int = 0
    created_at_ms: int = 0
    last_write_at_ms: int = 0
    ttl_secs: int | None = None
    expires_at_ms: int | None = None
    incarnation: str = ""

    _repr_html_ = show_record

    @property
    def closed(self) -> bool:
        """Whether nothing can be appended any more."""
        return self.status == "Closed"


class Changes(Struct, frozen=True):
    """The streams that changed, and the token for the next request."""

    streams: list[StreamInfo]
    token: str

    def _repr_html_(self) -> str:
        return show_records(f"{len(self.streams)} streams", self.streams)


class StreamPage(Struct):
    """A page of a list of streams."""

    streams: list[StreamInfo]
    has_more: bool
    token: str = ""
    next_cursor: str | None = None


class BucketInfo(Struct, frozen=True, omit_defaults=True):
    """A bucket."""

    name: str = field(name="bucket_id")
    created_at_ms: int
    streams: int = 0
    retention: Any = None

    _repr_html_ = show_record


class BucketPage(Struct):
    """A page of the list of buckets."""

    buckets: list[BucketInfo]
    has_more: bool
    next_cursor: str | None = None


class Snapshot(Struct, frozen=True):
    """The state that results from the messages before `offset`."""

    offset: str
    data: bytes
    content_type: str
    etag: str | None = None


def head_of(headers: Mapping[str, str], *, created: bool = False) -> Head:
    """Read the description of a stream."""
    if "Stream-Next-Offset" not in headers:
        raise NotAStream("the response has no Stream-Next-Offset: is this the URL of a stream?")
    ttl, expires = headers.get("Stream-TTL"), headers.get("Stream-Expires-At")
    try:
        ttl_secs = int(ttl) if ttl else None
        expires_at = datetime.fromisoformat(expires) if expires else None
    except ValueError as error:
        raise InvalidAnswer(
            f"Stream-TTL must be a number and Stream-Expires-At a time, got {ttl!r} and {expires!r}"
        ) from error
    return Head(
        content_type=headers.get("Content-Type", ""),
        offset=headers["Stream-Next-Offset"],
        closed=headers.get("Stream-Closed", "").lower() == "true",
        created=created,
        ttl_secs=ttl_secs,
        expires_at=expires_at,
        etag=headers.get("ETag"),
        earliest_offset=headers.get("Stream-Earliest-Offset"),
        snapshot_offset=headers.get("Stream-Snapshot-Offset"),
        retention=headers.get("Stream-Retention"),
        incarnation=headers.get("Stream-Incarnation", ""),
        extensions=frozenset(headers.get("Stream-Extensions", "").replace(" ", "").split(",")) - {""},
    )


def producer_head_of(headers: Mapping[str, str]) -> ProducerHead:
    """Read the description of a stream, and of one of its producers."""
    head, epoch, seq = head_of(headers), headers.get("Producer-Epoch"), headers.get("Producer-Seq")
    has_positions = "producer-position" in head.extensions
    if epoch is None or seq is None:
        return ProducerHead(head.content_type, None, has_positions)
    try:
        known = KnownProducer(int(epoch), int(seq), headers.get("Producer-Position"))
    except ValueError as error:
        raise InvalidAnswer(f"Producer-Epoch and Producer-Seq must be numbers, got {epoch!r} and {seq!r}") from error
    return ProducerHead(head.content_type, known, has_positions)


class SubscriptionInfo(Struct, frozen=True):
    """A subscription, as the server describes it. `streams` are the linked streams with their acked offsets.

    `problem` is the code and message of what keeps the subscription from waking anybody, or None.
    """

    id: str
    type: str
    pattern: str | None = None
    streams: list[dict[str, Any]] = []
    webhook: dict[str, Any] | None = None
    wake_stream: str | None = None
    lease_ttl_ms: int = 0
    description: str | None = None
    status: str = ""
    created_at: str = ""
    problem: dict[str, Any] | None = None


def subscription_body(
    pattern: str | None,
    streams: Iterable[str],
    webhook: str | None,
    wake_stream: str | None,
    lease_ttl_ms: int | None,
    description: str | None,
) -> bytes:
    """Write the body of a request that creates a subscription."""
    if (webhook is None) == (wake_stream is None):
        raise ValueError(f"a subscription has either a webhook or a wake_stream, got {webhook=} and {wake_stream=}")
    given = {
        "type": "webhook" if webhook else "pull-wake",
        "pattern": pattern,
        "streams": list(streams) or None,
        "webhook": {"url": webhook} if webhook else None,
        "wake_stream": wake_stream,
        "lease_ttl_ms": lease_ttl_ms,
        "description": description,
    }
    return msgspec.json.encode({name: value for name, value in given.items() if value is not None})


T = TypeVar("T")


def decode_document(body: bytes, type_: type[T], where: object) -> T:
    """Read a document that came from a URL."""
    try:
        return msgspec.json.decode(body, type=type_)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"the response of {where} is not the expected JSON document: {error}") from error
