"""A handle of a stream, from its creation to its deletion.

    stream = client.stream("chat/1")
    await stream.create()
    await stream.append({"role": "user", "text": "Hello"})
    async for message in stream.follow():
        print(message)

Reads resume after broken connections. To write exactly once, use a producer.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from everbrook.client._async import parts
from everbrook.client._async.appender import MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, AsyncAppender, offset_of
from everbrook.client._async.concurrency import iterate
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.address import Root
from everbrook.client.content import JSON, Codec, content_type_for, join, kind_of
from everbrook.client.models import Head, ProducerHead, Snapshot, head_of, producer_head_of
from everbrook.client.page import BEGINNING
from everbrook.client.parameters import Lifetime, Moment, creation_headers, path_of, start_query
from everbrook.client.tables.notebook import format_record
from everbrook.protocol.errors import NotFound, OffsetGone, StreamExists, StreamGone, StreamNotFound

if TYPE_CHECKING:
    from everbrook.client._async.materialise import AsyncMaterialiser
    from everbrook.client._async.producer import AsyncProducer
    from everbrook.client._async.reader import AsyncReader
    from everbrook.client._async.snapshots import AsyncSnapshots, Bootstrap
    from everbrook.client.offsets import Offsets
    from everbrook.client.production import Batching
    from everbrook.client.read_state import Mode
    from everbrook.client.tables.forms import Columns
    from everbrook.client.tables.table import Table
    from everbrook.protocol.frames import Frames
    from everbrook.protocol.state_changes import InvalidChange

T = TypeVar("T")

_CREATED = 201
NOTHING: Any = object()
"""The default of parameters for which None is a value."""


class AsyncStream(Generic[T]):
    """A handle of a stream. It holds no connection, and making one sends no request."""

    def __init__(
        self, transport: AsyncTransport, root: Root, name: str, codec: Codec[T], content_type: str | None = None
    ) -> None:
        """Make a handle of the stream `name` below `root`. An unknown content type is requested when it is needed."""
        self.name = name
        self.url = root.stream(name)
        self._transport = transport
        self._root = root
        self._codec = codec
        self._content_type = content_type
        self._appender = AsyncAppender(transport, self.url)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"

    def _repr_html_(self) -> str:
        """Show the handle in a notebook, without a request."""
        known = {"name": self.name, "url": self.url, "content_type": self._content_type}
        return format_record(type(self).__name__, known)

    # From its creation to its end

    async def create(
        self,
        *,
        content_type: str | None = None,
        ttl_secs: Lifetime | None = None,
        expires_at: Moment | None = None,
        closed: bool = False,
        data: Any = NOTHING,
        retention: str | None = None,
        exist_ok: bool = True,
    ) -> Head:
        """Create the stream, of JSON by default. If it exists with the same configuration, that is no error."""
        chosen = content_type or self._content_type or (JSON if data is NOTHING else content_type_for(data))
        headers = creation_headers(chosen, ttl_secs, expires_at, retention, closed=closed)
        kind = kind_of(chosen)
        body = None if data is NOTHING else join(kind, [self._codec.encode(kind, data)])
        return await self._put(headers, body, exist_ok=exist_ok)

    async def fork(
        self,
        name: str,
        *,
        offset: str | None = None,
        sub_offset: int | None = None,
        ttl_secs: Lifetime | None = None,
        expires_at: Moment | None = None,
        closed: bool = False,
    ) -> "AsyncStream[T]":
        """Create a fork: a stream that begins with this one, up to an offset or to its tail (§4.2)."""
        fork = AsyncStream(self._transport, self._root, name, self._codec)
        headers = creation_headers(None, ttl_secs, expires_at, None, closed=closed)
        headers["Stream-Forked-From"] = path_of(self.url)
        if offset is not None:
            headers["Stream-Fork-Offset"] = offset
        if sub_offset is not None:
            headers["Stream-Fork-Sub-Offset"] = str(sub_offset)
        await fork._put(headers, None, exist_ok=True)
        return fork

    async def _put(self, headers: dict[str, str], body: bytes | None, *, exist_ok: bool) -> Head:
        attempts = self._transport.attempts(f"PUT {self.url}")
        response = await self._transport.request("PUT", self.url, headers=headers, content=body, attempts=attempts)
        created = response.status_code == _CREATED
        # After a lost response, the stream that exists may be the one that this request created.
        if not (created or exist_ok or attempts.uncertain):
            raise StreamExists(f"the stream {self.url} exists already: choose another name, or exist_ok=True")
        head = head_of(response.headers, created=created)
        self._content_type = head.content_type or headers.get("Content-Type")
        return head

    async def head(self) -> Head:
        """Describe the stream."""
        response = await self._transport.request("HEAD", self.url)
        head = head_of(response.headers)
        self._content_type = head.content_type
        return head

    async def exists(self) -> bool:
        """Return whether the stream exists."""
        try:
            await self.head()
        except (NotFound, OffsetGone, StreamGone):
            return False
        return True

    async def delete(self, *, missing_ok: bool = False) -> None:
        """Delete the stream and everything in it."""
        attempts = self._transport.attempts(f"DELETE {self.url}")
        try:
            await self._transport.request("DELETE", self.url, attempts=attempts)
        except StreamNotFound:
            # After a lost response, this request may be the one that deleted the stream.
            if not (missing_ok or attempts.uncertain):
                raise
        self._content_type = None

    # Writing

    async def append(
        self, value: Any, *, seq: str | None = None, if_match: str | None = None, close: bool = False
    ) -> str:
        """Append one message, and return the offset after it.

        `seq` orders writers (`Stream-Seq`). With `if_match`, the server refuses the append unless the stream ends at
        this offset. `close` closes the stream with this message. If the connection breaks before the response,
        AppendUncertain is raised: to store a message exactly once, send it through a `producer`.
        """
        content_type = await self._type()
        message = self._codec.encode(kind_of(content_type), value)
        headers = {"Stream-Closed": "true"} if close else {}
        headers |= {} if seq is None else {"Stream-Seq": seq}
        headers |= {} if if_match is None else {"If-Match": f'"{if_match}"'}
        return await self._appender.append(content_type, message, headers)

    async def extend(self, values: Iterable[Any] | AsyncIterable[Any]) -> str:
        """Append many messages in as few requests as possible, and return the offset after them.

        In a JSON stream each value is a message. In another stream the values of one request become one message.
        """
        content_type = await self._type()
        kind = kind_of(content_type)
        batch: list[bytes] = []
        size, offset = 0, ""
        async for value in iterate(values):
            message = self._codec.encode(kind, value)
            if batch and (size + len(message) > MAX_BATCH_BYTES or len(batch) == MAX_BATCH_MESSAGES):
                offset = await self._appender.send(content_type, batch, {})
                batch, size = [], 0
            batch.append(message)
            size += len(message) + 1
        if batch:
            return await self._appender.send(content_type, batch, {})
        return offset or (await self.head()).offset

    async def close(self, value: Any = NOTHING) -> str:
        """Close the stream, with a last message if one is given, and return its final offset. It stays readable."""
        if value is not NOTHING:
            return await self.append(value, close=True)
        response = await self._transport.request("POST", self.url, headers={"Stream-Closed": "true"})
        return offset_of(response.headers)

    def producer(
        self,
        id: str | None = None,
        *,
        epoch: int | None = None,
        seq: int = 0,
        auto_claim: bool = False,
        resume: bool = False,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        max_batch_items: int = MAX_BATCH_MESSAGES,
        linger_secs: float = 0.005,
        max_in_flight: int = 5,
    ) -> "AsyncProducer[T]":
        """Make a writer whose messages are stored exactly once and in order, over broken connections (§5.2.1).

        `id` identifies the writer over its restarts. With `resume`, each message has a position in its source, and the
        next run continues after the `position` of the last one. `auto_claim` takes over from the previous writer with
        this id in a new epoch, without knowing what that has written.
        """
        batching = parts.Batching(max_batch_bytes, max_batch_items, linger_secs, max_in_flight)
        return self._producer(batching, id=id, epoch=epoch, seq=seq, auto_claim=auto_claim, resume=resume)

    def _producer(self, batching: "Batching", **identity: Any) -> "AsyncProducer[T]":
        make = parts.AsyncProducer
        return make(self._transport, self.url, self._codec, self._type, self._look_up, batching=batching, **identity)

    async def _look_up(self, producer_id: str) -> ProducerHead:
        response = await self._transport.request("HEAD", self.url, headers={"Producer-Id": producer_id})
        return producer_head_of(response.headers)

    async def _type(self) -> str:
        if self._content_type is None:
            await self.head()
        return self._content_type or ""

    # Reading

    def read(
        self,
        offset: str = BEGINNING,
        *,
        until: str | None = None,
        last: int | None = None,
        at: Moment | int | None = None,
        skip: int | None = None,
    ) -> "AsyncReader[T]":
        """Read the stored messages: from an offset `until` another, the `last` n, or from a time (`at`) on."""
        return self._reader(offset, start_query(last, at, skip), until=until, mode=None)

    def follow(
        self,
        offset: str = BEGINNING,
        *,
        mode: "Mode" = "auto",
        last: int | None = None,
        at: Moment | int | None = None,
        skip: int | None = None,
        offsets: "Offsets | None" = None,
        on_snapshot: Callable[[Snapshot], Any] | None = None,
    ) -> "AsyncReader[T]":
        """Read the stored messages and then new ones until the stream is closed, over broken connections.

        `offset` may be `now`. `offsets` saves the position for the next run. If the next messages were cut,
        `on_snapshot` is called with the latest snapshot, and the read continues after it; without it, OffsetGone is
        raised.
        """
        reader = self._reader(offset, start_query(last, at, skip), until=None, mode=mode)
        if offsets is not None:
            reader.keep(offsets)
        if on_snapshot is not None:
            reader.recover(self.snapshot, on_snapshot)
        return reader

    def _reader(
        self, offset: str, start: Mapping[str, str], *, until: str | None, mode: "Mode | None"
    ) -> "AsyncReader[T]":
        tuning = self._transport.tuning
        reading = parts.ReadState(offset, start=start, until=until, mode=mode, codec=self._codec, tuning=tuning)
        return parts.AsyncReader(self._transport, self.url, reading, self._codec)

    def frames(
        self,
        offset: str = BEGINNING,
        *,
        until: str | None = None,
        last: int | None = None,
        at: Moment | int | None = None,
        skip: int | None = None,
        incarnation: str = "",
    ) -> "AsyncIterator[Frames]":
        """Read the stored messages of any stream as pages with the offset and the time of each message.

        The bounds are those of `read`. If the stream has another incarnation than this, `StreamRewound` is raised.
        """
        return parts.read_frames(self._transport, self.url, offset, start_query(last, at, skip), until, incarnation)

    def materialise(
        self,
        *,
        types: Mapping[str, Any] | None = None,
        on_invalid: "Callable[[InvalidChange], object] | None" = None,
        mode: "Mode" = "auto",
    ) -> "AsyncMaterialiser":
        """Hold the current value per type and key of a stream of changes: `async with stream.materialise() as state`.

        `types` maps entity types to the classes into which values are decoded. A message that is not a change is passed
        to `on_invalid`; without it, such a message ends the state with an error.
        """
        tuning = self._transport.tuning
        return parts.AsyncMaterialiser(self, types=types, on_invalid=on_invalid, mode=mode, tuning=tuning)

    async def table(
        self, offset: str = BEGINNING, *, until: str | None = None, columns: "Columns | None" = None, raw: bool = False
    ) -> "Table":
        """Make a table of the stored messages for Arrow, pandas, polars or DuckDB (`pip install 'everbrook[frames]'`).

        The fields of JSON messages become columns: all fields, or those that `columns` names, with or without types. A
        `raw` table, and a table of a text or binary stream, has a row for each message, with its offsets and its time.
        If the beginning of the stream was cut, the table begins with the first retained message.
        """
        return await parts.table_of(self, offset, until, columns, raw=raw)

    # Snapshots

    @property
    def _snapshots(self) -> "AsyncSnapshots":
        return parts.AsyncSnapshots(self._transport, self.url + self._root.parts)

    async def publish(
        self,
        data: bytes,
        *,
        offset: str,
        content_type: str = JSON,
        keep_history: bool = False,
        if_match: str | None = None,
        if_none_match: bool = False,
        incarnation: str = "",
    ) -> None:
        """Publish a snapshot, the state at an offset. The messages before it are cut, unless `keep_history` is set.

        `if_match` is the ETag of the snapshot to replace; `if_none_match` means that the stream must have none. The
        server refuses the snapshot if the stream has another incarnation than `incarnation`.
        """
        headers = {"Content-Type": content_type}
        headers |= {"Stream-Snapshot-History": "keep"} if keep_history else {}
        headers |= {"If-Match": if_match} if if_match else {}
        headers |= {"If-None-Match": "*"} if if_none_match else {}
        headers |= {"Stream-Incarnation": incarnation} if incarnation else {}
        await self._snapshots.publish(data, offset, headers)

    async def snapshot(self) -> Snapshot | None:
        """Fetch the latest snapshot, if there is one."""
        return await self._snapshots.latest()

    async def delete_snapshot(self, offset: str) -> None:
        """Delete a snapshot. The server refuses to delete the one at which messages were cut."""
        await self._snapshots.delete(offset)

    async def cut(self, offset: str) -> None:
        """Cut the messages before an offset, which a snapshot must cover."""
        await self._snapshots.cut(offset)

    async def bootstrap(self) -> "Bootstrap[T]":
        """Fetch the snapshot and every message after it, as of one moment."""
        return cast("Bootstrap[T]", await self._snapshots.bootstrap(self._codec))
