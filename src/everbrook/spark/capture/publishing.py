"""The publication and what it needs: checked, and made on first use.

What a role may not change is said in an error, as the command that someone else can give.
"""

from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import sql

from everbrook.spark.capture.catalogue import Table, find_table
from everbrook.spark.capture.errors import CaptureRefused
from everbrook.spark.capture.identifying import change, identify
from everbrook.spark.capture.options import CaptureOptions

Connection = psycopg.Connection[Any]
OLDEST = 140_000
_ROW_FILTERS_SINCE = 150_000
_ACTIONS = ("insert", "update", "delete", "truncate")


class Published(Struct, frozen=True):
    """A table as its publication shows it: only some columns perhaps, and only rows that fit a condition."""

    table: Table
    row_filter: str | None = None
    member: int | None = None
    """The number of its entry in the publication, if it has one of its own."""


def check_server(connection: Connection) -> None:
    """Refuse a Postgres that has no changes to tell."""
    if connection.info.server_version < OLDEST:
        raise CaptureRefused(f"Postgres 14 or newer is needed, this is {connection.info.server_version // 10_000}")
    level = _setting(connection, "wal_level")
    if level != "logical":
        raise CaptureRefused(
            f"Postgres writes no changes that can be captured: wal_level is {level!r}. "
            "ALTER SYSTEM SET wal_level = logical, and restart Postgres"
        )
    encoding = _setting(connection, "server_encoding")
    if encoding == "SQL_ASCII":
        raise CaptureRefused("a database of the encoding SQL_ASCII can't be captured: its texts may be of any encoding")


def _setting(connection: Connection, name: str) -> str:
    row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
    return str(row[0]) if row else ""


def find_tables(connection: Connection, options: CaptureOptions) -> list[Table]:
    """Look up the tables, and refuse those whose rows have no key."""
    tables = [find_table(connection, name) for name in options.tables]
    given = dict[int, str]()
    for name, table in zip(options.tables, tables, strict=True):
        if table.oid in given:
            raise CaptureRefused(f"{given[table.oid]} and {name} are the same table: name it once")
        given[table.oid] = name
        _require_key(table, options.key_of(table.full_name, table.name))
        _require_fixed_key(table, options.key_of(table.full_name, table.name))
        column = options.routing.column
        if column is not None and column not in {each.name for each in table.columns}:
            raise CaptureRefused(f"{table.full_name} has no column {column!r}, which streamColumn names")
    return tables


def _require_key(table: Table, key_columns: tuple[str, ...]) -> None:
    names = {column.name for column in table.columns}
    if not key_columns:
        if not table.key:
            raise CaptureRefused(
                f"{table.full_name} has no primary key, so that its rows have no keys: add one, or name unique columns "
                f"in the option keyColumns.{table.name}"
            )
        if not names.issuperset(table.key.values()):
            raise CaptureRefused(
                f"the primary key of {table.full_name} is generated, and Postgres does not publish it: name other "
                f"unique columns in the option keyColumns.{table.name}"
            )
        return
    for name in key_columns:
        if name not in names:
            raise CaptureRefused(f"{table.full_name} has no column {name!r}, which keyColumns names")
        if name not in table.not_null:
            raise CaptureRefused(f"{table.full_name}.{name} is of keyColumns, and may be NULL: make it NOT NULL")


def _require_fixed_key(table: Table, key_columns: tuple[str, ...]) -> None:
    key = key_columns or tuple(table.key.values())
    if frozenset(key) in table.deferrable:
        raise CaptureRefused(
            f"the key of {table.full_name} ({', '.join(key)}) is DEFERRABLE: two rows may swap their keys within a "
            "transaction, which messages can't tell one by one. Make it NOT DEFERRABLE, or name other unique columns "
            f"in the option keyColumns.{table.name}"
        )


def publish(connection: Connection, options: CaptureOptions, tables: list[Table]) -> list[Published]:
    """Make the publication, or add to it what is missing, and see to it that old rows are told."""
    for table in tables:
        identify(connection, options, table)
    found = find_publication(connection, options.publication)
    name = sql.Identifier(options.publication)
    if not found:
        listed = sql.SQL(", ").join(table.identifier for table in tables)
        made = sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)")
        change(connection, made.format(name, listed), "the publication can't be made")
    else:
        require_all_actions(options.publication, found, tables)
        told = {oid for oid, *_ in shown(connection, options.publication)}
        for table in tables:
            if table.oid not in told:
                statement = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, table.identifier)
                change(connection, statement, f"{table.full_name} is not in the publication")
    return as_published(connection, options.publication, tables)


def find_publication(connection: Connection, name: str) -> dict[str, bool]:
    """Look up what a publication tells. Nothing if there is none."""
    row = connection.execute(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s", [name]
    ).fetchone()
    return {} if row is None else dict(zip((*_ACTIONS, "via root"), row, strict=True))


def lacking_actions(found: dict[str, bool]) -> list[str]:
    """Give what a publication does not tell of."""
    return [action for action in _ACTIONS if not found[action]]


def require_all_actions(name: str, found: dict[str, bool], tables: list[Table]) -> None:
    """Refuse a publication that leaves something out."""
    missing = lacking_actions(found)
    if missing:
        raise CaptureRefused(f"the publication {name!r} does not tell of {', '.join(missing)}: it has to tell of all")
    for table in tables:
        if table.partitioned and not found["via root"]:
            raise CaptureRefused(
                f"{table.full_name} is partitioned, and the publication {name!r} tells of partitions: "
                f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)"
            )


def shown(connection: Connection, publication: str) -> list[tuple[Any, ...]]:
    """Give what a publication tells: tables with their columns and condition, and the number of their entries.

    A table has another entry when it was taken out and put in again, or with other columns or another condition. One
    that is told because all tables are has none.
    """
    more = "attnames::text[], rowfilter" if connection.info.server_version >= _ROW_FILTERS_SINCE else "NULL, NULL"
    query = f"""
        SELECT told.oid::int8, {more}, (
            SELECT r.oid::int8 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
            WHERE p.pubname = told.pubname AND r.prrelid = told.oid)
        FROM (SELECT *, (quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass::oid AS oid
            FROM pg_publication_tables WHERE pubname = %s) told
    """  # noqa: S608 - of two constants
    return connection.execute(query, [publication]).fetchall()


def as_published(connection: Connection, publication: str, tables: list[Table]) -> list[Published]:
    """Leave out the columns and rows that a publication does not tell of."""
    told = {oid: others for oid, *others in shown(connection, publication)}
    published = []
    for table in tables:
        if table.oid not in told:
            raise CaptureRefused(f"{table.full_name} is not in the publication {publication!r}")
        names, condition, member = told[table.oid]
        columns = tuple(each for each in table.columns if names is None or each.name in names)
        published.append(Published(replace(table, columns=columns), condition, member))
    return published
