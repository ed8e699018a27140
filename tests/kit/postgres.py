"""A real Postgres for tests, and a database of its own for each that asks.

A conftest takes the fixtures by importing them: `from tests.kit.postgres import database, postgres`.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from everbrook.stack.postgres import Postgres
from tests.kit.ports import free_port

_SLOTS_TIMEOUT_SECS = 60.0

_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One Postgres for all tests of a process. It never waits for the disk: what it keeps, no test outlives."""
    with tempfile.TemporaryDirectory(prefix="everbrook-postgres-") as folder:
        cluster = Postgres(Path(folder) / "cluster", free_port(), settings={"fsync": "off"})
        try:
            cluster.start().wait_ready()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def database(postgres: Postgres) -> Iterator[str]:
    """The URL of an empty database."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        drop_database(connection, name)


def drop_database(connection: psycopg.Connection, name: str) -> None:
    """Drop a database with its replication slots, which would keep it, and whoever is still connected."""
    deadline = time.monotonic() + _SLOTS_TIMEOUT_SECS
    while not _slots_dropped(connection, name):
        assert time.monotonic() < deadline, f"slots of {name} are still in use"
        time.sleep(0.05)
    connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _slots_dropped(connection: psycopg.Connection, name: str) -> bool:
    """End whoever uses a slot, drop the slots that nobody uses, and say whether that was all of them."""
    slots = connection.execute("SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", [name])
    for slot, user in slots.fetchall():
        if user is not None:
            connection.execute("SELECT pg_terminate_backend(%s)", [user])
            continue
        with suppress(psycopg.errors.ObjectInUse, psycopg.errors.UndefinedObject):
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    return connection.execute("SELECT FROM pg_replication_slots WHERE database = %s", [name]).fetchone() is None
