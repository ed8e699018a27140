"""Keys: entities as the columns of a table's primary key have them, while changes are written.

A column may have one value for several texts (`1` and `01` of an int, both cases of a UUID), refuse some, or keep less
than was given. Keys are therefore copied to a table of the same columns first, just as rows are: what one change sets
and another removes is the same row if the database says so, and a key that no row can have is refused in both.
"""

from collections.abc import Iterable

import pyarrow as pa
from msgspec import Struct
from psycopg.sql import SQL, Composed, Identifier

from everbrook.spark.postgres.copying import column_of, data_of, rows_of
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.tables import Table, names

Entity = tuple[str, str, str]
"""Stream, type and key. Where a table does not tell streams or types apart, theirs are empty."""

HELD, NUMBER = Identifier("everbrook_keys"), Identifier("everbrook_number")
_CREATE = SQL("CREATE TEMP TABLE IF NOT EXISTS {} ON COMMIT DELETE ROWS AS SELECT 0 AS {}, {} FROM {} WITH NO DATA")
_COPY = SQL("COPY {} ({}, {}) FROM STDIN")
_SAME = SQL("SELECT * FROM (SELECT {0}, min({0}) OVER (PARTITION BY {1}) AS first FROM {2}) k WHERE {0} <> first")


class Held(Struct, frozen=True):
    """Entities whose keys are held, by their numbers."""

    numbers: dict[Entity, int]
    firsts: dict[Entity, Entity]
    """By which entity one goes that has the key of another: the first of them."""

    def named(self, entity: Entity) -> Entity:
        """Give the entity that stands for all that have its key."""
        return self.firsts.get(entity, entity)


class Keys:
    """The keys of entities, in a table that lasts as long as the connection, with rows for as long as an attempt."""

    def __init__(self, table: Table, key: tuple[tuple[str, int], ...]) -> None:
        """Take the columns of the key, and which part of an entity each is."""
        self._table = table
        self._key = key
        self._columns = [column for column, _ in key]
        self.verbatim = all(table.columns[column].verbatim for column in self._columns)
        """Whether entities that differ have keys that differ, so that nobody has to be asked."""

    def hold(self, cursor: Cursor, entities: Iterable[Entity]) -> Held:
        """Copy the keys of entities, in place of those before."""
        numbers = {entity: number for number, entity in enumerate(dict.fromkeys(entities))}
        cursor.execute(_CREATE.format(HELD, NUMBER, names(self._columns), self._table.identifier))
        if not numbers:
            return Held({}, {})
        cursor.execute(SQL("DELETE FROM {}").format(HELD))
        with cursor.copy(_COPY.format(HELD, NUMBER, names(self._columns))) as copy:
            copy.write(data_of(self._lines(numbers)))
        return Held(numbers, {} if self.verbatim else self._firsts(cursor, list(numbers)))

    def _firsts(self, cursor: Cursor, entities: list[Entity]) -> dict[Entity, Entity]:
        same = cursor.execute(_SAME.format(NUMBER, names(self._columns), HELD)).fetchall()
        return {entities[int(str(number))]: entities[int(str(first))] for number, first in same}

    def same(self) -> Composed:
        """Compare the key of a row `r` with one `e` that is held."""
        return SQL(" AND ").join(SQL("r.{0} = e.{0}").format(Identifier(column)) for column in self._columns)

    def _lines(self, numbers: dict[Entity, int]) -> pa.Array:
        places = column_of([str(number).encode() for number in numbers.values()])
        parts = (column_of([entity[part].encode() for entity in numbers]) for _, part in self._key)
        return rows_of([places, *parts])
