"""Connections to a database: their settings and timeouts, and how a transaction is retried.

Locks and statements have a timeout, because a query that hangs reports nothing. Settings in the URL override these.
Only transient errors are retried, on a new connection.
"""

import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.errors import fault_of, is_of_a_moment

T = TypeVar("T")
Cursor = psycopg.Cursor[tuple[object, ...]]

SETTINGS = {
    "lock_timeout": "10s",
    "statement_timeout": "300s",
    "idle_in_transaction_session_timeout": "60s",
}
_KEEPALIVES = {
    "client_encoding": "UTF8",
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
_FIRST_PAUSE_SECS, _MAX_PAUSE_SECS = 0.05, 2.0


class DatabaseOptions(Struct, frozen=True):
    """Where the database is, and how long a transaction is tried for."""

    url: str
    retry_secs: float = 15.0

    def __str__(self) -> str:
        """Describe the database without the password."""
        parts = conninfo_to_dict(self.url)
        return f"database {parts.get('dbname', '')!r} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"


def parse_database(url: str | None, retry_secs: float) -> DatabaseOptions:
    """Check the URL of the database. The default is POSTGRES_URL."""
    given = url or os.environ.get("POSTGRES_URL")
    if not given:
        raise InvalidOption(
            "no database is chosen: give url='postgresql://user:password@host:5432/name', or POSTGRES_URL"
        )
    try:
        conninfo_to_dict(given)
    except psycopg.ProgrammingError as error:
        shown = " ".join(str(error).split())
        raise InvalidOption(f"the option url must be one of Postgres, postgresql://…: {shown}") from None
    return DatabaseOptions(given, retry_secs)


def connect(options: DatabaseOptions) -> psycopg.Connection:
    """Open a connection. Settings are made by a statement, because a pooler refuses them in the startup message."""
    given = conninfo_to_dict(options.url)
    chosen: dict[str, Any] = {name: value for name, value in _KEEPALIVES.items() if name not in given}
    chosen["application_name"] = given.get("application_name", "everbrook")
    connection = psycopg.connect(options.url, **chosen)
    try:
        for name, value in SETTINGS.items():
            if name not in str(given.get("options", "")):
                connection.execute("SELECT set_config(%s, %s, false)", [name, value])
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """A connection that is opened on first use, and again after it was lost."""

    def __init__(self, options: DatabaseOptions) -> None:
        self.options = options
        self._connection: psycopg.Connection | None = None

    def run(self, doing: str, work: Callable[[Cursor], T]) -> T:
        """Run `work` in a transaction, with retries of transient errors. Other errors become a `PostgresFault`."""
        deadline = time.monotonic() + self.options.retry_secs
        pause_secs = _FIRST_PAUSE_SECS
        while True:
            try:
                return self._once(work)
            except psycopg.Error as error:
                self.close()
                if not is_of_a_moment(error) or time.monotonic() + pause_secs > deadline:
                    raise fault_of(error, f"{doing} ({self.options})") from error
            except BaseException:
                self.close()
                raise
            time.sleep(pause_secs * random.uniform(0.5, 1))  # noqa: S311 - jitter, so that two transactions do not collide again
            pause_secs = min(pause_secs * 2, _MAX_PAUSE_SECS)

    def _once(self, work: Callable[[Cursor], T]) -> T:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self.options)
        with self._connection.transaction(), self._connection.cursor() as cursor:
            # Checked at the end of the transaction, a deferred constraint could not be attributed to a row.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            return work(cursor)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()
