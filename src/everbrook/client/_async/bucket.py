"""Buckets: streams that belong together, below a name of their own (002 §1)."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from everbrook.client._async import parts
from everbrook.client._async.listing import changes, list_streams
from everbrook.client._async.stream import AsyncStream
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.address import Root
from everbrook.client.content import JSON, Codec
from everbrook.client.documents import decode_document
from everbrook.client.models import BucketInfo, Changes, StreamInfo
from everbrook.protocol.errors import BucketExists, BucketNotFound

if TYPE_CHECKING:
    from everbrook.client._async.subscription import AsyncSubscription

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
        """Create the bucket, with a policy for its streams that have none. Tells whether it was not there before."""
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
        answer = await self._transport.request("GET", self._root.url)
        return decode_document(answer.content, BucketInfo, self._root.url)

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
    def stream(self, name: str, *, type: Any = None, content_type: str | None = None) -> AsyncStream[Any]:  # noqa: A002 - the word for it
        """Give a handle of a stream in the bucket."""
        content_type = content_type or (JSON if type is not None else None)
        return AsyncStream(self._transport, self._root, name, Codec(type), content_type)

    def list(self, prefix: str = "", *, after: str = "") -> AsyncIterator[StreamInfo]:
        """List the streams of the bucket whose names begin with `prefix`, in order."""
        return list_streams(self._transport, self._root, prefix, after)

    async def changes(self, token: str | None = None, *, prefix: str = "") -> Changes:
        """List the streams of the bucket that moved since a `token` was given, or all of them."""
        return await changes(self._transport, self._root, token, prefix)

    def subscription(self, id: str) -> "AsyncSubscription":  # noqa: A002 - the protocol's word
        """Give a handle of a subscription to streams of the bucket."""
        return parts.AsyncSubscription(self._transport, self._root, id)
