"""State mode: each entity is a row with the result of its last change.

The changes of a transaction are folded first (`entity_changes`). A row is only replaced or deleted by a change that
comes after the one that made it, in the same stream, so a batch that is read again does nothing. A reset deletes the
rows of its stream.

A row names its message in two columns, which keep an older change from replacing it. Its primary key names the entity:
the key alone, or type and stream too where entities of several types or streams share a table.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
from msgspec import Struct
from psycopg import sql
from psycopg.sql import SQL, Composed, Identifier

from everbrook.protocol.state_changes import (
    Append as AppendChange,
    Change,
    InvalidChange,
    Remove,
    Set,
    StateMessage,
    shown,
)
from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.bisection import Bisection, Refused, RowRefused
from everbrook.spark.postgres.copy_text import (
    ARRAYS,
    JSON,
    JSONB,
    NUL,
    PLAIN,
    UNREADABLE,
    column_of,
    data_of,
    decode_json,
    encode_json,
    numbers_of,
    rows_of,
)
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.entity_changes import (
    KEYS_TABLE,
    NUMBER,
    Entity,
    EntityFold,
    Final,
    HeldKeys,
    Keys,
    LocatedMessage,
    StoredValue,
    parse_located,
)
from everbrook.spark.postgres.mapping import (
    KEY_PATH,
    OFFSET,
    OFFSET_PATH,
    STREAM,
    STREAM_PATH,
    TYPE_PATH,
    VALUE,
    VALUE_PATH,
    MappedColumn,
    Mapper,
    Mapping,
    Path,
)
from everbrook.spark.postgres.table import TargetTable, names, require_unchanged

_ENTITY: tuple[Path, ...] = (STREAM_PATH, TYPE_PATH, KEY_PATH)
_CHUNK = Identifier("everbrook_changed")
_OF_JSON = {JSON, JSONB}


class StateShape(Struct, frozen=True):
    """The columns of a table that identify the entity of a row, and the message that wrote it."""

    table: TargetTable
    mapping: Mapping
    key: tuple[tuple[str, int], ...]
    """The columns of its key, and which part of an entity each is."""
    stream: str
    offset: str
    value: MappedColumn | None
    """The column that has the whole value. Appends need it."""
    entity_type: str | None


def shape_of(table: TargetTable, mapping: Mapping, entity_type: str | None) -> StateShape:
    """See whether a table can store_keys states, or say what is missing."""
    stream, offset = mapping.column_at(STREAM_PATH), mapping.column_at(OFFSET_PATH)
    if stream is None or offset is None:
        raise InvalidOption(
            "mode='state' needs a column for '@stream' and one for '@offset', which keep a row from going back: "
            f"ALTER TABLE {table.name} ADD COLUMN _stream text, ADD COLUMN _offset text"
        )
    paths = {place.column: place.path for place in mapping.places}
    primary = table.primary
    if primary is None or not all(paths.get(column) in _ENTITY for column in primary.columns):
        raise InvalidOption(
            f"mode='state' needs a primary key of {table.name!r} whose columns are filled from 'key', and from "
            f"'type' or '@stream' too to distinguish these, got {', '.join(primary.columns) if primary else 'none'}"
        )
    key = tuple((column, _ENTITY.index(paths[column])) for column in primary.columns)
    parts = {part for _, part in key}
    if _ENTITY.index(KEY_PATH) not in parts or (_ENTITY.index(TYPE_PATH) not in parts and entity_type is None):
        raise InvalidOption(
            f"entities of several types would share the rows of {table.name!r}: take 'key' and 'type' into its "
            "primary key, or choose one type with entity_type"
        )
    value = next((place for place in mapping.places if place.path == VALUE_PATH and place.kind not in ARRAYS), None)
    return StateShape(table, mapping, key, stream, offset, value, entity_type)


class Upsert:
    """Writes changes to the rows of their entities."""

    def __init__(self, shape: StateShape) -> None:
        self._shape = shape
        self._mapper = Mapper(shape.mapping)
        self._keys = Keys(shape.table, shape.key)
        self._copied: list[int] = []
        """The places of the messages whose lines were copied last: the database reports a refused row by its line."""

    def write(self, cursor: Cursor, rows: pa.RecordBatch, anew: Sequence[str]) -> Refused:
        """Write rows, and return those that do not fit.

        All rows of streams that were created again are deleted first.
        """
        self._clear(cursor, dict.fromkeys(anew))
        located, refused = self._located(rows)
        places = sorted(located)
        numbers = {place: number for number, place in enumerate(places)}

        def attempt(start: int, end: int) -> None:
            try:
                self._write(cursor, rows, located, places[start:end])
            except RowRefused as refusal:
                raise RowRefused(None if refusal.place is None else numbers[refusal.place], refusal.reason) from refusal

        def refused_by_database(_error: psycopg.Error) -> bool:
            require_unchanged(cursor, self._shape.table, self._shape.mapping.columns)
            return False

        def place_of(_start: int, line: int) -> int | None:
            return numbers[self._copied[line]] if line < len(self._copied) else None

        found = Bisection(cursor, attempt, refused_by_database, place_of).write(len(places))
        return refused | {places[place]: reason for place, reason in found.items()}

    def _located(self, rows: pa.RecordBatch) -> tuple[dict[int, LocatedMessage], Refused]:
        located: dict[int, LocatedMessage] = {}
        refused: Refused = {}
        columns = (rows.column(name).to_pylist() for name in (STREAM, OFFSET, VALUE))
        for place, (stream, offset, payload) in enumerate(zip(*columns, strict=True)):
            try:
                each = parse_located(stream, offset or "", payload.encode() if isinstance(payload, str) else payload)
                self._require_possible(each)
                located[place] = each
            except InvalidChange as error:
                refused[place] = str(error)
        return located, refused

    def _require_possible(self, located: LocatedMessage) -> None:
        """Refuse a key that no row can have, and a change that needs a current value which the table does not keep."""
        message, value = located.message, self._shape.value
        if not isinstance(message, Change) or self._shape.entity_type not in {None, message.type}:
            return
        if "\0" in message.type + message.key:
            raise InvalidChange(f"its key {NUL}")
        if located.unchanged and (value is None or value.kind not in _OF_JSON):
            raise InvalidChange(
                f"leaves out {', '.join(located.unchanged)}, and {self._shape.table.name} has no column for the whole "
                "'value', to take it from: capture tables with replicaIdentity=full"
            )
        if not isinstance(message, AppendChange):
            return
        if value is None:
            raise InvalidChange(f"{self._shape.table.name} has no column for the whole 'value', to which it appends")
        if value.kind == PLAIN and not isinstance(message.value, str):
            raise InvalidChange(f"the column {value.column} is of text, and {shown(message.value)} is none")

    def _entity_of(self, located: LocatedMessage, change: Change) -> Entity | None:
        if self._shape.entity_type not in {None, change.type}:
            return None
        parts = {part for _, part in self._shape.key}
        stream, type_, key = (
            part if place in parts else "" for place, part in enumerate((located.stream, change.type, change.key))
        )
        return stream, type_, key

    def _write(
        self, cursor: Cursor, rows: pa.RecordBatch, located: dict[int, LocatedMessage], places: Sequence[int]
    ) -> None:
        """Write the result of the changes of some rows. Without rows, the statements still run, to test the table."""
        asked = self._asked(located, places)
        self._copied = list(asked.values())
        held = self._keys.store_keys(cursor, asked)

        def entity_of(each: LocatedMessage, change: Change) -> Entity | None:
            entity = self._entity_of(each, change)
            return None if entity is None else held.named(entity)

        folding = EntityFold(located, entity_of)
        folded = folding.fold(places, self._current(cursor, held, folding.appended_first(places)))
        self._clear(cursor, dict(folded.cleared))
        removed = {held.numbers[entity]: located[each.place] for entity, each in folded.finals.items() if each.removed}
        kept = [final for final in folded.finals.values() if not final.removed]
        # A statement runs even without rows: an attempt at no rows shows whether the table itself is at fault.
        if removed or not kept:
            self._delete(cursor, removed)
        if kept or not removed:
            self._upsert(cursor, _rows(rows, located, kept), [final.place for final in kept])

    def _asked(self, located: dict[int, LocatedMessage], places: Sequence[int]) -> dict[Entity, int]:
        """Find the entities whose keys the database must compare, and the first place of each."""
        compared = (Remove, AppendChange) if self._keys.verbatim else (Set, Remove, AppendChange)
        asked: dict[Entity, int] = {}
        for place in places:
            message = located[place].message
            entity = self._entity_of(located[place], message) if isinstance(message, Change) else None
            if entity is not None and (isinstance(message, compared) or located[place].unchanged):
                asked.setdefault(entity, place)
        return asked

    # Statements

    def _clear(self, cursor: Cursor, cleared: dict[str, str | None]) -> None:
        """Delete the rows of streams, up to an offset if there is one."""
        shape = self._shape
        for stream, offset in cleared.items():
            cursor.execute(
                SQL('DELETE FROM {} WHERE {} = %s AND (%s::text IS NULL OR {}::text COLLATE "C" < %s)').format(
                    shape.table.identifier, Identifier(shape.stream), Identifier(shape.offset)
                ),
                [stream, offset, offset],
            )

    def _current(self, cursor: Cursor, held: HeldKeys, entities: set[Entity]) -> dict[Entity, StoredValue]:
        """Lock the rows of entities, and return their values."""
        shape = self._shape
        if not entities or shape.value is None:
            return {}
        value = Identifier("r", shape.value.column)
        of_json = shape.value.kind in _OF_JSON
        statement = SQL("SELECT e.{}, {}, {} FROM {} r JOIN {} e ON {} WHERE e.{} = ANY(%s) FOR UPDATE OF r").format(
            NUMBER,
            SQL("{}::text").format(value) if of_json else value,
            names((shape.stream, shape.offset), "r"),
            shape.table.identifier,
            KEYS_TABLE,
            self._keys.same(),
            NUMBER,
        )
        by_number = {held.numbers[entity]: entity for entity in entities}
        found: list[Any] = cursor.execute(statement, [list(by_number)]).fetchall()
        return {by_number[row[0]]: StoredValue(_read(row[1]) if of_json else row[1], *row[2:]) for row in found}

    def _delete(self, cursor: Cursor, removed: dict[int, LocatedMessage]) -> None:
        shape = self._shape
        statement = SQL("DELETE FROM {} r USING {} e JOIN {} ON c.number = e.{} WHERE {} AND {}").format(
            shape.table.identifier,
            KEYS_TABLE,
            SQL('unnest(%s::int[], %s::text[], %s::text[]) AS c(number, stream, "offset")'),
            NUMBER,
            self._keys.same(),
            self._behind("r", SQL("c.stream"), SQL('c."offset"')),
        )
        streams, offsets = (
            [located.stream for located in removed.values()],
            [located.offset for located in removed.values()],
        )
        cursor.execute(statement, [list(removed), streams, offsets])

    def _behind(self, row: str, stream: sql.Composable, offset: sql.Composable) -> Composed:
        """Return the condition that a change comes after the one that wrote a row, or is of another stream."""
        return SQL('({} IS DISTINCT FROM {} OR {}::text COLLATE "C" < {}::text COLLATE "C")').format(
            Identifier(row, self._shape.stream), stream, Identifier(row, self._shape.offset), offset
        )

    def _upsert(self, cursor: Cursor, rows: pa.RecordBatch, places: list[int]) -> None:
        mapped = self._mapper.read(rows)
        for place, reason in mapped.misfits.items():
            raise RowRefused(places[place], reason)
        self._copied = places
        columns, target = self._shape.mapping.columns, self._shape.table.identifier
        cursor.execute(
            SQL("CREATE TEMP TABLE IF NOT EXISTS {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA").format(
                _CHUNK, names(columns), target
            )
        )
        with cursor.copy(SQL("COPY {} ({}) FROM STDIN").format(_CHUNK, names(columns))) as copy:
            copy.write(data_of(rows_of(mapped.columns)))
        cursor.execute(self._merging())
        cursor.execute(SQL("DELETE FROM {}").format(_CHUNK))

    def _merging(self) -> Composed:
        shape = self._shape
        columns, table = shape.mapping.columns, shape.table
        excluded = (Identifier("excluded", shape.stream), Identifier("excluded", shape.offset))
        return SQL("INSERT INTO {} AS r ({}) SELECT {} FROM {} ON CONFLICT ({}) DO UPDATE SET {} WHERE {}").format(
            table.identifier,
            names(columns),
            names(columns),
            _CHUNK,
            names(column for column, _ in shape.key),
            SQL(", ").join(SQL("{0} = excluded.{0}").format(Identifier(name)) for name in columns),
            self._behind("r", *excluded),
        )


def _read(text: str | None) -> Any:
    try:
        return None if text is None else decode_json(text)
    except UNREADABLE as error:
        raise RowRefused(None, f"the value to which it appends can't be read: {error}") from None


def _rows(rows: pa.RecordBatch, located: dict[int, LocatedMessage], finals: list[Final]) -> pa.RecordBatch:
    """Return the rows of the last changes.

    Those that append are written as if they had set the resulting value.
    """
    chosen = rows.take(numbers_of([final.place for final in finals]))
    if all(final.appended is msgspec.UNSET for final in finals):
        return chosen
    values = [
        value.as_py() if final.appended is msgspec.UNSET else _whole(located[final.place].message, final)
        for value, final in zip(chosen.column(VALUE).cast(pa.binary()), finals, strict=True)
    ]
    place = chosen.schema.get_field_index(VALUE)
    return chosen.set_column(place, VALUE, column_of(values).cast(chosen.schema.field(place).type))


def _whole(message: StateMessage, final: Final) -> bytes:
    type_, key = getattr(message, "type", None), getattr(message, "key", None)
    try:
        return encode_json({"type": type_, "key": key, "value": final.appended})
    except RecursionError as error:
        raise RowRefused(final.place, f"the resulting value is nested too deeply: {error}") from None
