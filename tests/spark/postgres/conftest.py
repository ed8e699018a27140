"""A database for each test, sinks to its tables, and captures of its tables."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from everbrook.spark.options import ServerOptions
from everbrook.spark.postgres.database import Database
from everbrook.spark.postgres.table_sink import TableWriter, parse_options, prepare
from tests.kit.postgres import database, postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.postgres.capture_query import Capture
    from tests.spark.postgres.table_queries import Job

__all__ = ["database", "postgres"]

MakeSink = Callable[..., TableWriter]


@pytest.fixture
def sql(database: str) -> Iterator[Callable[..., list[Any]]]:
    """Run statements, each by itself, and give the rows: values of one column, or tuples."""
    with psycopg.connect(database, autocommit=True) as connection:

        def run(statement: str, *arguments: object) -> list[Any]:
            cursor = connection.execute(statement, arguments or None)
            rows = cursor.fetchall() if cursor.description else []
            return [row[0] if len(row) == 1 else row for row in rows]

        yield run


@pytest.fixture
def job(spark: "SparkSession", server: str, prefix: str, database: str, tmp_path: Path) -> "Job":
    """A query from the streams of a test to its database."""
    from tests.spark.postgres.table_queries import Job  # noqa: PLC0415 - only for tests that need Spark

    return Job(spark, server, prefix, database, tmp_path / "checkpoint")


@pytest.fixture
def sink(database: str) -> Iterator[MakeSink]:
    """Make sinks, as a query does when it begins."""
    opened: list[Database] = []

    def make(table: str = "session_events", columns: dict[str, str] | None = None, **options: Any) -> TableWriter:  # noqa: ANN401
        chosen: dict[str, Any] = {"url": database, "retry_secs": 5.0, "server": ServerOptions()} | options
        parsed = parse_options(table=table, columns=columns, **chosen)
        connection = Database(parsed.database)
        opened.append(connection)
        return TableWriter(connection, prepare(connection, parsed))

    yield make
    for connection in opened:
        connection.close()


@pytest.fixture
def db(database: str) -> Iterator["psycopg.Connection[Any]"]:
    """A connection of someone who works with the tables."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def items(db: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """A table with a few rows."""
    db.execute("CREATE TABLE items (id int PRIMARY KEY, name text, price numeric)")
    db.execute("INSERT INTO items VALUES (1, 'one', 1.10), (2, 'two', 2.20)")
    return db


@pytest.fixture
def selectable(items: "psycopg.Connection[Any]") -> "psycopg.Connection[Any]":
    """The same table, in a Postgres whose publications have column lists and row filters: 15 or newer."""
    if items.info.server_version < 150_000:
        pytest.skip("publications of this Postgres show whole tables")
    return items


@pytest.fixture
def capture(database: str, tmp_path: Path) -> "Iterator[Capture]":
    """A query that captures `items`, without Spark."""
    from tests.spark.postgres.capture_query import Capture  # noqa: PLC0415 - only for tests that need Spark

    made = Capture(database, tmp_path / "copy")
    yield made
    made.stop()
