"""Turns changes of Postgres into messages of streams, in the order in which transactions were committed.

The result depends only on the position, on the tables as they were when the capture began, and on the changes, so the
same changes from the same position give the same messages. Changes are numbered within their transaction, also those of
tables that are not captured. The messages of a change stay together:

- a key or a stream that changes is a delete of the old row and an insert of the new one;
- a table whose columns have changed is described by a message of its own, before the first row with these columns;
- a truncated table is a reset of its streams. Streams with rows of other tables can't be reset for one of them.

A change describes the columns at its time, without the key; the catalog has the current key. A column keeps its number
there when it is renamed. A key of other columns is refused, because no message would remove the entities with old keys.

Postgres logs old rows in whole or by their key, as set for each table (REPLICA IDENTITY) and each partition. But
changes of partitions are sent as those of their root: if the root is set to whole rows and the partition is not, its
old rows seem to be whole, with NULL in every column besides the key.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from everbrook.spark.postgres.capture_position import CapturePosition, Shape, format_lsn
from everbrook.spark.postgres.change_messages import (
    SCHEMA,
    Captured,
    Event,
    Headers,
    Row,
    RowWriter,
    Types,
    unchanged_header,
)
from everbrook.spark.postgres.errors import START_OVER, CaptureRefused, ChangesLost
from everbrook.spark.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Tuple,
    Update,
)
from everbrook.spark.postgres.routing import Order, Streams

WHOLE = "f"
_WRITTEN_ALIKE = ((20, 21, 23), (25, 1043))
"""The types int8, int2 and int4; text and varchar."""
ONTO_SHARED = ("fail", "reset", "ignore")
"""The actions for a truncated table whose streams have rows of other tables too."""


class OldRows:
    """Distinguishes whole old rows from those that only seem to be whole."""

    def __init__(self, tables: Mapping[int, Captured]) -> None:
        self._captured = tables
        self._before: int | None = None
        self._roots_by_leaf: dict[int, int] = {}

    def clear(self) -> None:
        """Drop the state of an earlier connection."""
        self._before = None
        self._roots_by_leaf.clear()

    def note(self, message: Relation) -> None:
        """Note the identity of a table. Postgres sends a partition directly after its root."""
        root, self._before = self._before, message.id
        if message.identity == WHOLE:
            self._roots_by_leaf.pop(message.id, None)
        elif root is not None and message.id not in self._captured and self._partitioned(root):
            self._roots_by_leaf[message.id] = root

    def _partitioned(self, relation_id: int) -> bool:
        return relation_id in self._captured and self._captured[relation_id].partitioned

    def whole(self, message: Update | Delete, others: tuple[int, ...]) -> bool:
        """Return whether a change has the whole old row. `others` are the columns besides the key."""
        old = message.old
        if old is None or not message.whole:
            return False
        if not self._roots_by_leaf or message.relation_id not in self._roots_by_leaf.values() or not others:
            return True
        return any(old[place] is not None for place in others)


def needs_whole(shape: Shape, relation: Relation, place: int | None) -> bool:
    """Return whether the key or the stream of an old row is known only if the row is whole."""
    by_column = place is not None and shape.columns[place].name not in shape.key
    by_other_key = relation.identity != WHOLE and not relation.identifying.issuperset(shape.key)
    return by_column or by_other_key or not shape.attributes


def not_whole(table: str, lsn: int) -> ChangesLost:
    """Make the error for a change whose old row was not logged in full."""
    return ChangesLost(
        f"a row of {table} was changed at {format_lsn(lsn)}, and Postgres has not logged all of the row before, which "
        "its stream or key is known from: the table, or a partition of it that was made since, was not set to REPLICA "
        f"IDENTITY FULL. {START_OVER}"
    )


class Inspector(Protocol):
    """Reads the catalog."""

    def key_of(self, relation_id: int) -> Mapping[int, str] | None:
        """Return the primary key of a table by the numbers of its columns. None if the table no longer exists."""
        ...

    def types_of(self, shape: Shape) -> Types:
        """Return the types of the columns, by which values are written."""
        ...

    def describe(self, shape: Shape) -> list[dict[str, Any]]:
        """Return the names and types of the columns."""
        ...


def shape_of(table: str, relation: Relation, before: Shape, inspector: Inspector) -> Shape:
    """Decide which columns are the key of a table that has these columns."""
    if relation.columns == before.columns and not before.attributes:
        return before
    now = inspector.key_of(relation.id) if before.attributes else None
    if now is not None and tuple(now) != before.attributes:
        raise CaptureRefused(
            f"the primary key of {table} was {_listed(before.key)}, and is {_listed(tuple(now.values()))} now: its "
            f"messages would have other keys than before. {START_OVER}"
        )
    names = {column.name for column in relation.columns}
    for key in (before.key, tuple(now.values()) if now else ()):
        if key and names.issuperset(key):
            _require_same_texts(table, before, relation, key)
            return Shape(relation.columns, key, before.attributes)
    raise CaptureRefused(
        f"the key of {table} was {_listed(before.key)}, and its columns are {_listed(tuple(names))} now. {START_OVER}"
    )


def _require_same_texts(table: str, before: Shape, relation: Relation, key: tuple[str, ...]) -> None:
    """Refuse another type of a key column, whose values would be other text than before."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in relation.columns}
    for was, is_now in zip(before.key, key, strict=True):
        if _written(old[was]) != _written(new[is_now]):
            raise CaptureRefused(
                f"the column {is_now!r} of the key of {table} has another type than before: its messages would have "
                f"other keys. {START_OVER}"
            )


def _written(column: Column) -> tuple[int, int]:
    """Return what the text of a value depends on. All integers are written alike, and so are texts of any length."""
    alike = next((kind for kind in _WRITTEN_ALIKE if column.type_oid in kind), None)
    return (alike[0], -1) if alike else (column.type_oid, column.modifier)


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})"


class _Table:
    """A captured table in its current shape."""

    def __init__(self, captured: Captured, writer: RowWriter, place: int | None, stream: str | None) -> None:
        self.captured, self.name = captured, captured.name
        self.writer = writer
        self.place = place
        self.stream = stream
        self.needs_whole = False  # whether a change needs the whole old row
        columns, key = writer.shape.columns, writer.shape.key
        self.others = tuple(at for at, column in enumerate(columns) if column.name not in key)
        self.described = False  # whether its shape is the one that was described last


class Transcriber:
    """Turns the messages of a slot into messages of streams, from a position on."""

    def __init__(
        self,
        tables: Mapping[int, Captured],
        streams: Streams,
        inspector: Inspector,
        position: CapturePosition,
        *,
        on_truncate: str = "fail",
        old_values: bool = True,
    ) -> None:
        self._captured = tables
        self._names = frozenset(table.name for table in tables.values())
        self._streams = streams
        self._inspector = inspector
        self._on_truncate = on_truncate
        self._old_values = old_values
        self._shapes = dict(position.shapes)
        self._done = position.order
        self._tables: dict[int, _Table | Relation | None] = {}
        self._old_rows = OldRows(tables)
        self._headers = Headers(0)
        self._lsn = self._number = 0
        self._prefix = ""
        self.within = False
        """Whether a transaction has begun whose end has not come yet."""
        self._writes: dict[type, Callable[..., Iterator[Row]]] = {
            Insert: self._insert,
            Update: self._update,
            Delete: self._delete,
        }

    def reconnected(self) -> None:
        """Begin a new connection, which repeats everything that was not confirmed."""
        self.within = False
        self._tables.clear()
        self._old_rows.clear()

    def feed(self, message: Message) -> Event | None:
        """Take the next message."""
        if isinstance(message, Insert | Update | Delete | Truncate):
            # Skipped changes are numbered too: a position means the same, whichever tables are captured.
            self._number += 1
            order = self._lsn, self._number
            # After a reconnection Postgres repeats changes that were not confirmed.
            return self._change(message, order) if order > self._done else None
        if isinstance(message, Begin):
            self._headers = Headers(message.commit_lsn, message.xid, message.committed_at_us)
            self._lsn, self._number, self.within = message.commit_lsn, 0, True
            self._prefix = f"{self._lsn:016x}-"
        elif isinstance(message, Commit):
            self.within = False
            return self.reached(message.end_lsn)
        else:
            self._old_rows.note(message)
            self._tables[message.id] = message if message.id in self._captured else None
        return None

    def reached(self, lsn: int) -> Event | None:
        """Note that everything committed before an LSN was sent. None if that was known."""
        if self.within or (lsn, 0) <= self._done:
            return None
        self._done = (lsn, 0)
        return Event(self._done, [], self._shapes)

    def _change(self, message: Insert | Update | Delete | Truncate, order: Order) -> Event:
        if isinstance(message, Truncate):
            rows = self._truncate(message, order)
        else:
            table = self._table(message.relation_id)
            if table is None:
                rows = []
            else:
                rows = list(self._writes[type(message)](table, message, order))
                if not table.described:
                    rows = self._describe_shape(table, message, order) + rows
        self._done = order
        return Event(order, rows, self._shapes, sum(len(row.value) for row in rows))

    def _table(self, relation_id: int) -> _Table | None:
        """Find a table in its current shape, which is computed when the first row comes."""
        found = self._tables[relation_id]
        if isinstance(found, Relation):
            found = self._tables[relation_id] = self._in_shape(self._captured[relation_id], found)
        return found

    def _in_shape(self, captured: Captured, relation: Relation) -> _Table:
        before = self._shapes.get(captured.name, captured.shape)
        shape = shape_of(captured.name, relation, before, self._inspector)
        writer = RowWriter(captured.name, shape, self._inspector.types_of(shape))
        place = self._streams.place(shape, captured.name)
        stream = None if place is not None else self._streams.of_table(captured.name, (0, 0))[0]
        table = _Table(captured, writer, place, stream)
        table.needs_whole = needs_whole(shape, relation, place)
        return table

    def _describe_shape(self, table: _Table, message: Insert | Update | Delete, order: Order) -> list[Row]:
        """Write the message that describes new columns of a table, if they have changed."""
        shape = table.writer.shape
        before = self._shapes.get(table.name, table.captured.shape)
        table.described = True
        if shape.columns == before.columns:
            return []
        value = {"table": table.name, "columns": self._inspector.describe(shape), "key": shape.key}
        description = {"type": SCHEMA, "key": table.name, "value": value}
        text = msgspec.json.encode(description)[:-1] + self._headers.upsert
        values = message.old if isinstance(message, Delete) else message.new
        names = {*self._streams.of_table(table.name, order), self._stream(table, values, order)}
        key = msgspec.json.encode(table.name)
        self._shapes = {**self._shapes, table.name: shape}
        return [self._row(name, order, 0, text, table.name, "schema", key) for name in sorted(names)]

    def _stream(self, table: _Table, values: Tuple, order: Order) -> str:
        if table.stream is not None:
            return table.stream
        assert table.place is not None  # noqa: S101 - a table has a stream, or a column that names it
        return self._streams.of_row(values, table.place, order)

    def _row(
        self, stream: str, order: Order, place: int, value: bytes, table: str, operation: str, key: bytes | None
    ) -> Row:
        offset = f"{self._prefix}{order[1]:010d}-{place}"
        return Row(stream, offset, value, self._headers.time_us, table, operation, key)

    def _insert(self, table: _Table, message: Insert, order: Order) -> Iterator[Row]:
        writer, new = table.writer, message.new
        key = writer.key(new)
        value = writer.set(key, writer.value(new), self._headers.insert)
        yield self._row(self._stream(table, new, order), order, 2, value, table.name, "insert", key)

    def _update(self, table: _Table, message: Update, order: Order) -> Iterator[Row]:
        writer, old, whole = table.writer, message.old, self._whole(table, message)
        new = _completed(message.new, old) if old is not None and whole else message.new
        key, stream = writer.key(new), self._stream(table, new, order)
        old_value = writer.value(old) if old is not None and whole and self._old_values else None
        if old is not None:
            old_key = writer.key(old)
            old_stream = self._stream(table, old, order) if whole else stream
            if (old_key, old_stream) != (key, stream):
                removed = writer.remove(old_key, old_value, self._headers.delete)
                yield self._row(old_stream, order, 1, removed, table.name, "delete", old_key)
                value = self._set(writer, key, new, None, self._headers.insert)
                yield self._row(stream, order, 2, value, table.name, "insert", key)
                return
        value = self._set(writer, key, new, old_value, self._headers.update)
        yield self._row(stream, order, 2, value, table.name, "update", key)

    def _whole(self, table: _Table, message: Update | Delete) -> bool:
        """Return whether the whole old row is known. Refuse a change that requires it."""
        whole = self._old_rows.whole(message, table.others)
        if table.needs_whole and not whole:
            raise not_whole(table.name, self._lsn)
        return whole

    def _set(self, writer: RowWriter, key: bytes, new: Tuple, old: bytes | None, headers: bytes) -> bytes:
        if UNCHANGED in new:
            names = [c.name for c, value in zip(writer.shape.columns, new, strict=True) if value is UNCHANGED]
            return writer.set(key, writer.known_value(new), unchanged_header(headers, names))
        if old is not None:
            return writer.set_over(key, writer.value(new), old, headers)
        return writer.set(key, writer.value(new), headers)

    def _delete(self, table: _Table, message: Delete, order: Order) -> Iterator[Row]:
        writer, old = table.writer, message.old
        old_value = writer.value(old) if self._whole(table, message) and self._old_values else None
        key = writer.key(old)
        value = writer.remove(key, old_value, self._headers.delete)
        yield self._row(self._stream(table, old, order), order, 2, value, table.name, "delete", key)

    def _truncate(self, message: Truncate, order: Order) -> list[Row]:
        ids = [each for each in message.relation_ids if each in self._captured]
        emptied = frozenset(self._captured[each].name for each in ids)
        rows: dict[str, Row] = {}
        for name in sorted(emptied):
            if self._may_reset(name, emptied):
                for stream in self._streams.of_table(name, order):
                    rows[stream] = self._row(stream, order, 2, self._headers.reset, name, "truncate", None)
        return list(rows.values())

    def _may_reset(self, name: str, emptied: frozenset[str]) -> bool:
        beside = self._streams.shared(name, self._names) - emptied
        if not beside or self._on_truncate == "reset":
            return True
        if self._on_truncate == "ignore":
            return False
        raise CaptureRefused(
            f"{name} was truncated at {format_lsn(self._lsn)}, and its rows share streams with those of "
            f"{', '.join(sorted(beside))}: a reset would void these too. Set onTruncate to reset (and write those rows "
            "again), or to ignore (and leave the truncated rows in the streams); or give each table a stream of its own"
        )


def _completed(new: Tuple, old: Tuple) -> Tuple:
    """Complete an update with the large values that it has not touched, from the old row."""
    if UNCHANGED not in new:
        return new
    return [before if value is UNCHANGED else value for value, before in zip(new, old, strict=True)]
