"""Tables that are made on first use: `session_events`, one of states, or one for a mapping.

`session_events` has a unique key of stream and offset, also if it was made by somebody else without one.
"""

import psycopg
from psycopg.sql import SQL, Composed, Identifier

from everbrook.spark.given import InvalidOption
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.mapping import SESSION_EVENTS
from everbrook.spark.postgres.paths import KEY, OFFSET, STREAM, TYPE, VALUE, WHOLE, Path, Told
from everbrook.spark.postgres.tables import create, exists, identifier_of, look_up, names

EVENTS = """
    CREATE TABLE IF NOT EXISTS {table} (
        id SERIAL PRIMARY KEY,
        stream_name TEXT NOT NULL,
        event_key TEXT,
        event_type TEXT,
        operation TEXT,
        payload JSONB NOT NULL,
        ds_offset TEXT,
        received_at TIMESTAMPTZ DEFAULT NOW(),
        UNIQUE (stream_name, ds_offset)
    )
"""
_GUARD = ("stream_name", "ds_offset")
_STATE_KEY: tuple[Path, ...] = (STREAM, TYPE, KEY)


def create_events(cursor: Cursor, name: str) -> None:
    """Make a table of events, or give one that is there the key that it lacks."""
    if not exists(cursor, name):
        create(cursor, name, EVENTS)
        return
    table = look_up(cursor, name)
    if not set(SESSION_EVENTS) <= set(table.columns) or table.key_on(_GUARD) is not None:
        return
    try:
        with cursor.connection.transaction():
            cursor.execute(SQL("ALTER TABLE {} ADD UNIQUE ({})").format(table.identifier, names(_GUARD)))
    except (psycopg.errors.UniqueViolation, psycopg.errors.InsufficientPrivilege) as error:
        raise InvalidOption(
            f"{name!r} has no unique key of stream_name and ds_offset, and can't be given one "
            f"({error.diag.message_primary}). Do it yourself: ALTER TABLE {name} ADD UNIQUE (stream_name, ds_offset)"
        ) from error


def create_mapped(cursor: Cursor, name: str, paths: dict[str, Path], mode: str) -> None:
    """Make a table for a mapping: JSON for whole messages and values, text for fields."""
    if exists(cursor, name):
        return
    columns = [SQL("{} {}").format(Identifier(column), SQL(_type(path))) for column, path in paths.items()]
    key = [column for column, path in paths.items() if path in (_STATE_KEY if mode == "state" else (STREAM, OFFSET))]
    statement = SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
        identifier_of(name), SQL(", ").join([*columns, *_keys(key, mode)])
    )
    cursor.execute(statement)


def _keys(key: list[str], mode: str) -> list[Composed]:
    if mode == "state":
        return [SQL("PRIMARY KEY ({})").format(names(key))] if key else []
    return [SQL("UNIQUE ({})").format(names(key))] if len(key) == len((STREAM, OFFSET)) else []


def _type(path: Path) -> str:
    if path in {WHOLE, VALUE}:
        return "jsonb"
    return "timestamptz" if path == Told("time") else "text"
