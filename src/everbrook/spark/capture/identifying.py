"""What Postgres logs of old rows (REPLICA IDENTITY): the whole row, where a capture has to know it.

It has to where a row may change its stream, or its key is no primary key; it would rather where a large value could be
left out. On partitions that are made later it is set later. Where Postgres would then refuse the updates of whoever
works with the table, it is left alone.
"""

from contextlib import suppress
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from everbrook.spark.capture.catalogue import Leaf, Table, leaves_of
from everbrook.spark.capture.errors import CaptureRefused, PostgresAway
from everbrook.spark.capture.options import CaptureOptions

Connection = psycopg.Connection[Any]
_COLUMN_LISTS_SINCE, _GENERATED_REFUSED_SINCE = 150_000, 180_000
_LISTED = "SELECT 1 FROM pg_publication_rel WHERE prrelid = ANY(%s) AND prattrs IS NOT NULL"
_GENERATED = "SELECT 1 FROM pg_attribute WHERE attrelid = %s AND attgenerated = 's' AND NOT attisdropped"


class _Lacking(Struct, frozen=True):
    """The tables with rows of a table that are not told in whole, and what needs that."""

    leaves: list[Leaf]
    need: str | None
    """What can't do without. None if nothing does, and it is only for large values."""


def identify(connection: Connection, options: CaptureOptions, table: Table) -> None:
    """Let Postgres tell the whole old row, where a value could be left out or a row change its stream."""
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
    """Do the same while changes are read: only what has to be done is refused, and what can't be done now is later."""
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
    return _Lacking(leaves, need or ("its key, which Postgres does not tell" if not_by_key else None))


def _forbidden(connection: Connection, table: Table, leaves: list[Leaf]) -> str | None:
    """Say what has to be changed first, if updates would be refused once whole rows are logged."""
    version, relations = connection.info.server_version, [table.oid, *(leaf.oid for leaf in leaves)]
    if version >= _COLUMN_LISTS_SINCE and connection.execute(_LISTED, [relations]).fetchone():
        return "rather publish all its columns: with a list of columns Postgres would refuse updates then"
    if version >= _GENERATED_REFUSED_SINCE and connection.execute(_GENERATED, [table.oid]).fetchone():
        return "rather drop its generated columns: Postgres would refuse updates then"
    return None


def change(connection: Connection, statement: sql.Composed, otherwise: str) -> None:
    """Run a statement that others may have to run, or that has to wait for a lock."""
    try:
        connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        command = statement.as_string(connection)
        raise CaptureRefused(f"{otherwise}: {str(error).strip()}. Someone who may do so can run: {command}") from error
    except psycopg.errors.LockNotAvailable as error:
        command = statement.as_string(connection)
        raise PostgresAway(f"{otherwise}, and there was no time for {command}: {str(error).strip()}") from error
