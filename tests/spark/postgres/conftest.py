"""A database for each test, and sinks to its tables."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from everbrook.spark.postgres.database import Database, DatabaseOptions
from everbrook.spark.postgres.dead_letters import DeadLetterOptions
from everbrook.spark.postgres.sinks import Sink, SinkOptions, parse_sink, prepare
from tests.database import database, postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.postgres.queries import Job

__all__ = ["database", "postgres"]

MakeSink = Callable[..., Sink]


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
    from tests.spark.postgres.queries import Job  # noqa: PLC0415 - only for tests that need Spark

    return Job(spark, server, prefix, database, tmp_path / "checkpoint")


@pytest.fixture
def sink(database: str) -> Iterator[MakeSink]:
    """Make sinks, as a query does when it begins."""
    opened: list[Database] = []

    def make(table: str = "session_events", columns: dict[str, str] | None = None, **options: Any) -> Sink:  # noqa: ANN401
        chosen = None if columns is None else tuple(columns.items())
        retry_secs = options.pop("retry_secs", 5.0)
        there = DatabaseOptions(options.pop("url", database), retry_secs)
        options.setdefault("dead_letters", DeadLetterOptions())
        connection = Database(there)
        opened.append(connection)
        return Sink(connection, prepare(connection, parse_sink(SinkOptions(there, table, chosen, **options))))

    yield make
    for connection in opened:
        connection.close()
