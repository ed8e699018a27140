"""Folds changes into the last change of each entity of a table, and compares keys as the database does.

Only the last change of an entity matters, except for those that append or leave out unchanged fields: they need the
current value. A reset voids what came before it in its stream. Values are kept as they were written until something is
appended to them.

A key column may have one value for several texts (`1` and `01` of an int, both cases of a UUID), refuse some, or
truncate. Keys are therefore copied to a temporary table with the same columns first: the database decides whether two
changes concern the same row, and refuses a key that no row can have in both.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import UNSET, Struct
from psycopg.sql import SQL, Composed, Identifier

from everbrook.protocol.entities import State
from everbrook.protocol.state_changes import (
    Append,
    Change,
    InvalidChange,
    Remove,
    Reset,
    Set,
    StateMessage,
    parse_message,
    shown,
)
from everbrook.spark.postgres.bisection import RowRefused
from everbrook.spark.postgres.copy_text import UNREADABLE, column_of, data_of, decode_json, rows_of
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.table import TargetTable, names

Entity = tuple[str, str, str]
"""Stream, type and key. In a table that does not distinguish streams or types, these parts are empty."""

KEYS_TABLE, NUMBER = Identifier("everbrook_keys"), Identifier("everbrook_number")
_CREATE = SQL("CREATE TEMP TABLE IF NOT EXISTS {} ON COMMIT DELETE ROWS AS SELECT 0 AS {}, {} FROM {} WITH NO DATA")
_COPY = SQL("COPY {} ({}, {}) FROM STDIN")
_SAME = SQL("SELECT * FROM (SELECT {0}, min({0}) OVER (PARTITION BY {1}) AS first FROM {2}) k WHERE {0} <> first")


class HeldKeys(Struct, frozen=True):
    """Entities whose keys are in the temporary table, by their numbers."""

    numbers: dict[Entity, int]
    firsts: dict[Entity, Entity]
    """The first of the entities that have the same key, by the others."""

    def named(self, entity: Entity) -> Entity:
        """Return the entity that represents all with the same key."""
        return self.firsts.get(entity, entity)


class Keys:
    """The keys of entities, in a table that lasts as long as the connection, with rows for as long as an attempt."""

    def __init__(self, table: TargetTable, key: tuple[tuple[str, int], ...]) -> None:
        """Take the columns of the key, and which part of an entity each is."""
        self._table = table
        self._key = key
        self._columns = [column for column, _ in key]
        self.verbatim = all(table.columns[column].verbatim for column in self._columns)
        """Whether different entities always have different keys, so that the database need not compare them."""

    def store_keys(self, cursor: Cursor, entities: Iterable[Entity]) -> HeldKeys:
        """Copy the keys of entities into the temporary table, in place of those before."""
        numbers = {entity: number for number, entity in enumerate(dict.fromkeys(entities))}
        cursor.execute(_CREATE.format(KEYS_TABLE, NUMBER, names(self._columns), self._table.identifier))
        if not numbers:
            return HeldKeys({}, {})
        cursor.execute(SQL("DELETE FROM {}").format(KEYS_TABLE))
        with cursor.copy(_COPY.format(KEYS_TABLE, NUMBER, names(self._columns))) as copy:
            copy.write(data_of(self._lines(numbers)))
        return HeldKeys(numbers, {} if self.verbatim else self._firsts(cursor, list(numbers)))

    def _firsts(self, cursor: Cursor, entities: list[Entity]) -> dict[Entity, Entity]:
        same = cursor.execute(_SAME.format(NUMBER, names(self._columns), KEYS_TABLE)).fetchall()
        return {entities[int(str(number))]: entities[int(str(first))] for number, first in same}

    def same(self) -> Composed:
        """Return the condition that a row `r` has the key of a row `e` of the temporary table."""
        return SQL(" AND ").join(SQL("r.{0} = e.{0}").format(Identifier(column)) for column in self._columns)

    def _lines(self, numbers: dict[Entity, int]) -> pa.Array:
        places = column_of([str(number).encode() for number in numbers.values()])
        parts = (column_of([entity[part].encode() for entity in numbers]) for _, part in self._key)
        return rows_of([places, *parts])


class LocatedMessage(Struct, frozen=True):
    """A message of a stream, parsed."""

    stream: str
    offset: str
    message: StateMessage
    unchanged: tuple[str, ...] = ()
    """Fields that the value leaves out because they have not changed. A capture does so for large values that
    Postgres has not sent."""


class StoredValue(Struct, frozen=True):
    """The value of an entity in the table, and the message that wrote it."""

    value: Any
    stream: str | None
    offset: str | None


class Final(Struct, frozen=True):
    """The last change of an entity, by its place, and the value that it results in if it appends."""

    place: int
    removed: bool = False
    appended: Any = UNSET


class FoldedChanges(Struct, frozen=True):
    """The result: streams whose rows are deleted up to an offset, and the last changes of entities."""

    cleared: dict[str, str]
    finals: dict[Entity, Final]


def parse_located(stream: str, offset: str, payload: bytes) -> LocatedMessage:
    """Read a message. A ValueError says why it is no change."""
    try:
        decoded = decode_json(payload)
    except UNREADABLE as error:
        raise InvalidChange(f"is no JSON: {error}") from None
    message = parse_message(decoded)
    return LocatedMessage(stream, offset, message, _unchanged(decoded) if isinstance(message, Set) else ())


def _unchanged(decoded: dict[str, Any]) -> tuple[str, ...]:
    headers = decoded.get("headers")
    names = headers.get("unchanged") if isinstance(headers, dict) else None
    return tuple(str(name) for name in names) if isinstance(names, list) else ()


class EntityFold:
    """Folds changes of one range of rows."""

    def __init__(
        self, located: Mapping[int, LocatedMessage], entity_of: Callable[[LocatedMessage, Change], Entity | None]
    ) -> None:
        """Take the messages of rows, by their places, and the function that finds the entity of a change."""
        self._located = located
        self._entity_of = entity_of

    def appended_first(self, places: Sequence[int]) -> set[Entity]:
        """Find the entities whose current values matter: whose first change appends, or leaves something out."""
        begun: dict[Entity, bool] = {}
        for place in places:
            located = self._located[place]
            if isinstance(located.message, Set | Remove | Append):
                entity = self._entity_of(located, located.message)
                if entity is not None:
                    begun.setdefault(entity, isinstance(located.message, Append) or bool(located.unchanged))
        return {entity for entity, appends in begun.items() if appends}

    def fold(self, places: Sequence[int], current: Mapping[Entity, StoredValue]) -> FoldedChanges:
        """Fold changes. One that can't be appended is a `RowRefused`."""
        fold = _Fold(self._located, current)
        for place in places:
            located = self._located[place]
            match located.message:
                case Reset():
                    fold.clear(located)
                case Set() | Remove() | Append() as change:
                    entity = self._entity_of(located, change)
                    if entity is not None:
                        fold.apply(place, entity, change)
        return FoldedChanges(fold.cleared, fold.finals)


class _Fold:
    """The result of the changes so far."""

    def __init__(self, located: Mapping[int, LocatedMessage], current: Mapping[Entity, StoredValue]) -> None:
        self._located = located
        self._current = current
        self._appended = State()
        self.cleared: dict[str, str] = {}
        self.finals: dict[Entity, Final] = {}

    def clear(self, located: LocatedMessage) -> None:
        self.cleared[located.stream] = located.offset
        finals = self.finals.items()
        self.finals = {each: final for each, final in finals if self._located[final.place].stream != located.stream}

    def apply(self, place: int, entity: Entity, change: Change) -> None:
        located = self._located[place]
        if not isinstance(change, Append) and not located.unchanged:
            self.finals[entity] = Final(place, removed=isinstance(change, Remove))
            return
        stored = self._stored_value(entity)
        if stored is not None and stored.stream == located.stream and (stored.offset or "") >= located.offset:
            return  # the table has this change already
        try:
            grown = (
                self._append(entity, change, stored)
                if isinstance(change, Append)
                else self._complete(entity, change, stored, located.unchanged)
            )
            self.finals[entity] = Final(place, appended=grown)
        except InvalidChange as error:
            raise RowRefused(place, str(error)) from None

    def _stored_value(self, entity: Entity) -> StoredValue | None:
        """Return the value in the table, unless a change or a reset of this range replaces it."""
        stored = self._current.get(entity)
        return None if stored is None or entity in self.finals or stored.stream in self.cleared else stored

    def _append(self, entity: Entity, change: Append, stored: StoredValue | None) -> Any:
        """Append to the current value, by the rule of the protocol."""
        final = self.finals.get(entity)
        type_, key = change.type, msgspec.json.encode(entity).decode()
        if final is None or final.appended is UNSET:
            self._appended.apply(Remove(type_, key))
            value = self._before(final, stored)
            if value is not UNSET:
                self._appended.apply(Set(type_, key, value))
        try:
            self._appended.apply(Append(type_, key, change.value))
        except InvalidChange as error:
            raise InvalidChange(str(error).replace(shown(key), shown(change.key))) from None
        return self._appended[type_][key]

    def _complete(self, entity: Entity, change: Change, stored: StoredValue | None, unchanged: Sequence[str]) -> Any:
        """Complete a value with the unchanged fields that it leaves out."""
        final = self.finals.get(entity)
        before = self._before(final, stored) if final is None or final.appended is UNSET else final.appended
        given = getattr(change, "value", None)
        missing = [name for name in unchanged if not isinstance(before, dict) or name not in before]
        if missing or not isinstance(given, dict):
            raise InvalidChange(f"leaves out {', '.join(missing)}, of which the row has nothing")
        value = given | {name: before[name] for name in unchanged}
        self._appended.apply(Set(change.type, msgspec.json.encode(entity).decode(), value))
        return value

    def _before(self, final: Final | None, stored: StoredValue | None) -> Any:
        if final is None:
            return UNSET if stored is None else stored.value
        message = self._located[final.place].message
        return message.value if isinstance(message, Set) else UNSET
