"""What the tests of the capture share: a Postgres, and a database of its own for each test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.database import database, postgres
from tests.spark.capture.query import Capture

__all__ = ["database", "postgres"]


@pytest.fixture
def sql(database: str) -> Iterator["psycopg.Connection[Any]"]:
    """A connection of someone who works with the tables."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def items(sql: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """A table with a few rows."""
    sql.execute("CREATE TABLE items (id int PRIMARY KEY, name text, price numeric)")
    sql.execute("INSERT INTO items VALUES (1, 'one', 1.10), (2, 'two', 2.20)")
    return sql


@pytest.fixture
def selectable(items: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """The same table, in a Postgres whose publications have column lists and row filters: 15 or newer."""
    if items.info.server_version < 150_000:
        pytest.skip("publications of this Postgres show whole tables")
    return items


@pytest.fixture
def capture(database: str, tmp_path: Path) -> Iterator[Capture]:
    """A query that captures `items`, without Spark."""
    made = Capture(database, tmp_path / "copy")
    yield made
    made.stop()
