"""Buckets, subscriptions, and the lists of streams and buckets (§6, 002 §1)."""

from collections.abc import AsyncIterator, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec

from everbrook.client._async import parts
from everbrook.client._async.stream import AsyncStream
from everbrook.client._async.transport import AsyncTransport
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
    from everbrook.client.workers import AsyncHandler, AsyncWorker

T = TypeVar("T")


class AsyncBucket:
    """A handle of a bucket."""

    def __init__(self, transport: AsyncTransport, root: Root, name: str) -> None:
        self.name = name
        self._transport = transport
        self._root = root

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._root.url}>"

    async def create(self, *, retention: str | None = None, exist_ok: bool = True) -> bool:
        """Create the bucket, with a default retention for its streams. Returns whether it was created now."""
        headers = {"Stream-Retention": retention} if retention else {}
        attempts = self._transport.attempts(f"PUT {self._root.url}")
        try:
            await self._transport.request("PUT", self._root.url, headers=headers, attempts=attempts)
        except BucketExists:
            if not (exist_ok or attempts.uncertain):
                raise
            return False
        return True

    async def head(self) -> BucketInfo:
        """Describe the bucket."""
        response = await self._transport.request("GET", self._root.url)
        return decode_document(response.content, BucketInfo, self._root.url)

    async def delete(self) -> None:
        """Delete the bucket, which must be empty."""
        attempts = self._transport.attempts(f"DELETE {self._root.url}")
        try:
            await self._transport.request("DELETE", self._root.url, attempts=attempts)
        except BucketNotFound:
            if not attempts.uncertain:
                raise

    @overload
    def stream(self, name: str, *, content_type: str | None = None) -> AsyncStream[Any]: ...
    @overload
    def stream(self, name: str, *, type: type[T], content_type: str | None = None) -> AsyncStream[T]: ...
    def stream(self, name: str, *, type: Any = None, content_type: str | None = None) -> AsyncStream[Any]:
        """Return a handle of a stream in the bucket."""
        content_type = content_type or (JSON if type is not None else None)
        return AsyncStream(self._transport, self._root, name, Codec(type), content_type)

    def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[StreamInfo]:
        """List the streams of the bucket whose names begin with `prefix`, in order."""
        return list_streams(self._transport, self._root, prefix, after)

    async def changes(self, token: str | None = None, *, prefix: str = "") -> Changes:
        """List the streams of the bucket that changed since a `token` was given, or all of them."""
        return await list_changes(self._transport, self._root, token, prefix)

    def subscription(self, id: str) -> "AsyncSubscription":
        """Return a handle of a subscription to streams of the bucket."""
        return AsyncSubscription(self._transport, self._root, id)


_JSON = {"Content-Type": "application/json"}


class AsyncSubscription:
    """A handle of a subscription."""

    def __init__(self, transport: AsyncTransport, root: Root, id: str) -> None:
        self.id = id
        self._transport = transport
        self._root = root
        self._url = root.subscription(id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._url}>"

    async def create(
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
        response = await self._transport.request("PUT", self._url, headers=_JSON, content=body)
        return decode_document(response.content, SubscriptionInfo, self._url)

    async def read(self) -> SubscriptionInfo:
        """Describe the subscription: its configuration, and its streams with their acked offsets."""
        response = await self._transport.request("GET", self._url)
        return decode_document(response.content, SubscriptionInfo, self._url)

    async def delete(self) -> None:
        """Delete the subscription. Later requests of its workers are refused."""
        attempts = self._transport.attempts(f"DELETE {self._url}")
        try:
            await self._transport.request("DELETE", self._url, attempts=attempts)
        except SubscriptionNotFound:
            if not attempts.uncertain:
                raise

    async def add(self, *streams: str) -> None:
        """Link streams, from their tails on."""
        body = msgspec.json.encode({"streams": streams})
        await self._transport.request("POST", f"{self._url}/streams", headers=_JSON, content=body)

    async def remove(self, *streams: str) -> None:
        """Unlink streams."""
        for stream in streams:
            await self._transport.request("DELETE", self._root.linked(self.id, stream))

    async def worker(self, handler: "AsyncHandler", *, name: str | None = None) -> "AsyncWorker":
        """Make a worker that passes new messages to a function. Any number of workers may `run` at a time.

        It sends the token, headers and parameters of this client.
        """
        wake_stream = (await self.read()).wake_stream
        if wake_stream is None:
            raise ValueError(f"only a pull-wake subscription has workers, and {self.id!r} sends webhooks")
        return parts.AsyncWorker(self._root.url, self.id, wake_stream, handler, name=name, transport=self._transport)


async def list_streams(transport: AsyncTransport, root: Root, prefix: str, after: str) -> AsyncIterator[StreamInfo]:
    """List streams in the order of their names."""
    while True:
        page = await _streams(transport, root, {"prefix": prefix, "after": after})
        for stream in page.streams:
            yield stream
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


async def list_changes(transport: AsyncTransport, root: Root, token: str | None, prefix: str) -> Changes:
    """List the streams that changed since a token, or all streams with a token for the next time."""
    if token is None:
        return await _everything(transport, root, prefix)
    moved: list[StreamInfo] = []
    while True:
        page = await _streams(transport, root, {"prefix": prefix, "changed_since": token})
        moved += page.streams
        token = page.token
        if not page.has_more:
            return Changes(moved, token)


async def _everything(transport: AsyncTransport, root: Root, prefix: str) -> Changes:
    """List all streams, with the token of the first page, so that a change during the listing is not missed."""
    first = await _streams(transport, root, {"prefix": prefix})
    streams = list(first.streams)
    if first.has_more and first.next_cursor is not None:
        streams += [stream async for stream in list_streams(transport, root, prefix, first.next_cursor)]
    return Changes(streams, first.token)


async def list_buckets(transport: AsyncTransport, url: str, prefix: str) -> AsyncIterator[BucketInfo]:
    """List buckets in the order of their names."""
    after = ""
    while True:
        response = await transport.request("GET", url, query=_query(transport, {"prefix": prefix, "after": after}))
        page = decode_document(response.content, BucketPage, url)
        for bucket in page.buckets:
            yield bucket
        if not page.has_more or page.next_cursor is None:
            return
        after = page.next_cursor


async def _streams(transport: AsyncTransport, root: Root, query: dict[str, str]) -> StreamPage:
    url = root.control("streams")
    try:
        response = await transport.request("GET", url, query=_query(transport, query))
    except BucketNotFound:
        raise
    except NotFound as error:
        raise Unsupported(f"the server has no list of streams at {url}") from error
    return decode_document(response.content, StreamPage, url)


def _query(transport: AsyncTransport, given: dict[str, str]) -> dict[str, str]:
    limit = {"limit": str(transport.tuning.list_page_entries)}
    return {name: value for name, value in given.items() if value} | limit
