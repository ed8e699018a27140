"""Appends each batch exactly once. The rows of a stream in a micro-batch are one append, or several numbered ones.

The Producer-Id is the query's, the epoch is the number of the batch and the sequence number is 0, so the server
recognises a batch that is written again, whatever the order of its rows, the number of tasks, or the process.

The rows of a stream need several appends if they are too large for one, or if the stream has text or bytes, where each
append is one message. These appends have the sequence numbers 0, 1, 2 …, and a batch that is run again must continue
them (see `batch`): in the order of the columns that the user names. Without any, rows of JSON that are too large for
one append are sorted by their bytes. A batch of `df.write` is never run again, and needs no order.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.client.content import JSON, Kind, join, kind_of
from everbrook.client.models import KnownProducer
from everbrook.protocol.errors import ContentTypeMismatch, NotFound, PayloadTooLarge, StaleEpoch, StreamNotFound
from everbrook.protocol.json_text import require_json
from everbrook.spark.connection import Connection, Post, connect
from everbrook.spark.options import InvalidOption, SinkOptions
from everbrook.spark.streams.batch import Batch, LetterBatch, OrderedBatch, UnorderedBatch, append_batch
from everbrook.spark.streams.messages import MESSAGE, STREAM, InvalidRow, Layout

logger = logging.getLogger(__name__)

_AT_ONCE = 8
_BRACKETS = 2
_NEEDS_ORDER = "Set the option orderBy to the columns that order the rows, and start the query again"
T = TypeVar("T")
R = TypeVar("R")


class Known(Struct, frozen=True):
    """The properties of a stream, as this process has looked them up."""

    content_type: str
    expires: bool
    stores_positions: bool
    """Whether the server stores positions of producers."""

    def post_of(self, messages: Sequence[bytes]) -> Post:
        return Post(join(kind_of(self.content_type), messages), {"Content-Type": self.content_type})


_known: dict[tuple[str, str], Known] = {}
"""The streams that each query has looked at, by its Producer-Id and their URLs."""
_stored: dict[tuple[str, str], KnownProducer | None] = {}
"""The producers of those streams that have a position, as far as this process knows."""


class Producer(Struct, frozen=True):
    """Who writes: the query, and the number of its batch."""

    id: str
    epoch: int
    repeats: bool = True
    """Whether Spark may run the batch again, with its rows in another order. It never runs one of `df.write` again."""
    letters: bool = False
    """Whether a row is identified by its order alone, because its message may differ when it is written again."""


class BatchTooLarge(Exception):
    """The server refuses rows of a stream as too large, or several appends would need an order."""

    restartable = False


class QuerySuperseded(Exception):
    """Another run of the same query has written a later batch."""

    restartable = False
    advice = "{reset} lets it begin anew"


class StreamDeleted(Exception):
    """A stream was deleted while a query wrote to it: a new one would have only the rows from now on."""

    restartable = False
    advice = "{reset} lets it begin anew"


class Appender:
    """Writes batches of messages to their streams."""

    def __init__(self, connection: Connection, options: SinkOptions) -> None:
        self._connection = connection
        self._options = options

    def append(self, producer: Producer, messages: pa.Table, *, close: bool = False) -> None:
        """Append messages to their streams, and close these if `close`. All are checked before the first is sent."""
        by_stream = list(_by_stream(messages))
        unknown = [rows.stream for rows in by_stream if self._key(producer, rows.stream) not in _known]
        for stream, known in zip(unknown, _each(self._look_up, unknown), strict=True):
            _known[self._key(producer, stream)] = known
        # Every row is checked before the first append: a batch that is refused leaves nothing in any stream.
        parted = [self._part(producer, rows, _known[self._key(producer, rows.stream)]) for rows in by_stream]
        _each(partial(self._append, producer, close), parted)

    def close(self, stream: str) -> None:
        self._connection.stream(stream).close()

    def _key(self, producer: Producer, stream: str) -> tuple[str, str]:
        return producer.id, self._connection.root.stream(stream)

    def _append(self, producer: Producer, close: bool, parted: "Parted") -> None:  # noqa: FBT001
        stream = parted.rows.stream
        try:
            return self._send(producer, parted, close=close)
        except ContentTypeMismatch:
            pass  # it was deleted, and created anew
        except NotFound as error:
            self._require_expired(stream, parted.known, error)
        known = self._look_up(stream)
        _known[self._key(producer, stream)] = known
        return self._send(producer, self._part(producer, parted.rows, known), close=close)

    def _require_expired(self, stream: str, known: Known, error: NotFound) -> None:
        if self._options.auto_create and not known.expires:
            raise StreamDeleted(
                f"{stream!r} was deleted while this query wrote to it. To go on with the rows that follow, create it "
                "anew; to have all rows again, begin with a new checkpoint"
            ) from error

    def _send(self, producer: Producer, parted: "Parted", *, close: bool) -> None:
        stream = parted.rows.stream
        try:
            # A batch of `df.write` is never run again. It shares its producer with other batches, so it needs their
            # progress.
            if not producer.repeats and parted.known.stores_positions:
                append_batch(self._connection, stream, producer.id, parted.posts(close=close))
            # Positions let a batch that is run again continue, also if it has fewer rows by then.
            elif parted.known.stores_positions and not close:
                key = self._key(producer, stream)
                _stored[key] = self._batch(producer, parted).append(self._connection, _stored.get(key))
            else:
                # Without positions the sequence numbers identify the appends: the rows must be the same and in the same
                # order.
                posts = enumerate(parted.posts(close=close))
                numbered = [post.of_producer(producer.id, producer.epoch, seq) for seq, post in posts]
                self._connection.post_all(stream, numbered)
        except StaleEpoch as error:
            raise QuerySuperseded(
                f"batch {producer.epoch} can't be written to {stream!r}: a later batch of {producer.id!r} is there "
                "already. Does another run of this query use the same checkpoint?"
            ) from error
        except PayloadTooLarge as error:
            raise BatchTooLarge(_too_large(stream, parted, error.detail)) from error

    def _batch(self, producer: Producer, parted: "Parted") -> Batch:
        rows, order = parted.rows, parted.rows.order
        divide = partial(self._divide, kind_of(parted.known.content_type))
        given = (rows.stream, producer.id, producer.epoch, rows.messages, divide, parted.known.post_of)
        if order is None:
            return UnorderedBatch(*given)
        return LetterBatch(*given, order) if producer.letters else OrderedBatch(*given, order)

    def _look_up(self, stream: str) -> Known:
        """Look up the properties of a stream. Create it if it does not exist and `autoCreate` is set."""
        handle = self._connection.stream(stream)
        try:
            head = handle.head()
            expires = head.ttl_secs is not None or head.expires_at is not None
        except NotFound as error:
            if not self._options.auto_create:
                raise StreamNotFound(
                    f"there is no stream {stream!r}: create it, or set the option autoCreate of the sink"
                ) from error
            head = handle.create(content_type=self._options.content_type or JSON, ttl_secs=self._options.ttl_secs)
            expires = self._options.ttl_secs is not None
        return Known(head.content_type, expires, "producer-position" in head.extensions)

    def _part(self, producer: Producer, rows: "StreamRows", known: Known) -> "Parted":
        kind = kind_of(known.content_type)
        if kind is Kind.JSON:
            _require_json(rows)
        else:
            _require_content(rows, known)
        parts = self._divide(kind, rows.messages)
        if len(parts) > 1 and producer.repeats and rows.order is None:
            self._allow_sorting(rows, known)
        return Parted(rows, known, parts)

    def _allow_sorting(self, rows: "StreamRows", known: Known) -> None:
        """Warn that rows will be sorted by their bytes, or refuse them if that is impossible."""
        if kind_of(known.content_type) is not Kind.JSON:
            raise InvalidOption(_needs_order(rows.stream, known.content_type))
        size, max_bytes = sum(map(len, rows.messages)), self._options.max_append_bytes
        if not known.stores_positions:
            raise _unordered(rows.stream, size, max_bytes)
        logger.warning(
            "%d bytes for %r in one batch are more than one append of %d bytes (maxAppendBytes), and have no order: "
            "they are sorted by their bytes. Set the option orderBy to choose an order",
            *(size, rows.stream, max_bytes),
        )

    def _divide(self, kind: Kind, messages: Sequence[bytes]) -> list[list[bytes]]:
        if kind is not Kind.JSON:
            return [[message] for message in messages]
        return list(_parted(messages, self._options.max_append_bytes - _BRACKETS))


def _unordered(stream: str, size: int, max_bytes: int) -> BatchTooLarge:
    return BatchTooLarge(
        f"{size} bytes for {stream!r} in one batch are more than one append of {max_bytes} bytes (maxAppendBytes), and "
        f"this server stores no positions of producers. {_NEEDS_ORDER}"
    )


def require_order(options: SinkOptions, layout: Layout) -> None:
    """Refuse a query before it begins if its rows need an order and have none: its one stream is of text or bytes."""
    if options.stream is None or layout.order_by:
        return
    try:
        content_type = connect(options.server, options.bucket).head(options.stream).content_type
    except NotFound:
        content_type = options.content_type or JSON
    if kind_of(content_type) is not Kind.JSON:
        raise InvalidOption(_needs_order(options.stream, content_type))


def _needs_order(stream: str, content_type: str) -> str:
    return (
        f"{stream!r} is of {content_type}, so each row is an append of its own, and the appends need the same order "
        f"if a batch is run again. {_NEEDS_ORDER}; a column 'offset' of the source needs no option"
    )


def _each(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Call a function for each item, in several threads, and return the results in order."""
    if len(items) <= 1:
        return [do(item) for item in items]
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(do, items))


def _too_large(stream: str, parted: "Parted", detail: str) -> str:
    more = "raise its setting limits.max_append_bytes"
    size = max(len(parted.known.post_of(part).body) for part in parted.parts)
    if max(map(len, parted.parts)) == 1:
        return (
            f"the server does not take one message of {size} bytes for {stream!r} ({detail}): {more}, "
            "or leave such rows out before the sink"
        )
    return (
        f"the server does not take {size} bytes for {stream!r} at once ({detail}): {more}. A lower "
        "maxAppendBytes is for the batches that follow, once this one is finished"
    )


class StreamRows(Struct, frozen=True):
    """The messages of one stream, and the columns that they are sorted by, if there are any."""

    stream: str
    messages: list[bytes]
    order: pa.Table | None


class Parted(Struct, frozen=True):
    """The messages of one stream, divided into appends."""

    rows: StreamRows
    known: Known
    parts: list[list[bytes]]

    def posts(self, *, close: bool) -> list[Post]:
        """Make the appends. The last one closes the stream if `close`."""
        posts = list(map(self.known.post_of, self.parts))
        if close:
            posts[-1].headers["Stream-Closed"] = "true"
        return posts


def _by_stream(table: pa.Table) -> Iterator[StreamRows]:
    """Group messages by stream. Messages with the same place in the order are sorted by their bytes."""
    order_by = [name for name in table.column_names if name not in {STREAM, MESSAGE}]
    # Rows of equal place are sorted too: a batch that is run again may get its rows in another order.
    if order_by:
        keys = [(name, "ascending") for name in (*order_by, MESSAGE)]
        table = table.take(pc.sort_indices(table, sort_keys=keys))
    streams = table.column(STREAM).combine_chunks().dictionary_encode()
    codes = streams.indices.to_numpy()
    places = np.argsort(codes, kind="stable")
    rows = pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)])
    messages = table.column(MESSAGE).take(rows)
    order = table.select(order_by).take(rows) if order_by else None
    ends = np.cumsum(np.bincount(codes, minlength=len(streams.dictionary)))
    start = 0
    for stream, end in zip(streams.dictionary.to_pylist(), ends.tolist(), strict=True):
        its_order = None if order is None else order.slice(start, end - start)
        yield StreamRows(stream, messages.slice(start, end - start).to_pylist(), its_order)
        start = end


def _parted(messages: Sequence[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    """Split messages, in their order, into parts that have at most `max_bytes` with commas between their messages."""
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


def _require_json(rows: StreamRows) -> None:
    """Refuse what is not one JSON value each: `1,2` would be two messages."""
    for message in rows.messages:
        try:
            require_json(message)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidRow(
                f"{rows.stream!r} takes JSON, and {message[:80]!r} is not JSON ({error}). For a stream of text, create "
                "it with the content type text/plain"
            ) from None


def _require_content(rows: StreamRows, known: Known) -> None:
    """Refuse empty messages, which streams of text and bytes can't have."""
    if not all(rows.messages):
        raise InvalidRow(
            f"a row for {rows.stream!r} is empty, and a stream of {known.content_type} has no empty messages: leave "
            "such rows out before the sink"
        )
