"""What concerns the whole table ends the query with words for whoever can mend it, and then nothing is lost."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from msgspec import Struct

from everbrook import Client
from everbrook.spark.postgres.errors import AccessRefused, DatabaseUnreachable, PostgresFault, is_of_a_moment
from everbrook.spark.postgres.table_query import write_postgres
from everbrook.stack.postgres import Postgres
from tests.kit.ports import free_port
from tests.spark.batches import append
from tests.spark.postgres.conftest import MakeSink
from tests.spark.postgres.stream_rows import end_of, rows, writer
from tests.spark.postgres.table_queries import Job, failure_of, until

Sql = Callable[..., list[Any]]
ORDERS: dict[str, Any] = {"table": "orders", "columns": {"n": "n", "item": "item"}}
OURS = "FROM pg_stat_activity WHERE application_name = 'everbrook' AND datname = current_database()"


class Fault(Struct, frozen=True):
    """How something is broken, what is said of it, and how it is mended."""

    broken: tuple[str, ...]
    said: str
    mended: tuple[str, ...]


FULL_DISK = """
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION full_disk()
"""
FAULTS = {
    "a dropped table": Fault(
        ("ALTER TABLE orders RENAME TO elsewhere",),
        "TableChanged: writing to the table 'orders' .* relation \"orders\" does not exist",
        ("ALTER TABLE elsewhere RENAME TO orders",),
    ),
    "a missing column": Fault(
        ("ALTER TABLE orders RENAME item TO thing",),
        'TableChanged: .* column "item" of relation "orders" does not exist',
        ("ALTER TABLE orders RENAME thing TO item",),
    ),
    "a column of another type": Fault(
        ("ALTER TABLE orders ALTER item TYPE boolean USING true",),
        "TableChanged: the column 'item' of 'orders' was of text and is of boolean now",
        ("ALTER TABLE orders ALTER item TYPE text USING 'tea'",),
    ),
    "a right that was taken away": Fault(
        ("REVOKE INSERT ON orders FROM writer",),
        "AccessRefused: .* permission denied for table orders.* grant this user what is missing",
        ("GRANT INSERT ON orders TO writer",),
    ),
    "another password": Fault(
        ("ALTER ROLE writer PASSWORD 'another'", f"SELECT pg_terminate_backend(pid) {OURS}"),
        'AccessRefused: .* password authentication failed for user "writer".* correct the user or the password',
        ("ALTER ROLE writer PASSWORD 'secret'",),
    ),
    "a user who may not come in": Fault(
        ("ALTER ROLE writer NOLOGIN", f"SELECT pg_terminate_backend(pid) {OURS}"),
        'AccessRefused: .* role "writer" is not permitted to log in',
        ("ALTER ROLE writer LOGIN",),
    ),
    "a full disk": Fault(
        (FULL_DISK,),
        "ResourcesExhausted: .* No space left on device.* make room",
        ("DROP TRIGGER full_disk ON orders",),
    ),
    "a database that takes no writes": Fault(
        ("ALTER ROLE writer SET default_transaction_read_only = on", f"SELECT pg_terminate_backend(pid) {OURS}"),
        "AccessRefused: .* read-only transaction",
        ("ALTER ROLE writer RESET default_transaction_read_only",),
    ),
}


@pytest.fixture
def writer_url(sql: Sql, database: str) -> str:
    """The URL for a user who may write to one table, and make others."""
    sql("DO $$ BEGIN CREATE ROLE writer LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    sql("ALTER ROLE writer LOGIN PASSWORD 'secret'")
    sql("GRANT CREATE, USAGE ON SCHEMA public TO writer")
    sql("CREATE TABLE orders (n int, item text)")
    sql("GRANT SELECT, INSERT ON orders TO writer")
    return database.replace("postgres:password", "writer:secret")


@pytest.fixture
def orders(job: Job, writer_url: str) -> Job:
    job.url = writer_url
    return job


@pytest.mark.parametrize("kind", FAULTS)
def test_a_sink_says_what_is_wrong_and_goes_on_once_it_is_mended(
    sink: MakeSink, writer_url: str, sql: Sql, kind: str
) -> None:
    fault = FAULTS[kind]
    to_orders = sink(**ORDERS, url=writer_url, retry_secs=1.0)
    first = rows({"n": 1, "item": "tea"})
    to_orders.write(writer(0), [first])
    second = rows({"n": 2, "item": "cup"}, start=end_of(first))
    for statement in fault.broken:
        sql(statement)
    with pytest.raises(PostgresFault) as error:
        to_orders.write(writer(1), [second])
    assert _matches(fault.said, f"{type(error.value).__name__}: {error.value}")
    for statement in fault.mended:
        sql(statement)
    to_orders.write(writer(1), [second])
    assert sql("SELECT n FROM orders ORDER BY n") == [1, 2]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_running_query_says_what_is_wrong_and_loses_nothing(client: Client, orders: Job, sql: Sql, kind: str) -> None:
    fault = FAULTS[kind]
    append(client, f"{orders.prefix}a", {"n": 1, "item": "tea"})
    query = orders.start(**ORDERS)
    until(lambda: sql("SELECT n FROM orders") == [1], query)
    for statement in fault.broken:
        sql(statement)
    append(client, f"{orders.prefix}a", {"n": 2, "item": "cup"}, {"n": 3, "item": "pot"})
    assert _matches(fault.said, failure_of(query))
    for statement in fault.mended:
        sql(statement)
    orders.run(**ORDERS)
    assert sql("SELECT n FROM orders ORDER BY n") == [1, 2, 3]
    assert sql("SELECT count(*) FROM everbrook_dead_letters") == [0]


def _matches(said: str, text: str) -> bool:
    assert re.search(said, text, re.DOTALL), text[:3000]
    return True


def test_after_a_column_got_another_type_a_new_start_writes_what_fits_it(client: Client, orders: Job, sql: Sql) -> None:
    append(client, f"{orders.prefix}a", {"n": 1, "item": "tea"})
    orders.run(**ORDERS)
    sql("ALTER TABLE orders ALTER item TYPE int USING 0")
    append(client, f"{orders.prefix}a", {"n": 2, "item": 5}, {"n": 3, "item": "cup"})
    orders.run(**ORDERS)
    assert sql("SELECT n, item FROM orders ORDER BY n") == [(1, 0), (2, 5)]
    assert sql("SELECT payload FROM everbrook_dead_letters") == [b'{"n":3,"item":"cup"}']


def test_a_database_that_is_gone_is_told_and_its_return_is_enough(
    client: Client, job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Postgres(tmp_path_factory.mktemp("own") / "cluster", free_port(), settings={"fsync": "off"})
    job.url = cluster.url()
    try:
        cluster.start().wait_ready()
        append(client, f"{job.prefix}a", {"n": 1})
        query = job.start()
        until(lambda: _count(job.url) == 1, query)
        cluster.stop()
        append(client, f"{job.prefix}a", {"n": 2})
        assert _matches("DatabaseUnreachable: .*start the query again when it is available", failure_of(query))
        cluster.start().wait_ready()
        job.run()
        assert _count(job.url) == 2
    finally:
        cluster.stop()


def _count(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT to_regclass('session_events')").fetchone()
        if found is None or found[0] is None:
            return 0
        row = connection.execute("SELECT count(*) FROM session_events").fetchone()
        return int(row[0]) if row is not None else 0


def test_a_stream_that_is_deleted_before_it_was_read_is_told_by_the_source(client: Client, job: Job, sql: Sql) -> None:
    append(client, f"{job.prefix}a", {"n": 1})
    append(client, f"{job.prefix}b", {"n": 1})
    job.run()
    append(client, f"{job.prefix}a", {"never": "read"})
    client.stream(f"{job.prefix}a").delete()
    assert _matches("DataLoss: .*failOnDataLoss", failure_of(job.start()))
    append(client, f"{job.prefix}a", {"anew": 1}, {"anew": 2})
    append(client, f"{job.prefix}b", {"n": 2})
    job.run({"failOnDataLoss": "false"})
    assert sql("SELECT count(*) FROM session_events") == [2 + 1 + 1]
    # What was at the same place in the stream before keeps its row. What is there now is not lost.
    assert sql("SELECT payload FROM everbrook_dead_letters") == [b'{"anew":1}']


def test_at_the_start_the_database_is_named_without_its_password(spark: Any, job: Job, postgres: Postgres) -> None:  # noqa: ANN401
    wrong = postgres.url("nowhere").replace(":password@", ":hunter2@")
    for url, kind in ((wrong, AccessRefused), (postgres.url("nowhere"), DatabaseUnreachable)):
        with pytest.raises(kind) as error:
            write_postgres(job.frame(), str(job.checkpoint), url=url, retry_secs=0.1)
        assert "database 'nowhere' at 127.0.0.1" in str(error.value)
        assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("state", ["starting up", "shutting down", "in recovery mode", "not yet accepting connections"])
def test_a_database_that_is_not_up_yet_is_waited_for(state: str) -> None:
    """It is answered as a wrong password is: by words, and without a number."""
    error = psycopg.OperationalError(f"connection failed: FATAL:  the database system is {state}")
    assert is_of_a_moment(error)
