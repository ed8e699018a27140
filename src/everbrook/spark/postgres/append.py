"""Append mode: each message is a row.

Rows are copied straight into the table. A unique key of stream and offset guards against duplicates beside the
positions: rows with a key that exists were written before, as after a checkpoint was removed. They go through a
temporary table, from which only new rows are inserted. A row with an existing key and other values is a dead letter: it
belongs to a stream that was created anew, or is the second row that a query made of one message.
"""

from collections.abc import Sequence

import psycopg
import pyarrow as pa
from psycopg import sql
from psycopg.errors import UniqueViolation

from everbrook.spark.postgres.bisection import Bisection, Refused
from everbrook.spark.postgres.copy_text import data_of, numbers_of, rows_of
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.mapping import OFFSET_PATH, STREAM_PATH, Mapper, Mapping
from everbrook.spark.postgres.table import Key, TargetTable, names, require_unchanged

_CHUNK, _PLACE = sql.Identifier("everbrook_chunk"), sql.Identifier("everbrook_place")
_ALL = sql.SQL("true")
_THERE = "the table has another row for this stream and offset"


class Append:
    """Writes messages as rows."""

    def __init__(self, table: TargetTable, mapping: Mapping) -> None:
        self._table = table
        self._mapping = mapping
        self._mapper = Mapper(mapping)
        self._guard = guard_of(table, mapping)
        self.target = table.identifier

    def write(self, cursor: Cursor, rows: pa.RecordBatch, anew: Sequence[str]) -> Refused:
        """Write rows, and return those that were refused. Streams that were created anew need nothing special here."""
        mapped = self._mapper.read(rows)
        lines = rows_of(mapped.columns)
        places = [place for place in range(rows.num_rows) if place not in mapped.misfits]
        if mapped.misfits:
            lines = lines.take(numbers_of(places))
        refused = _Copying(self, cursor, lines).write()
        return mapped.misfits | {places[place]: reason for place, reason in refused.items()}

    def require_unchanged(self, cursor: Cursor) -> None:
        """Check whether the table has changed, when the database refuses a row."""
        require_unchanged(cursor, self._table, self._mapping.columns)

    def copy(self, cursor: Cursor, target: sql.Composable, lines: pa.Array) -> None:
        """Copy lines into a table."""
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(target, names(self._mapping.columns))
        with cursor.copy(statement) as copy:
            copy.write(data_of(lines))

    def violates_guard(self, error: psycopg.Error) -> bool:
        """Return whether a row violates the guard, or the index of a partition that belongs to the guard."""
        guard, name = self._guard, error.diag.constraint_name
        if guard is None or not isinstance(error, UniqueViolation):
            return False
        return name == guard.name or self._table.key_named(name) is None

    def merge(self, cursor: Cursor, lines: pa.Array) -> list[int]:
        """Write rows of which some may exist. Return the places of those that exist with other values."""
        guard = self._guard
        if guard is None:
            raise TypeError("a table without a guard has no key that a row could violate")
        columns, target = self._mapping.columns, self._table.identifier
        cursor.execute(
            sql.SQL("CREATE TEMP TABLE {} AS SELECT {} FROM {} WITH NO DATA").format(_CHUNK, names(columns), target)
        )
        # The lines are numbered, so that those that exist with other values are known by their places.
        cursor.execute(sql.SQL("ALTER TABLE {} ADD COLUMN {} serial").format(_CHUNK, _PLACE))
        self.copy(cursor, _CHUNK, lines)
        compared = (
            self._differing(guard, target),
            self._differing(guard, _CHUNK, sql.SQL("t.{0} < c.{0}").format(_PLACE)),
        )
        # Before the insert: after it, every key exists.
        other = {int(str(row[0])) - 1 for each in compared for row in cursor.execute(each).fetchall()}
        cursor.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ORDER BY {} ON CONFLICT ({}) DO NOTHING").format(
                target, names(columns), names(columns), _CHUNK, _PLACE, names(guard.columns)
            )
        )
        cursor.execute(sql.SQL("DROP TABLE {}").format(_CHUNK))
        return sorted(other)

    def _differing(self, guard: Key, there: sql.Composable, which: sql.Composable = _ALL) -> sql.Composed:
        """Select rows whose key exists with other values.

        The values are compared as text, because not all types have `=`.
        """
        same = sql.SQL(" AND ").join(sql.SQL("c.{0} = t.{0}").format(sql.Identifier(name)) for name in guard.columns)
        differs = sql.SQL(" OR ").join(
            sql.SQL("c.{0}::text IS DISTINCT FROM t.{0}::text").format(sql.Identifier(name))
            for name in self._mapping.columns
        )
        return sql.SQL("SELECT c.{} FROM {} c JOIN {} t ON {} AND {} WHERE {}").format(
            _PLACE, _CHUNK, there, same, which, differs
        )


class _Copying:
    """Copies lines, and merges all lines from the first one on that exists already."""

    def __init__(self, append: Append, cursor: Cursor, lines: pa.Array) -> None:
        self._append = append
        self._cursor = cursor
        self._lines = lines
        self._merging = False
        self._others: dict[int, str] = {}

    def write(self) -> Refused:
        return Bisection(self._cursor, self._attempt, self._refused).write(len(self._lines)) | self._others

    def _attempt(self, start: int, end: int) -> None:
        lines = self._lines.slice(start, end - start)
        if self._merging:
            self._others |= {start + place: _THERE for place in self._append.merge(self._cursor, lines)}
        else:
            self._append.copy(self._cursor, self._append.target, lines)

    def _refused(self, error: psycopg.Error) -> bool:
        """Merge from now on, if the row exists already."""
        if not self._merging and self._append.violates_guard(error):
            self._merging = True
            return True
        self._append.require_unchanged(self._cursor)
        return False


def guard_of(table: TargetTable, mapping: Mapping) -> Key | None:
    """Find the unique key of stream and offset."""
    offset, stream = mapping.column_at(OFFSET_PATH), mapping.column_at(STREAM_PATH)
    return None if offset is None or stream is None else table.key_on((stream, offset))
