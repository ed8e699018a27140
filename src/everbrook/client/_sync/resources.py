# Written by tools/mirror.py from src/everbrook/client/_async/resources.py: change that file, not this one.
"""Buckets, subscriptions, and the lists of streams and buckets (§6, 002 §1)."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from everbrook.client._sync import parts
from everbrook.client._sync.stream import Stream
from everbrook.client._sync.transport import Transport
from everbrook.client.address import Root
from everbrook.client.content import JSON, Codec
from everbrook.client.errors import Unsupported
from everbrook.client.models import (
    BucketInfo,
    BucketPage,
    Changes,
    StreamInfo,
    StreamPage,
    SubscriptionInfo,
    decode_document,
    subscription_body,
)
from everbrook.protocol.errors import BucketExists, BucketNotFound, NotFound, SubscriptionNotFound

if TYPE_CHECKING:
    from everbrook.client.workers import Handler, Worker

T = TypeVar("T")


class Bucket:
    """A handle of a bucket."""

    def __init__(self, transport: Transport, root: Root, name: str) -> None:
        self.name = name
        self._transport = transport
        self._root = root

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._root.url}>"

    def create(self, *, retention: str | None = None, exist_ok: bool = True) -> bool:
        """Create the bucket, with a default retention for its streams. Returns whether it was created now."""
        headers = {"Stream-Retention": retention} if retention else {}
        attempts = self._transport.attempts(f"PUT {self._root.url}")
        try:
            self._transport.request("PUT", self._root.url, headers=headers, attempts=attempts)
        except BucketExists:
            if not (exist_ok or attempts.uncertain):
                raise
            return False
        return True

    def head(self) -> BucketInfo:
        """Describe the bucket."""
        response = self._transport.request("GET", self._root.url)
        return decode_document(response.content, BucketInfo, self._root.url)

    def delete(self) -> None:
        """Delete the bucket, which must be empty."""
        attempts = self._transport.attempts(f"DELETE {self._root.url}")
        try:
            self._transport.request("DELETE", self._root.url, attempts=attempts)
        except BucketNotFound:
            if not attempts.uncertain:
                raise

    @overload
    def stream(self, name: str, *, content_type: str | None = None) -> Stream[Any]: ...
    @overload
    def stream(self, name: str, *, type: type[T], content_type: str | None = None) -> Stream[T]: ...
    def stream(self, name: str, *, type: Any = None, content_type: str | None = None) -> Stream[Any]:
        """Return a handle of a stream in the bucket."""
        content_type = content_type or (JSON if type is not None else None)
        return Stream(self._transport, self._root, name, Codec(type), content_type)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[StreamInfo]:
        """List the streams of the bucket whose names begin with `prefix`, in order."""
        return list_streams(self._transport, self._root, prefix, after)

    def changes(self, token: str | None = None, *, prefix: str = "") -> Changes:
        """List the streams of the bucket that changed since a `token` was given, or all of them."""
        return list_changes(self._transport, self._root, token, prefix)

    def subscription(self, id: str) -> "Subscription":
        """Return a handle of a subscription to streams of the bucket."""
        return Subscription(self._transport, self._root, id)


_JSON = {"Content-Type": "application/json"}


class Subscription:
    """A handle of a subscription."""

    def __init__(self, transport: Transport, root: Root, id: str) -> None:
        self.id = id
        self._transport = transport
        self._root = root
        self._url = root.subscription(id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._url}>"

    def create(
        self,
        *,
        pattern: str | None = None,
        streams: Iterable[str] = (),
        webhook: str | None = None,
        wake_stream: str | None = None,
        lease_ttl_ms: int | None = None,
        description: str | None = None,
    ) -> SubscriptionInfo:
        """Subscribe to streams that match `pattern`, or are named.

        Wakes are sent to the URL `webhook`, or to workers that watch `wake_stream`, which must exist.
        """
        body = subscription_body(pattern, streams, webhook, wake_stream, lease_ttl_ms, description)
        response = self._transport.request("PUT", self._url, headers=_JSON, content=body)
        return decode_document(response.content, SubscriptionInfo, self._url)

    def read(self) -> SubscriptionInfo:
        """Describe the subscription: its configuration, and its streams with their acked offsets."""
        response = self._transport.request("GET", self._url)
        return decode_document(response.content, SubscriptionInfo, self._url)

    def delete(self) -> None:
        """Delete the subscription. Later requests of its workers are refused."""
        attempts = self._transport.attempts(f"DELETE {self._url}")
        try:
            self._transport.request("DELETE", self._url, attempts=attempts)
        except SubscriptionNotFound:
            if not attempts.uncertain:
                raise

    def add(self, *streams: str) -> None:
        """Link streams, from their tails on."""
        body = msgspec.json.encode({"streams": streams})
        self._transport.request("POST", f"{self._url}/streams", headers=_JSON, content=body)

    def remove(self, *streams: str) -> None:
        """Unlink streams."""
        for stream in streams:
            self._transport.request("DELETE", self._root.linked(self.id, stream))

    def worker(self, handler: "Handler", *, name: str | None = None) -> "Worker":
        """Make a worker that passes new messages to a function. Any number of workers may `run` at a time.

        It sends the token, headers and parameters of this client.
        """
        wake_stream = self.read().wake_stream
        if wake_stream is None:
            raise ValueError(f"only a pull-wake subscription has workers, and {self.id!r} sends webhooks")
        return parts.Worker(self._root.url, self.id, wake_stream, handler, name=name, transport=self._transport)


def list_streams(transport: Transport, root: Root, prefix: str, after: str) -> Iterator[StreamInfo]:
    """List streams in the order of their names."""
    while True:
        page = _streams(transport, root, {"prefix": prefix, "after": after})
        yield from page.streams
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


def list_changes(transport: Transport, root: Root, token: str | None, prefix: str) -> Changes:
    """List the streams that changed since a token, or all streams with a token for the next time."""
    if token is None:
        return _everything(transport, root, prefix)
    moved: list[StreamInfo] = []
    while True:
        page = _streams(transport, root, {"prefix": prefix, "changed_since": token})
        moved += page.streams
        token = page.token
        if not page.has_more:
            return Changes(moved, token)


def _everything(transport: Transport, root: Root, prefix: str) -> Changes:
    """List all streams, with the token of the first page, so that a change during the listing is not missed."""
    first = _streams(transport, root, {"prefix": prefix})
    streams = list(first.streams)
    if first.has_more and first.next_cursor is not None:
        streams += list(list_streams(transport, root, prefix, first.next_cursor))
    return Changes(streams, first.token)


def list_buckets(transport: Transport, url: str, prefix: str) -> Iterator[BucketInfo]:
    """List buckets in the order of their names."""
    after = ""
    while True:
        response = transport.request("GET", url, query=_query(transport, {"prefix": prefix, "after": after}))
        page = decode_document(response.content, BucketPage, url)
        yield from page.buckets
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


def _streams(transport: Transport, root: Root, query: dict[str, str]) -> StreamPage:
    url = root.control("streams")
    try:
        response = transport.request("GET", url, query=_query(transport, query))
    except BucketNotFound:
        raise
    except NotFound as error:
        raise Unsupported(f"the server has no list of streams at {url}") from error
    return decode_document(response.content, StreamPage, url)


def _query(transport: Transport, given: dict[str, str]) -> dict[str, str]:
    limit = {"limit": str(transport.tuning.list_page_entries)}
    return {name: value for name, value in given.items() if value} | limit
