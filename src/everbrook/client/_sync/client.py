# Written by tools/mirror.py from src/everbrook/client/_async/client.py: change that file, not this one.
"""The client: streams, buckets, lists and subscriptions of one server.

    with Client() as client:
        print(client.stream("chat/1").read().all())

Making a handle sends no request.
"""

import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from everbrook.client._sync import parts
from everbrook.client._sync.stream import Stream
from everbrook.client._sync.transport import Transport, Value
from everbrook.client._sync.wire import Wire
from everbrook.client.address import parse_server
from everbrook.client.content import JSON, Codec
from everbrook.client.environment import server_url
from everbrook.client.models import BucketInfo, Changes, StreamInfo
from everbrook.client.retry import Retry
from everbrook.client.timeouts import DEFAULT_TUNING, ClientTuning

if TYPE_CHECKING:
    import httpx2

    from everbrook.client._sync.resources import Bucket, Subscription

T = TypeVar("T")


class Client:
    """A server. Close it when you are done, or use it as a context manager."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: Value | None = None,
        headers: Mapping[str, Value] | None = None,
        params: Mapping[str, Value] | None = None,
        http: "httpx2.Client | Wire | None" = None,
        retry: Retry | None = None,
        timeout_secs: float = 30.0,
        tuning: ClientTuning = DEFAULT_TUNING,
    ) -> None:
        """Speak to the server at `url`: its origin, or the URL of its stream root.

        `url` and `token` default to the variables EVERBROOK_URL and EVERBROOK_TOKEN. A `token` that is a function is
        called when it is first needed, and again when the server answers 401; functions in `headers` and `params` are
        called for every request. `http` sends the requests if it is given, and its owner closes it.
        """
        self._server = parse_server(server_url(url))
        self._transport = Transport(
            http,
            home=self._server.url,
            token=token or os.environ.get("EVERBROOK_TOKEN") or None,
            headers=headers or {},
            params=params or {},
            retry=retry or Retry(),
            timeout_secs=timeout_secs,
            tuning=tuning,
        )

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._server.url

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop recordings made with `tee`, each of which ends its stream with that, and close the connections."""
        self._transport.close()

    @overload
    def stream(self, name: str, *, content_type: str | None = None) -> Stream[Any]: ...
    @overload
    def stream(self, name: str, *, type: type[T], content_type: str | None = None) -> Stream[T]: ...
    def stream(self, name: str, *, type: Any = None, content_type: str | None = None) -> Stream[Any]:
        """Return a handle of a stream, named by its path below the stream root or by its URL. This sends no request.

        Messages are decoded into `type`, if one is given: a msgspec struct, a dataclass, a TypedDict, a pydantic model.
        """
        content_type = content_type or (JSON if type is not None else None)
        return Stream(self._transport, self._server.streams, name, Codec(type), content_type)

    def list(self, prefix: str = "", *, after: str = "") -> Iterator[StreamInfo]:
        """List the streams whose names begin with `prefix`, in order, beginning after the name `after`."""
        return parts.list_streams(self._transport, self._server.streams, prefix, after)

    def changes(self, token: str | None = None, *, prefix: str = "") -> Changes:
        """List the streams that changed since a `token` was given, or all of them. Pass the new token the next time."""
        return parts.list_changes(self._transport, self._server.streams, token, prefix)

    def bucket(self, name: str) -> "Bucket":
        """Return a handle of a bucket. This sends no request."""
        return parts.Bucket(self._transport, self._server.bucket(name), name)

    def buckets(self, prefix: str = "") -> Iterator[BucketInfo]:
        """List the buckets whose names begin with `prefix`, in order."""
        return parts.list_buckets(self._transport, self._server.buckets, prefix)

    def subscription(self, id: str) -> "Subscription":
        """Return a handle of a subscription to streams of the base surface."""
        return parts.Subscription(self._transport, self._server.streams, id)
