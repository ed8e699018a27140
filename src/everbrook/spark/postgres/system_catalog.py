"""Reads tables, columns, keys and types from the system catalog of Postgres."""

from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from everbrook.spark.postgres.capture_position import Shape
from everbrook.spark.postgres.change_messages import BUILT_IN, Types
from everbrook.spark.postgres.errors import CaptureRefused
from everbrook.spark.postgres.pgoutput import Column
from everbrook.spark.postgres.slot import connect

Connection = psycopg.Connection[Any]

_TABLE = """
    SELECT c.oid::int8, n.nspname, c.relname, c.relkind::text, c.relpersistence::text, c.relreplident::text
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)
"""
_COLUMNS = """
    SELECT attname, atttypid::int8, atttypmod, attnum, attnotnull, attstorage::text, attgenerated::text
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
    SELECT a.attnum, a.attname FROM pg_index i
    CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
    JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
    WHERE i.indrelid = %s AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place
"""
_DEFERRABLE = """
    SELECT array_agg(a.attname::text) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
    AND a.attnum = ANY(i.indkey::int2[]) WHERE i.indrelid = %s AND i.indisunique AND NOT i.indimmediate
    GROUP BY i.indexrelid
"""
_TYPES = """
    SELECT oid::int8, typbasetype::int8, typelem::int8, typoutput = 'array_out'::regproc AND typdelim = ','
    FROM pg_type WHERE oid = ANY(%s)
"""
_LEAVES = """
    SELECT relid::oid::int8, n.nspname, c.relname, c.relreplident::text, c.relkind::text
    FROM pg_partition_tree(%s::oid) JOIN pg_class c ON c.oid = relid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE isleaf
"""


class Table(Struct, frozen=True):
    """A table as the catalog describes it."""

    oid: int
    schema: str
    name: str
    identity: str
    partitioned: bool
    columns: tuple[Column, ...]
    key: Mapping[int, str]
    not_null: frozenset[str]
    toastable: bool
    deferrable: frozenset[frozenset[str]] = frozenset()
    """Columns that are unique only when a transaction ends."""

    @property
    def full_name(self) -> str:
        """The name with its schema."""
        return f"{self.schema}.{self.name}"

    @property
    def type(self) -> str:
        """The name that messages have as their type: without the schema, if that is `public`."""
        return self.name if self.schema == "public" else self.full_name

    @property
    def identifier(self) -> sql.Composable:
        return sql.Identifier(self.schema, self.name)

    def shape(self, key_columns: tuple[str, ...]) -> Shape:
        """Decide on the key: the primary key, unless other columns are given."""
        if key_columns:
            return Shape(self.columns, key_columns)
        return Shape(self.columns, tuple(self.key.values()), tuple(self.key))


class Leaf(Struct, frozen=True):
    """A table that stores rows: an ordinary table, or a partition."""

    oid: int
    schema: str
    name: str
    identity: str

    @property
    def identifier(self) -> sql.Composable:
        return sql.Identifier(self.schema, self.name)


def find_table(connection: Connection, name: str) -> Table:
    """Look up a table by its name in SQL."""
    try:
        row = connection.execute(_TABLE, [name]).fetchone()
    except psycopg.errors.InvalidName as error:
        raise CaptureRefused(f"the option tables must have names of tables, got {name!r}: {error}") from error
    if row is None:
        raise CaptureRefused(f"there is no table {name!r} in this database, or this role does not see it")
    oid, schema, relation, kind, persistence, identity = row
    if kind not in "rp" or persistence != "p":
        raise CaptureRefused(
            f"{schema}.{relation} is not an ordinary table: Postgres publishes changes of permanent tables only"
        )
    columns = [each for each in connection.execute(_COLUMNS, [oid]).fetchall() if not each[6]]
    return Table(
        oid=oid,
        schema=schema,
        name=relation,
        identity=identity,
        partitioned=kind == "p",
        columns=tuple(Column(each[0], each[1], each[2]) for each in columns),
        key=dict(connection.execute(_KEY, [oid]).fetchall()),
        not_null=frozenset(each[0] for each in columns if each[4]),
        toastable=any(each[5] != "p" for each in columns),
        deferrable=frozenset(frozenset(names) for (names,) in connection.execute(_DEFERRABLE, [oid]).fetchall()),
    )


def leaves_of(connection: Connection, table: Table) -> list[Leaf]:
    """Return the tables that hold the rows of a table."""
    if not table.partitioned:
        return [Leaf(table.oid, table.schema, table.name, table.identity)]
    found = connection.execute(_LEAVES, [table.oid]).fetchall()
    return [Leaf(*each[:4]) for each in found if each[4] == "r"]


class CatalogInspector:
    """Reads the catalog of a database while changes are read. It connects on demand."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._types = Types()
        self._known: set[int] = set()

    def key_of(self, relation_id: int) -> Mapping[int, str] | None:
        """Return the primary key of a table by the numbers of its columns. None if there is no such table any more."""
        with connect(self._url) as connection:
            there = connection.execute("SELECT 1 FROM pg_class WHERE oid = %s", [relation_id]).fetchone()
            return dict(connection.execute(_KEY, [relation_id]).fetchall()) if there else None

    def types_of(self, shape: Shape) -> Types:
        """Return the types of the columns. Types that are not built in are looked up."""
        unknown = {column.type_oid for column in shape.columns} - BUILT_IN.keys() - self._known
        if unknown:
            with connect(self._url) as connection:
                add_types(connection, self._types, unknown)
        self._known |= unknown
        return self._types

    def describe(self, shape: Shape) -> list[dict[str, Any]]:
        """Return the names and types of columns, in Postgres' notation."""
        with connect(self._url) as connection:
            return [
                {"name": column.name, "type": _type_name(connection, column.type_oid, column.modifier)}
                for column in shape.columns
            ]


def _type_name(connection: Connection, oid: int, modifier: int) -> str:
    row = connection.execute("SELECT format_type(%s::oid, %s)", [oid, modifier]).fetchone()
    return str(row[0]) if row else "???"


def add_types(connection: Connection, types: Types, oids: Iterable[int]) -> None:
    """Look up types that are not built in, and the types that they are made of."""
    waiting = set(oids) - BUILT_IN.keys()
    while waiting:
        bases, elements = {}, {}
        for oid, base, element, is_array in connection.execute(_TYPES, [list(waiting)]).fetchall():
            if base:
                bases[oid] = base
            elif is_array:
                elements[oid] = element
        types.add(bases, elements)
        waiting = {*bases.values(), *elements.values()} - BUILT_IN.keys()
