"""Tables of the database, as the catalog describes them.

A mapping is checked against the table before anything is written, so that the user is told which column is wrong. When
the database refuses rows, the columns are compared again with those at the start of the query: a column whose type was
changed concerns all rows.
"""

import re
from collections.abc import Iterable

from msgspec import Struct
from psycopg import sql
from psycopg.sql import Composed, Identifier

from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.copy_text import ARRAY, ARRAY_OF_BYTES, ARRAY_OF_JSON, BYTES, JSON, JSONB, PLAIN
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.errors import TableChanged

_COLUMNS = """
    SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.typname, b.typcategory, a.attnotnull,
           a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a',
           a.atttypid IN ('text'::regtype, 'varchar'::regtype) AND a.atttypmod = -1
             AND coalesce((SELECT collisdeterministic FROM pg_collation WHERE oid = a.attcollation), true)
      FROM pg_attribute a
      JOIN pg_type t ON t.oid = a.atttypid
      JOIN pg_type b ON b.oid = CASE WHEN t.typbasetype = 0 THEN t.oid ELSE t.typbasetype END
     WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""
_KEYS = """
    SELECT i.indexrelid::regclass::text, c.relname, i.indisprimary, array_agg(a.attname ORDER BY k.place)
      FROM pg_index i
      JOIN pg_class c ON c.oid = i.indexrelid
      CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k(number, place)
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
     WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL
       AND k.place <= i.indnkeyatts AND i.indimmediate
     GROUP BY 1, 2, 3 ORDER BY 2
"""
_QUOTED = r'"(?:[^"]|"")+"'
_NAME = re.compile(rf'(?:({_QUOTED}|[^".]+)\.)?({_QUOTED}|[^"]+)')


class TargetColumn(Struct, frozen=True):
    """A column, as the catalog describes it."""

    name: str
    type: str
    kind: str
    required: bool
    """Whether it is NOT NULL without a default."""
    generated: bool
    verbatim: bool
    """Whether different texts are always different values: the type neither converts nor truncates them."""


class Key(Struct, frozen=True):
    """A unique index."""

    name: str
    primary: bool
    columns: tuple[str, ...]


class TargetTable(Struct, frozen=True):
    """A table, as the catalog describes it."""

    name: str
    columns: dict[str, TargetColumn]
    keys: tuple[Key, ...]

    @property
    def identifier(self) -> Identifier:
        """Its name in a statement."""
        return identifier_of(self.name)

    def key_on(self, columns: Iterable[str]) -> Key | None:
        """Find the unique index on exactly those columns."""
        wanted = set(columns)
        return next((key for key in self.keys if set(key.columns) == wanted), None)

    def key_named(self, name: str | None) -> Key | None:
        return next((key for key in self.keys if key.name == name), None)

    @property
    def primary(self) -> Key | None:
        return next((key for key in self.keys if key.primary), None)


def identifier_of(name: str) -> Identifier:
    """Quote the name of a table, with its schema if it has one, for a statement. Both may be quoted as in SQL."""
    found = _NAME.fullmatch(name)
    if found is None:
        return Identifier(*name.split(".", 1))
    parts = (part for part in found.groups() if part)
    return Identifier(*(part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts))


def names(columns: Iterable[str], prefix: str | None = None) -> Composed:
    """Quote the names of columns, separated by commas, of the table with the alias `prefix` if one is given."""
    chosen = (Identifier(name) if prefix is None else Identifier(prefix, name) for name in columns)
    return sql.SQL(", ").join(chosen)


def exists(cursor: Cursor, name: str) -> bool:
    found = cursor.execute("SELECT to_regclass(%s)", [identifier_of(name).as_string(None)]).fetchone()
    return found is not None and found[0] is not None


def look_up(cursor: Cursor, name: str) -> TargetTable:
    quoted = identifier_of(name).as_string(None)
    if not exists(cursor, name):
        raise TableChanged(
            f"there is no table {name!r}. Create it; or let it be created, with create_table=True; or name another. "
            "Nothing is lost"
        )
    columns = [
        TargetColumn(
            str(row[0]),
            str(row[1]),
            kind=_kind(str(row[2]), str(row[3])),
            required=bool(row[4]) and not row[5],
            generated=bool(row[6]),
            verbatim=bool(row[7]),
        )
        for row in cursor.execute(_COLUMNS, [quoted])
    ]
    keys = [Key(str(row[1]), bool(row[2]), tuple(row[3])) for row in cursor.execute(_KEYS, [quoted])]  # type: ignore[arg-type]
    return TargetTable(name, {column.name: column for column in columns}, tuple(keys))


def _kind(type_name: str, category: str) -> str:
    by_name = {
        "json": JSON,
        "jsonb": JSONB,
        "bytea": BYTES,
        "_json": ARRAY_OF_JSON,
        "_jsonb": ARRAY_OF_JSON,
        "_bytea": ARRAY_OF_BYTES,
    }
    return by_name.get(type_name, ARRAY if category == "A" else PLAIN)


def require_columns(table: TargetTable, mapped: Iterable[str]) -> None:
    """Refuse a mapping for which the table lacks columns."""
    chosen = list(mapped)
    for name in chosen:
        if name not in table.columns:
            raise InvalidOption(
                f"columns names {name!r}, which {table.name!r} does not have. It has {', '.join(table.columns)}"
            )
        if table.columns[name].generated:
            raise InvalidOption(
                f"columns names {name!r}, which the database itself fills in {table.name!r}: leave it out"
            )
    for column in table.columns.values():
        if column.required and column.name not in chosen:
            raise InvalidOption(
                f"the column {column.name!r} of {table.name!r} takes no NULL and has no default: "
                "give it a place in columns"
            )


def require_unchanged(cursor: Cursor, table: TargetTable, mapped: Iterable[str]) -> None:
    """Refuse to continue with a table whose columns have changed."""
    now = look_up(cursor, table.name)
    for name in mapped:
        then = table.columns[name]
        if name not in now.columns:
            raise TableChanged(
                f"the column {name!r} of {table.name!r} is gone: add it again, or change the mapping. Nothing is lost"
            )
        if now.columns[name].type != then.type:
            raise TableChanged(
                f"the column {name!r} of {table.name!r} was of {then.type} and is of {now.columns[name].type} now: "
                "start the query again to write what fits it, or change it back. Nothing is lost"
            )


def create(cursor: Cursor, name: str, statement: str) -> None:
    """Create a table unless it exists. A role without the right to create tables may use an existing one."""
    if exists(cursor, name):
        return
    # Two queries may start at the same time, and `IF NOT EXISTS` alone can fail then.
    cursor.execute("SELECT pg_advisory_xact_lock(hashtext('everbrook'))")
    cursor.execute(sql.SQL(statement).format(table=identifier_of(name)))
