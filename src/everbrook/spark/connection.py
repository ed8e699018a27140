"""Connections to a server: the requests of the source and the sinks, over connections that a process keeps.

Python workers of Spark live longer than tasks and micro-batches, and making a client costs more than a small batch
does. So equal options share one client for as long as the process lives.
"""

import atexit
import os
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from msgspec import Struct

from everbrook.client._sync.resources import list_changes
from everbrook.client._sync.stream import Stream
from everbrook.client._sync.transport import Transport
from everbrook.client._sync.wire import Response
from everbrook.client.address import parse_server
from everbrook.client.content import Codec
from everbrook.client.environment import server_url
from everbrook.client.errors import Unsupported
from everbrook.client.models import Changes, Head, ProducerHead, StreamPage, head_of, producer_head_of
from everbrook.client.retry import Retry
from everbrook.client.wire.request import ResponseLate
from everbrook.protocol.errors import BucketNotFound, NotFound
from everbrook.spark.http_pipeline import OK, Broken, PipelinedConnection, Request, open_pipeline, target_of
from everbrook.spark.options import ServerOptions

_SMALL_BYTES = 64 * 1024
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
_MANY = 4
"""From this number on, appends are pipelined over a connection of their own."""
_GROUP_POSTS, _GROUP_BYTES = 64, 1024 * 1024
_DUPLICATE = 204


class Post(Struct, frozen=True):
    """An append."""

    body: bytes
    headers: dict[str, str]

    def of_producer(self, producer_id: str, epoch: int, seq: int, positions: Mapping[str, str] | None = None) -> "Post":
        """Return the append with the headers of a producer (§5.2.1), and with its positions if it stores any."""
        claim = {"Producer-Id": producer_id, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
        return Post(self.body, {**self.headers, **claim, **(positions or {})})


class Connection:
    """A server, or a bucket of it. When it is sent to another process, it uses the connections of that process."""

    def __init__(self, opened: "_Opened", options: ServerOptions, bucket: str | None) -> None:
        server = parse_server(opened.url)
        self.transport = opened.transport
        self.root = server.streams if bucket is None else server.bucket(bucket)
        self._tls = opened.tls
        self._place = options, bucket

    def __reduce__(self) -> tuple[object, tuple[ServerOptions, str | None]]:
        return connect, self._place

    def stream(self, name: str, content_type: str | None = None) -> Stream[Any]:
        return Stream(self.transport, self.root, name, Codec[Any](), content_type)

    def changes(self, token: str | None, prefix: str) -> Changes:
        """List the streams that changed since a token, or all."""
        return list_changes(self.transport, self.root, token, prefix)

    def first(self, prefix: str) -> StreamPage:
        """List the first stream whose name begins with a prefix: the one of that name, if it exists."""
        query = {"prefix": prefix, "limit": "1"} if prefix else {"limit": "1"}
        try:
            response = self.transport.request("GET", self.root.control("streams"), query=query)
        except NotFound as error:
            if isinstance(error, BucketNotFound):
                raise
            raise Unsupported(f"the server can't list streams at {self.root.control('streams')}") from error
        return msgspec.json.decode(response.content, type=StreamPage)

    def head(self, name: str) -> Head:
        return self.stream(name).head()

    def producer(self, name: str, producer_id: str) -> ProducerHead:
        """Describe a stream, and one of its producers."""
        response = self.transport.request("HEAD", self.root.stream(name), headers={"Producer-Id": producer_id})
        return producer_head_of(response.headers)

    def look_up(self, name: str, query: Mapping[str, str], incarnation: str = "") -> str:
        """Return the offset that a query asks for, without reading messages. An incarnation may be required."""
        headers = {"Stream-Incarnation": incarnation} if incarnation else {}
        response = self.transport.request("HEAD", self.root.stream(name), query=query, headers=headers)
        return str(response.headers["Stream-Offset"])

    def wait(self, name: str, offset: str, secs: float) -> Head | None:
        """Wait for messages after an offset, and return the new end. None if none came in time."""
        query = {"offset": offset, "live": "long-poll"}
        try:
            with self.transport.open("GET", self.root.stream(name), query=query, timeout_secs=secs) as response:
                if int(response.headers.get("Content-Length", _SMALL_BYTES + 1)) <= _SMALL_BYTES:
                    response.read()  # a connection with an unread body can't be reused
                head = head_of(response.headers)
                return head if head.offset != offset or head.closed else None
        except ResponseLate:
            return None

    def pipeline(self) -> PipelinedConnection | None:
        """Open a connection for many small reads, if that is possible."""
        return open_pipeline(self.root.url, self._tls, self.transport.timeout_secs)

    def frames_target(self, name: str, offset: str, until: str) -> str:
        """Return the target of the request for the first page of a range."""
        query = {"format": "frames", "offset": offset, "until": until}
        return target_of(self.root.stream(name), query)

    def post(self, name: str, content: bytes | None, headers: Mapping[str, str]) -> Response:
        """Append as a producer. It is safe to retry: the server recognises a duplicate."""
        return self.transport.request("POST", self.root.stream(name), headers=headers, content=content)

    def post_all(self, name: str, posts: Sequence[Post]) -> bool:
        """Append as a producer, in this order, and return whether the server had none of the appends."""
        statuses = list(self._post_pipelined(name, posts)) if len(posts) >= _MANY else []
        statuses += [self.post(name, post.body, post.headers).status_code for post in posts[len(statuses) :]]
        return _DUPLICATE not in statuses

    def _post_pipelined(self, name: str, posts: Sequence[Post]) -> Iterator[int]:
        """Pipeline appends until one is refused. The caller sends that one and the rest with the general client."""
        pipeline = self.pipeline()
        if pipeline is None:
            return
        target = target_of(self.root.stream(name), {}).rstrip("?")
        # Appends of a producer must arrive in order, so all of them go over one connection.
        with closing(pipeline), suppress(Broken):
            for group in _grouped(posts):
                requests = [Request(target, post.headers, post.body, "POST") for post in group]
                for response in pipeline.send(requests, self.transport.credentials):
                    if response.status not in {OK, _DUPLICATE}:
                        return
                    yield response.status


# Groups are small: a group is sent before any of its responses is read, and both sides have finite buffers.
def _grouped(posts: Sequence[Post]) -> Iterator[list[Post]]:
    group: list[Post] = []
    for post in posts:
        if len(group) == _GROUP_POSTS or (group and sum(len(each.body) for each in group) > _GROUP_BYTES):
            yield group
            group = []
        group.append(post)
    yield group


def connect(options: ServerOptions, bucket: str | None = None) -> Connection:
    """Return the connection of this process to a server."""
    pid = os.getpid()
    if (pid, options) not in _open:
        _open[pid, options] = _Opened(options)
    return Connection(_open[pid, options], options, bucket)


class _Opened:
    """The connections of a process to one server. A forked process must not use those of its parent."""

    def __init__(self, options: ServerOptions) -> None:
        self.url = server_url(options.url)
        self.tls = _tls(options) if self.url.startswith("https:") else None
        self.http = httpx2.Client(verify=self.tls or False, limits=_LIMITS)
        self.transport = Transport(
            self.http,
            home=self.url,
            token=_token_of(options),
            # Tasks are near their server, or many: to compress pages takes longer than to send them.
            headers={"accept-encoding": "identity", **dict(options.headers)},
            params={},
            retry=Retry(),
            timeout_secs=options.timeout_secs,
        )


_open: dict[tuple[int, ServerOptions], _Opened] = {}


def disconnect() -> None:
    for pid, options in list(_open):
        opened = _open.pop((pid, options))
        if pid == os.getpid():
            opened.http.close()


atexit.register(disconnect)


def _token_of(options: ServerOptions) -> Any:
    if options.token_file is not None:
        path = Path(options.token_file)
        return lambda: path.read_text().strip()  # read again when the server refuses the token
    return options.token or os.environ.get("EVERBROOK_TOKEN") or None


def _tls(options: ServerOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=options.ca_file)
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.cert_file is not None:
        context.load_cert_chain(options.cert_file, options.key_file)
    return context
