"""Connections of a capture: what its URL says of them, and what a database sets for all."""

from typing import Any

import psycopg

from tests.spark.capture.query import Capture

Sql = psycopg.Connection[Any]
_PASSWORD = "secret"  # noqa: S105 - of a role that the test makes


def test_options_of_the_url_are_kept(sql: Sql, capture: Capture) -> None:
    sql.execute("CREATE SCHEMA shop; CREATE TABLE shop.items (id int PRIMARY KEY); INSERT INTO shop.items VALUES (1)")
    capture.options["url"] += "?options=-csearch_path%3Dshop"
    assert [row["stream"] for row in capture.rows(1)] == ["shop.items"]


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
