"""The publication and what it needs, checked and made on first use.

If the role lacks a right, the error has the command that another role can run.

Postgres logs whole old rows (REPLICA IDENTITY FULL) where the capture needs them: where a row may change its stream, or
its key is no primary key. Where a large value could be left out, they are wanted but not required. Partitions that are
created later are set then. Where Postgres would then refuse the updates of applications, the table is left as it is.
"""

from contextlib import suppress
from typing import Any

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import sql

from everbrook.spark.postgres.capture_options import CaptureOptions
from everbrook.spark.postgres.errors import CaptureRefused, PostgresAway
from everbrook.spark.postgres.system_catalog import Leaf, Table, find_table, leaves_of

Connection = psycopg.Connection[Any]
_COLUMN_LISTS_SINCE, _GENERATED_REFUSED_SINCE = 150_000, 180_000
_LISTED = "SELECT 1 FROM pg_publication_rel WHERE prrelid = ANY(%s) AND prattrs IS NOT NULL"
_GENERATED = "SELECT 1 FROM pg_attribute WHERE attrelid = %s AND attgenerated = 's' AND NOT attisdropped"

OLDEST = 140_000
_ROW_FILTERS_SINCE = 150_000
_ACTIONS = ("insert", "update", "delete", "truncate")


class _Lacking(Struct, frozen=True):
    """The partitions whose old rows are not logged in full, and the reason why they should be."""

    leaves: list[Leaf]
    need: str | None
    """What requires whole rows. None if they are only useful, for large values."""


def identify(connection: Connection, options: CaptureOptions, table: Table) -> None:
    """Let Postgres log whole old rows, where a value could be left out or a row change its stream."""
    lacking = _lacking(connection, options, table)
    if lacking is None:
        return
    forbidden = _forbidden(connection, table, lacking.leaves)
    if options.keep_identity or forbidden:
        if lacking.leaves and lacking.need:
            way = forbidden or "leave out replicaIdentity=keep"
            raise CaptureRefused(
                f"{table.full_name} needs the whole old row for {lacking.need}: ALTER TABLE {table.full_name} REPLICA "
                f"IDENTITY FULL, or {way}"
            )
        return
    relations = [leaf.identifier for leaf in lacking.leaves]
    if table.partitioned and table.identity != "f":
        relations.append(table.identifier)
    for relation in relations:
        statement = sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(relation)
        change(connection, statement, f"old rows of {table.full_name} are incomplete (replicaIdentity)")


def identify_later(connection: Connection, options: CaptureOptions, table: Table) -> None:
    """Do the same while changes are read.

    An error is raised only if whole rows are required; otherwise it is tried later.
    """
    try:
        with suppress(PostgresAway):
            identify(connection, options, table)
    except CaptureRefused:
        lacking = _lacking(connection, options, table)
        if lacking is not None and lacking.need:
            raise


def _lacking(connection: Connection, options: CaptureOptions, table: Table) -> _Lacking | None:
    by_column = options.routing.column is not None and options.routing.column not in table.key.values()
    own_key = bool(options.key_of(table.full_name, table.name))
    leaves = [leaf for leaf in leaves_of(connection, table) if leaf.identity != "f"]
    not_by_key = any(leaf.identity != "d" for leaf in leaves)
    if not (table.toastable or by_column or own_key or not_by_key):
        return None
    need = "streamColumn" if by_column else "keyColumns" if own_key else None
    return _Lacking(leaves, need or ("its key, which Postgres does not send" if not_by_key else None))


def _forbidden(connection: Connection, table: Table, leaves: list[Leaf]) -> str | None:
    """Return what must be changed first, if Postgres would refuse updates once whole rows are logged."""
    version, relations = connection.info.server_version, [table.oid, *(leaf.oid for leaf in leaves)]
    if version >= _COLUMN_LISTS_SINCE and connection.execute(_LISTED, [relations]).fetchone():
        return "rather publish all its columns: with a list of columns Postgres would refuse updates then"
    if version >= _GENERATED_REFUSED_SINCE and connection.execute(_GENERATED, [table.oid]).fetchone():
        return "rather drop its generated columns: Postgres would refuse updates then"
    return None


def change(connection: Connection, statement: sql.Composed, otherwise: str) -> None:
    """Run a statement that may lack a right, or wait too long for a lock."""
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        command = statement.as_string(connection)
        raise CaptureRefused(f"{otherwise}: {str(error).strip()}. Someone who may do so can run: {command}") from error
    except psycopg.errors.LockNotAvailable as error:
        command = statement.as_string(connection)
        raise PostgresAway(f"{otherwise}, and there was no time for {command}: {str(error).strip()}") from error


class Published(Struct, frozen=True):
    """A table as published: possibly with only some columns, and only rows that fit a condition."""

    table: Table
    row_filter: str | None = None
    member: int | None = None
    """The number of its entry in the publication, if it has one of its own."""


def check_server(connection: Connection) -> None:
    """Refuse a server from which changes can't be captured."""
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
        raise CaptureRefused("a database of the encoding SQL_ASCII can't be captured: its text may have any encoding")


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
            "transaction, which single messages can't express. Make it NOT DEFERRABLE, or name other unique columns "
            f"in the option keyColumns.{table.name}"
        )


def publish(connection: Connection, options: CaptureOptions, tables: list[Table]) -> list[Published]:
    """Create the publication, or add missing tables to it, and let Postgres log old rows."""
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
        members = {oid for oid, *_ in shown(connection, options.publication)}
        for table in tables:
            if table.oid not in members:
                statement = sql.SQL("ALTER PUBLICATION {} ADD TABLE {}").format(name, table.identifier)
                change(connection, statement, f"{table.full_name} is not in the publication")
    return as_published(connection, options.publication, tables)


def find_publication(connection: Connection, name: str) -> dict[str, bool]:
    """Look up which actions a publication has. Empty if it does not exist."""
    row = connection.execute(
        "SELECT pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot FROM pg_publication WHERE pubname = %s", [name]
    ).fetchone()
    return {} if row is None else dict(zip((*_ACTIONS, "via root"), row, strict=True))


def lacking_actions(found: dict[str, bool]) -> list[str]:
    """Return the actions that a publication lacks."""
    return [action for action in _ACTIONS if not found[action]]


def require_all_actions(name: str, found: dict[str, bool], tables: list[Table]) -> None:
    """Refuse a publication that leaves out changes."""
    missing = lacking_actions(found)
    if missing:
        raise CaptureRefused(
            f"the publication {name!r} does not publish {', '.join(missing)}: it must publish all changes"
        )
    for table in tables:
        if table.partitioned and not found["via root"]:
            raise CaptureRefused(
                f"{table.full_name} is partitioned, and the publication {name!r} publishes its partitions: "
                f"ALTER PUBLICATION {name} SET (publish_via_partition_root = true)"
            )


def shown(connection: Connection, publication: str) -> list[tuple[Any, ...]]:
    """Return the tables of a publication, with their columns, row filter and the number of their entries.

    A table gets another entry when it is removed and added again, also with other columns or another condition. A
    table of a publication of all tables has no entry.
    """
    more = "attnames::text[], rowfilter" if connection.info.server_version >= _ROW_FILTERS_SINCE else "NULL, NULL"
    query = f"""
        SELECT listed.oid::int8, {more}, (
            SELECT r.oid::int8 FROM pg_publication_rel r JOIN pg_publication p ON p.oid = r.prpubid
            WHERE p.pubname = listed.pubname AND r.prrelid = listed.oid)
        FROM (SELECT *, (quote_ident(schemaname) || '.' || quote_ident(tablename))::regclass::oid AS oid
            FROM pg_publication_tables WHERE pubname = %s) listed
    """  # noqa: S608 - of two constants
    return connection.execute(query, [publication]).fetchall()


def as_published(connection: Connection, publication: str, tables: list[Table]) -> list[Published]:
    """Return tables without the columns that a publication leaves out, and with its row filters."""
    members = {oid: others for oid, *others in shown(connection, publication)}
    published = []
    for table in tables:
        if table.oid not in members:
            raise CaptureRefused(f"{table.full_name} is not in the publication {publication!r}")
        names, condition, member = members[table.oid]
        columns = tuple(each for each in table.columns if names is None or each.name in names)
        published.append(Published(replace(table, columns=columns), condition, member))
    return published
