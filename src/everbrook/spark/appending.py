"""Appending exactly once: all rows of a stream in a micro-batch are one append, or none.

The Producer-Id is the query's, the epoch is the batch's number and the sequence number 0, so that the server knows
whether this batch is in this stream, and takes it once: whatever order the rows have when the batch is run again, by
how many tasks, or in which process. Rows that are too many for one append are several, with the numbers 0, 1, 2 …;
these must be the same each time, so they are put in an order first, which the user has to name.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.client.content import JSON, Kind, join, kind_of
from everbrook.protocol.errors import ContentTypeMismatch, NotFound, PayloadTooLarge, StaleEpoch, StreamNotFound
from everbrook.protocol.surrogates import require_json
from everbrook.spark.connection import Connection
from everbrook.spark.messages import MESSAGE, STREAM, InvalidRow
from everbrook.spark.options import SinkOptions

_AT_ONCE = 8
_BRACKETS = 2


class Known(Struct, frozen=True):
    """What this process has found out of a stream."""

    content_type: str
    expires: bool


_known: dict[tuple[str, str], Known] = {}
"""The streams that each query has looked at, by its Producer-Id and their URLs."""


class Producer(Struct, frozen=True):
    """Who writes: the query, and the number of its batch."""

    id: str
    epoch: int


class BatchTooLarge(Exception):
    """The rows of a stream do not fit in one append, and nothing says in which order they would be several."""


class QuerySuperseded(Exception):
    """Another run of the same query has written a later batch."""


class StreamDeleted(Exception):
    """A stream was deleted while a query wrote to it: one that is created anew would have only what comes from now."""


class Appender:
    """Writes batches of messages to their streams."""

    def __init__(self, connection: Connection, options: SinkOptions) -> None:
        self._connection = connection
        self._options = options

    def append(self, producer: Producer, messages: pa.Table, *, close: bool = False) -> None:
        """Append messages to their streams, and end these if `close`."""
        by_stream = list(_by_stream(messages))
        if len(by_stream) == 1:
            self._append(producer, *by_stream[0], close)
            return
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            done = [pool.submit(self._append, producer, stream, rows, close) for stream, rows in by_stream]
            for each in done:
                each.result()

    def close(self, stream: str) -> None:
        """End a stream that gets nothing more."""
        self._connection.stream(stream).close()

    def _append(self, producer: Producer, stream: str, rows: "Rows", close: bool) -> None:  # noqa: FBT001
        key = (producer.id, self._connection.root.stream(stream))
        known = _known.get(key)
        if known is not None:
            try:
                return self._send(producer, stream, rows, known.content_type, close=close)
            except ContentTypeMismatch:
                pass  # it was deleted, and created anew
            except NotFound as error:
                self._require_expired(stream, known, error)
        _known[key] = self._look(stream)
        return self._send(producer, stream, rows, _known[key].content_type, close=close)

    def _require_expired(self, stream: str, known: Known, error: NotFound) -> None:
        if self._options.auto_create and not known.expires:
            raise StreamDeleted(
                f"{stream!r} was deleted while this query wrote to it. To go on with the rows that follow, create it "
                "anew; to have all rows again, begin with a new checkpoint"
            ) from error

    def _send(self, producer: Producer, stream: str, rows: "Rows", content_type: str, *, close: bool) -> None:
        chunks = self._chunks(stream, kind_of(content_type), rows)
        for seq, chunk in enumerate(chunks):
            headers = {
                "Content-Type": content_type,
                "Producer-Id": producer.id,
                "Producer-Epoch": str(producer.epoch),
                "Producer-Seq": str(seq),
                **({"Stream-Closed": "true"} if close and seq == len(chunks) - 1 else {}),
            }
            self._post(producer, stream, chunk, headers)

    def _post(self, producer: Producer, stream: str, chunk: "Chunk", headers: dict[str, str]) -> None:
        try:
            self._connection.post(stream, chunk.body, headers)
        except StaleEpoch as error:
            raise QuerySuperseded(
                f"batch {producer.epoch} can't be written to {stream!r}: a later batch of {producer.id!r} is there "
                "already. Does another run of this query go on with the same checkpoint?"
            ) from error
        except PayloadTooLarge as error:
            raise BatchTooLarge(_too_large(stream, chunk, error.detail)) from error

    def _look(self, stream: str) -> Known:
        """Find out what the stream is of, and create it if it is not there and may be created."""
        handle = self._connection.stream(stream)
        try:
            head = handle.head()
            return Known(head.content_type, expires=head.ttl_secs is not None or head.expires_at is not None)
        except NotFound as error:
            if not self._options.auto_create:
                raise StreamNotFound(
                    f"{stream!r} is not there: create it, or let the sink do so with the option autoCreate"
                ) from error
        content_type = self._options.content_type or JSON
        head = handle.create(content_type=content_type, ttl_secs=self._options.ttl_secs)
        return Known(head.content_type, expires=self._options.ttl_secs is not None)

    def _chunks(self, stream: str, kind: Kind, rows: "Rows") -> list["Chunk"]:
        if kind is Kind.JSON:
            _require_json(stream, rows.messages)
        max_bytes = self._options.max_append_bytes
        parts = list(_parted(rows.messages, max_bytes - _BRACKETS))
        if len(parts) > 1 and not rows.ordered:
            raise BatchTooLarge(
                f"{sum(map(len, rows.messages))} bytes for {stream!r} in one batch are more than one append of "
                f"{max_bytes} bytes (maxAppendBytes). Name the columns that say in which order they are to be written "
                "with the option orderBy, or make batches smaller with maxRowsPerTrigger on the source"
            )
        return [Chunk(body, len(part)) for part in parts if (body := join(kind, part))]


def _too_large(stream: str, chunk: "Chunk", detail: str) -> str:
    more = "let it take more (its setting limits.max_append_bytes)"
    if chunk.messages == 1:
        return (
            f"the server does not take one message of {len(chunk.body)} bytes for {stream!r} ({detail}): {more}, "
            "or leave such rows out before the sink"
        )
    return (
        f"the server does not take {len(chunk.body)} bytes for {stream!r} at once ({detail}): {more}. A lower "
        "maxAppendBytes is for the batches that follow, once this one is finished"
    )


class Chunk(Struct, frozen=True):
    """The body of one append, and how many messages it holds."""

    body: bytes
    messages: int


class Rows(Struct, frozen=True):
    """The messages of one stream. If they are `ordered`, they come in the same order each time."""

    messages: list[bytes]
    ordered: bool


def _by_stream(table: pa.Table) -> Iterator[tuple[str, Rows]]:
    """Part messages by their streams. What has the same place in the order is put in the order of its bytes."""
    order_by = [name for name in table.column_names if name not in {STREAM, MESSAGE}]
    if order_by:
        keys = [(name, "ascending") for name in (*order_by, MESSAGE)]
        table = table.take(pc.sort_indices(table, sort_keys=keys))
    streams = table.column(STREAM).combine_chunks().dictionary_encode()
    codes = streams.indices.to_numpy()
    places = np.argsort(codes, kind="stable")
    messages = table.column(MESSAGE).take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))
    ends = np.cumsum(np.bincount(codes, minlength=len(streams.dictionary)))
    start = 0
    for stream, end in zip(streams.dictionary.to_pylist(), ends.tolist(), strict=True):
        yield stream, Rows(messages.slice(start, end - start).to_pylist(), bool(order_by))
        start = end


def _parted(messages: list[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    """Part messages, in their order, so that each part with a comma between its messages is not larger than allowed."""
    part: list[bytes] = []
    size = 0
    for message in messages:
        if part and size + len(message) > max_bytes:
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message) + 1
    if part:
        yield part


def _require_json(stream: str, messages: list[bytes]) -> None:
    """Refuse what is not one JSON value each: `1,2` would be two messages."""
    for message in messages:
        try:
            require_json(message)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRow(
                f"{stream!r} is of JSON, and {message[:80]!r} is none ({error}). For a stream of text, create it "
                "with the content type text/plain"
            ) from None
