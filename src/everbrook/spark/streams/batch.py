"""Batches whose rows need several appends: each append stores how far the batch has come.

When such a batch is run again after some of its appends, it may have fewer rows, because messages were lost meanwhile.
Its appends would then have other rows under the same sequence numbers. So each append stores the place of its last row
in the order of the batch as the position of the producer, and names the place after which it continues. A batch that is
run again continues after the stored place.

A batch that fits in one append stores no place unless the producer has one: the server may forget such a producer.

    OrderedBatch    rows with columns that order them. A place is a row
    UnorderedBatch  rows in any order, which are sorted by their bytes. A place is a digest of all rows up to it: the
                    rows must be the same when the batch is run again
    LetterBatch     rows that are identified by their order alone: their messages may be cut. A place is that order

Batches of `df.write` to a stream share one producer, because a stream takes a limited number of producers and forgets
none. Each batch begins a new epoch and names the position that it continues from, so that none overwrites another. The
position lists the last batches, with the number of appends of each that the stream has. A batch that lost a response,
or was fenced by another one, reads its progress there, and continues in a later epoch.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.client.models import KnownProducer
from everbrook.protocol.errors import PositionMoved, StaleEpoch
from everbrook.protocol.producer import MAX_POSITION_BYTES
from everbrook.spark.connection import Connection, Post
from everbrook.spark.options import InvalidOption
from everbrook.spark.streams.messages import InvalidRow

PRODUCER_ID = "spark-batches"
_LISTED = 32
"""So many entries of 30 characters fit in a position, which holds 1,024."""
_BEGINNING_BYTES, _DIGEST_BYTES = 128, 16


class BatchUncertain(Exception):
    """It is unknown whether a stream has all rows of a batch."""

    restartable = False


class Progress(Struct, frozen=True):
    """How many appends of each batch write a stream has. The one that wrote last comes first."""

    entries: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        """Format the progress as `parse_progress` reads it."""
        return " ".join(f"{name}:{count}" for name, count in self.entries)

    def of(self, name: str) -> int:
        return dict(self.entries).get(name, 0)

    def reached(self, name: str, count: int) -> "Progress":
        """Return the progress after an append of a batch write. Only the last batch writes are listed."""
        others = [entry for entry in self.entries if entry[0] != name]
        return Progress(((name, count), *others)[:_LISTED])


def parse_progress(position: str | None) -> Progress:
    pairs = (entry.partition(":") for entry in (position or "").split())
    return Progress(tuple((name, int(count)) for name, _, count in pairs))


def append_batch(connection: Connection, stream: str, name: str, posts: Sequence[Post]) -> None:
    """Append each part of a batch once, also if other batches are written to the stream at the same time."""
    done, claimed = 0, None
    while done < len(posts):
        known = connection.producer(stream, PRODUCER_ID).known
        progress = parse_progress(known.position if known else None)
        epoch = known.epoch + 1 if known else 0
        there = progress.of(name)
        # Each batch write in between has taken an epoch: after fewer than are listed, this one would be in the list.
        if there < done or (not there and claimed is not None and epoch - claimed > _LISTED):
            raise BatchUncertain(
                f"{stream!r} was created anew, or got many other batches, while this one was written: {done} of its "
                f"{len(posts)} appends were certainly stored. Compare the stream with the rows before you write again"
            )
        done, claimed = there, epoch
        try:
            new = connection.post_all(stream, list(_claiming(posts, progress, name, epoch, done)))
        except (StaleEpoch, PositionMoved):
            continue  # another batch was written in between
        # What was taken for a duplicate may be that of another batch write, which claims the same epoch.
        done = len(posts) if new else done


def _claiming(posts: Sequence[Post], progress: Progress, name: str, epoch: int, done: int) -> Iterator[Post]:
    """Number the appends that are left, each with the position before it and the one after it."""
    for seq, post in enumerate(posts[done:]):
        before, progress = progress, progress.reached(name, done + seq + 1)
        positions = {"Producer-Resumes-From": str(before), "Producer-Position": str(progress)}
        yield post.of_producer(PRODUCER_ID, epoch, seq, positions)


class Place(Struct, frozen=True, array_like=True):
    """A row of a batch: its values in the columns of the order, and its message."""

    order: tuple[str | None, ...]
    beginning: bytes
    """The first bytes of the message."""
    digest: bytes
    count: int
    """How many rows of the batch are equal up to this one."""


class BatchDigest(Struct, frozen=True, array_like=True):
    """The progress of a batch without an order: the number of its rows, and their digest."""

    count: int
    of: int
    digest: bytes


class Batch(Struct, frozen=True):
    """The messages of a batch for one stream."""

    stream: str
    producer_id: str
    epoch: int
    messages: Sequence[bytes]
    divide: Callable[[Sequence[bytes]], Sequence[Sequence[bytes]]]
    """Divides messages into appends."""
    write: Callable[[Sequence[bytes]], Post]
    """Makes an append of messages."""

    def append(self, connection: Connection, known: KnownProducer | None) -> KnownProducer | None:
        """Append what the stream does not have yet.

        `known` is the state of the producer after an earlier batch. What is returned is its state after this batch. It
        is None if the producer has no position, as far as this process knows.
        """
        # Nearly all batches are one append: it needs no lookup, and no position that the server would keep.
        if known is None and self._append_alone(connection):
            return None
        # Another process, or a run before a crash, may have written a part of this batch: the server knows how far.
        if known is None or known.epoch >= self.epoch:
            known = connection.producer(self.stream, self.producer_id).known
        while True:
            # The batch was begun without places, so only sequence numbers identify its appends.
            if known and known.epoch == self.epoch and known.position is None:
                self._complete_numbered(connection)
                return None
            posts = list(self._behind(known))
            try:
                # A duplicate means that another run writes the same batch, perhaps with other rows: read its progress
                # again.
                if connection.post_all(self.stream, posts):
                    return self._after(posts, known)
            except PositionMoved:
                pass  # the batch is written by another process too, or was written before with other rows
            known = connection.producer(self.stream, self.producer_id).known

    def parts_behind(self, position: str | None) -> Iterator[tuple[Sequence[bytes], str]]:
        """Return the appends after the place that an earlier run has stored, or all, each with the place at its end."""
        raise NotImplementedError

    def _append_alone(self, connection: Connection) -> bool:
        """Append a batch that fits in one append. Return whether the stream had neither the batch nor a place."""
        if len(self.divide(self.messages)) > 1:
            return False
        try:
            return connection.post_all(self.stream, list(self._numbered()))
        except PositionMoved:
            return False  # an earlier batch needed several appends

    def _complete_numbered(self, connection: Connection) -> None:
        """Complete what was begun with numbers alone."""
        connection.post_all(self.stream, list(self._numbered()))

    def _numbered(self) -> Iterator[Post]:
        for seq, part in enumerate(self.divide(self.messages)):
            yield self.write(part).of_producer(self.producer_id, self.epoch, seq)

    def _behind(self, known: KnownProducer | None) -> Iterator[Post]:
        """Make the appends that are left, each with the place before it and the one at its end."""
        before = known.position or "" if known else ""
        again = known is not None and known.epoch == self.epoch
        # The server takes consecutive sequence numbers only (§5.2.1), also across two runs of a batch.
        seq = known.seq + 1 if known and again else 0
        for number, (part, place) in enumerate(self.parts_behind(before if again else None), seq):
            positions = {"Producer-Resumes-From": before, "Producer-Position": place}
            yield self.write(part).of_producer(self.producer_id, self.epoch, number, positions)
            before = place

    def _after(self, posts: Sequence[Post], known: KnownProducer | None) -> KnownProducer | None:
        if not posts:
            return known
        last = posts[-1].headers
        return KnownProducer(self.epoch, int(last["Producer-Seq"]), last["Producer-Position"])

    def _read(self, position: str, kind: Any) -> Any:
        try:
            return msgspec.json.decode(position, type=kind)
        except msgspec.MsgspecError as error:
            raise InvalidOption(
                f"batch {self.epoch} was begun for {self.stream!r} with another orderBy, and is not finished. Run the "
                "query with that one until the batch is done"
            ) from error


class UnorderedBatch(Batch, frozen=True):
    """Messages of a batch in any order."""

    def parts_behind(self, position: str | None) -> Iterator[tuple[Sequence[bytes], str]]:
        """Sort messages by their bytes if they need several appends, and leave out those that are stored."""
        stored: BatchDigest = (
            BatchDigest(0, -1, _Digest().value) if position is None else self._read(position, BatchDigest)
        )
        if stored.count == stored.of:
            return
        several = position is not None or len(self.divide(self.messages)) > 1
        messages = sorted(self.messages) if several else self.messages
        count, digest = stored.count, _Digest()
        digest.add(messages[:count])
        if digest.value != stored.digest:
            raise BatchUncertain(
                f"batch {self.epoch} was written to {self.stream!r} in part, and has other rows now that it is run "
                "again: without orderBy the new ones can't be identified. Compare the stream with the rows, and "
                "begin with a new checkpoint"
            )
        for part in self.divide(messages[count:]):
            digest.add(part)
            count += len(part)
            yield part, _text(BatchDigest(count, len(messages), digest.value))

    def _complete_numbered(self, connection: Connection) -> None:
        """Do nothing: a batch without a place was one append."""


class LetterBatch(Batch, frozen=True):
    """Messages of a batch that are identified by texts, by which they are sorted. Each is an append of its own."""

    order: pa.Table

    def parts_behind(self, position: str | None) -> Iterator[tuple[Sequence[bytes], str]]:
        """Leave out messages up to a place. Each has a place of its own, so it does not matter if others were lost."""
        stored = [] if position is None else self._read(position, list[str])
        for *place, message in zip(*(column.to_pylist() for column in self.order.columns), self.messages, strict=True):
            if place > stored:
                yield [message], _text(place)

    def _append_alone(self, connection: Connection) -> bool:
        return False


class OrderedBatch(Batch, frozen=True):
    """Messages of a batch, sorted by the columns of an order and then by their bytes."""

    order: pa.Table

    def parts_behind(self, position: str | None) -> Iterator[tuple[Sequence[bytes], str]]:
        """Leave out messages up to a place, which may be that of a message that was lost."""
        end = 0 if position is None else self._find_end(position)
        order = list(zip(*map(_texts_of, self.order.columns), strict=True))
        counts = list(self._counts(order))
        for part in self.divide(self.messages[end:]):
            end += len(part)
            yield part, self._place(order[end - 1], self.messages[end - 1], counts[end - 1])

    def _counts(self, order: Sequence[tuple[str | None, ...]]) -> Iterator[int]:
        """Count, for each row, the equal rows up to it, which are next to each other."""
        count, before = 0, None
        for row in zip(order, self.messages, strict=True):
            count = count + 1 if row == before else 1
            before = row
            yield count

    def _place(self, order: tuple[str | None, ...], message: bytes, count: int) -> str:
        place = Place(order, message[:_BEGINNING_BYTES], _digest(message), count)
        text = _text(place)
        if len(text) > MAX_POSITION_BYTES:
            raise InvalidRow(
                f"a row for {self.stream!r} has too long values in the columns of orderBy, for a batch that needs "
                f"several appends: written down they have {len(text)} of at most {MAX_POSITION_BYTES} characters. "
                "Order by shorter columns"
            )
        return text

    def _find_end(self, position: str) -> int:
        """Find the end of what was appended: count the rows up to a place, which may be among the lost ones."""
        place: Place = self._read(position, Place)
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


class _Digest:
    """A digest of messages that are added one by one."""

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=_DIGEST_BYTES)

    def add(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            self._hash.update(len(message).to_bytes(8))
            self._hash.update(message)

    @property
    def value(self) -> bytes:
        return self._hash.digest()


def _text(place: object) -> str:
    return json.dumps(msgspec.to_builtins(place))  # in ASCII, as headers are


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
