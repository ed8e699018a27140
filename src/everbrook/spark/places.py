"""Places: how far a batch has come whose rows need several appends.

When such a batch is run again after some of its appends, it may have fewer rows, because messages were lost meanwhile.
Its appends would then have other rows under the same sequence numbers. So each append stores the place of its last row
in the order of the batch as the position of the producer, and names the place behind which it continues. A batch that
is run again continues behind the stored place.

A batch that fits in one append stores no place unless the producer has one: the server may forget such a producer.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.client.models import KnownProducer
from everbrook.protocol.errors import PositionMoved
from everbrook.protocol.producer import MAX_POSITION_BYTES
from everbrook.spark.connection import Connection, Post
from everbrook.spark.messages import InvalidRow
from everbrook.spark.shared_producer import BatchUncertain

_BEGINNING_BYTES, _DIGEST_BYTES = 128, 16


class Place(Struct, frozen=True, array_like=True):
    """A row of a batch: its values in the columns of the order, and its message."""

    order: tuple[str | None, ...]
    beginning: bytes
    """The first bytes of the message."""
    digest: bytes
    count: int
    """How many rows of the batch are equal up to this one."""


class OrderedBatch(Struct, frozen=True):
    """The messages of a batch for one stream, sorted by the columns of an order and then by their bytes."""

    stream: str
    producer_id: str
    epoch: int
    messages: Sequence[bytes]
    order: pa.Table
    divide: Callable[[Sequence[bytes]], Sequence[Sequence[bytes]]]
    """Divides messages into appends."""
    write: Callable[[Sequence[bytes]], Post]
    """Makes an append of messages."""

    def append(self, connection: Connection, known: KnownProducer | None) -> KnownProducer | None:
        """Append what the stream does not have yet.

        `known` is the state of the producer after an earlier batch. What is returned is its state after this batch. It
        is None if the producer has no position, as far as this process knows.
        """
        if known is None and len(posts := list(self._unplaced())) == 1:
            try:
                if connection.post_all(self.stream, posts):
                    return None
            except PositionMoved:
                pass  # an earlier batch needed several appends
        if known is None or known.epoch >= self.epoch:
            known = connection.producer(self.stream, self.producer_id).known
        while True:
            if known and known.epoch == self.epoch and known.position is None:
                connection.post_all(self.stream, list(self._unplaced()))  # as it was begun
                return None
            posts = list(self._behind(known))
            try:
                if connection.post_all(self.stream, posts):
                    return self._after(posts, known)
            except PositionMoved:
                pass  # it is run elsewhere too, or was run before with other rows
            known = connection.producer(self.stream, self.producer_id).known

    def _unplaced(self) -> Iterator[Post]:
        for seq, part in enumerate(self.divide(self.messages)):
            yield self.write(part).of_producer(self.producer_id, self.epoch, seq)

    def _behind(self, known: KnownProducer | None) -> Iterator[Post]:
        """Make the appends that are left, each with the place before it and the one at its end."""
        place = known.position or "" if known else ""
        again = known is not None and known.epoch == self.epoch
        end, seq = (self._find_end(place), known.seq + 1) if known and again else (0, 0)
        order = list(zip(*map(_texts_of, self.order.columns), strict=True))
        counts = list(self._counts(order))
        for number, part in enumerate(self.divide(self.messages[end:]), seq):
            end += len(part)
            before, place = place, self._place(order[end - 1], self.messages[end - 1], counts[end - 1])
            positions = {"Producer-Resumes-From": before, "Producer-Position": place}
            yield self.write(part).of_producer(self.producer_id, self.epoch, number, positions)

    def _after(self, posts: Sequence[Post], known: KnownProducer | None) -> KnownProducer | None:
        if not posts:
            return known
        last = posts[-1].headers
        return KnownProducer(self.epoch, int(last["Producer-Seq"]), last["Producer-Position"])

    def _counts(self, order: Sequence[tuple[str | None, ...]]) -> Iterator[int]:
        """Count, for each row, the equal rows up to it, which are next to each other."""
        count, before = 0, None
        for row in zip(order, self.messages, strict=True):
            count = count + 1 if row == before else 1
            before = row
            yield count

    def _place(self, order: tuple[str | None, ...], message: bytes, count: int) -> str:
        place = Place(order, message[:_BEGINNING_BYTES], _digest(message), count)
        text = json.dumps(msgspec.to_builtins(place))  # in ASCII, as headers are
        if len(text) > MAX_POSITION_BYTES:
            raise InvalidRow(
                f"a row for {self.stream!r} has too long values in the columns of orderBy, for a batch that needs "
                f"several appends: written down they have {len(text)} of at most {MAX_POSITION_BYTES} characters. "
                "Order by shorter columns"
            )
        return text

    def _find_end(self, position: str) -> int:
        """Find the end of what was appended: count the rows up to a place, which may be among the lost ones."""
        place = msgspec.json.decode(position, type=Place)
        values = [_value_of(text, field.type) for text, field in zip(place.order, self.order.schema, strict=True)]
        marker = pa.table(values, schema=self.order.schema)
        size = len(self.messages)
        beginnings = [message[:_BEGINNING_BYTES] for message in self.messages]
        rows = pa.concat_tables([self.order, marker, marker])
        rows = rows.append_column("beginning", pa.array([*beginnings, place.beginning, place.beginning], pa.binary()))
        rows = rows.append_column("at", pa.array([*range(size), -1, size]))
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names]).to_pylist()
        first, end = order.index(size), order.index(size + 1) - 1
        same = [at for at in range(first, end) if _digest(self.messages[at]) == place.digest]
        if same:
            return same[min(place.count, len(same)) - 1] + 1
        if first < end:
            raise BatchUncertain(
                f"batch {self.epoch} was written to {self.stream!r} up to a row that was lost since, and other rows "
                "can't be told from it. Compare the stream with the rows, and begin with a new checkpoint"
            )
        return int(first)


def _texts_of(column: pa.ChunkedArray) -> list[str | None]:
    """Write values so that `_value_of` reads them."""
    if pa.types.is_binary(column.type):
        return [None if value is None else value.hex() for value in column.to_pylist()]
    texts: list[str | None] = column.cast(pa.string()).to_pylist()
    return texts


def _value_of(text: str | None, type_: pa.DataType) -> pa.Array:
    if pa.types.is_binary(type_):
        return pa.array([None if text is None else bytes.fromhex(text)], type_)
    return pa.array([text], pa.string()).cast(type_)


def _digest(message: bytes) -> bytes:
    return blake2b(message, digest_size=_DIGEST_BYTES).digest()
