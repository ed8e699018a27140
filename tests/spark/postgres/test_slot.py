"""Connections of a capture: what its URL says of them, and what a database sets for all."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from everbrook.spark.capture import ChangesLost
from tests.spark.postgres.capture_query import Capture, Given

Sql = psycopg.Connection[Any]
_PASSWORD = "secret"  # noqa: S105 - of a role that the test makes


def test_options_of_the_url_are_kept(db: Sql, capture: Capture) -> None:
    db.execute("CREATE SCHEMA shop; CREATE TABLE shop.items (id int PRIMARY KEY); INSERT INTO shop.items VALUES (1)")
    capture.options["url"] += "?options=-csearch_path%3Dshop"
    assert [row["stream"] for row in capture.rows(1)] == ["shop.items"]


def descriptors() -> set[str]:
    """Give the pipes and sockets that this process has open."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of the folder itself
            found.add(str(path.readlink()))
    return {each for each in found if each.startswith(("pipe:", "socket:"))}


def test_a_capture_that_is_stopped_leaves_no_descriptor_open(items: Sql, capture: Capture) -> None:
    before = descriptors()
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    capture.rows(1)
    assert descriptors() > before
    capture.stop()
    assert descriptors() == before


def look_again_and_again(db: Sql, capture: Capture, end: Given) -> None:
    """Read changes, each time over a new connection."""
    slots = "FROM pg_replication_slots WHERE database = current_database()"
    while capture.reader.latestOffset(end, ReadAllAvailable()) == end:
        db.execute(f"SELECT pg_terminate_backend(active_pid) {slots}")


def test_what_is_committed_after_the_connection_was_given_up_is_no_error(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    start, end = capture.plan_rows()
    items.execute(f"DROP PUBLICATION {capture.parsed.publication}")
    with pytest.raises(ChangesLost):
        look_again_and_again(items, capture, end)
    assert [json.loads(row["value"])["key"] for row in capture.read(start, end)] == ["3"]
    capture.reader.commit(end)
    capture.stop()
    capture.stop()


def test_a_copy_may_take_longer_than_statements_and_sessions_may(items: Sql, capture: Capture) -> None:
    """A row-level policy makes each row take 0.2 s. It applies to the owner, who captures, but not to a superuser."""
    name = items.info.dbname
    items.execute("DROP ROLE IF EXISTS patient")
    items.execute("CREATE ROLE patient LOGIN REPLICATION PASSWORD 'secret'")
    items.execute(f'GRANT CREATE ON DATABASE "{name}" TO patient')
    items.execute("CREATE POLICY slow ON items USING (pg_sleep(0.2) IS NOT NULL)")
    items.execute("ALTER TABLE items ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY, OWNER TO patient")
    for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
        items.execute(f'ALTER DATABASE "{name}" SET {setting} = 300')
    capture.options["url"] = psycopg.conninfo.make_conninfo(capture.options["url"], user="patient", password=_PASSWORD)
    assert len(capture.rows(2)) == 2
