"""Which stream a row goes to: its table's, one for all, or the one that a column names."""

from typing import Any

import psycopg
import pytest

from everbrook.spark.capture import CaptureRefused
from everbrook.spark.postgres.routing import format_segment
from tests.spark.postgres.capture_query import Capture, folded

Sql = psycopg.Connection[Any]


@pytest.fixture
def two(items: Sql) -> Sql:
    items.execute("CREATE SCHEMA shop")
    items.execute("CREATE TABLE shop.orders (id int PRIMARY KEY, item int)")
    items.execute("INSERT INTO shop.orders VALUES (7, 1)")
    return items


@pytest.fixture
def tenants(db: Sql, capture: Capture) -> Sql:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, tenant text, name text)")
    db.execute("INSERT INTO items VALUES (1, 'acme', 'x'), (2, 'beta', 'y'), (3, NULL, 'z')")
    capture.options |= {"streamColumn": "tenant", "streamPrefix": "tenants/"}
    return db


def test_each_table_has_a_stream_of_its_own(two: Sql, capture: Capture) -> None:
    capture.options |= {"tables": "items,shop.orders", "streamPrefix": "pg-"}
    assert {row["stream"] for row in capture.rows(3)} == {"pg-items", "pg-shop.orders"}


def test_all_tables_may_share_a_stream(two: Sql, capture: Capture) -> None:
    capture.options |= {"tables": "items,shop.orders", "stream": "everything"}
    rows = capture.rows(3)
    assert folded(rows)["everything"].keys() == {"items", "shop.orders"}


def test_a_column_may_name_the_stream(tenants: Sql, capture: Capture) -> None:
    streams = {row["stream"] for row in capture.rows(3)}
    assert streams == {"tenants/acme", "tenants/beta", "tenants/~null"}


def test_a_row_that_moves_to_another_stream_is_deleted_from_the_first(tenants: Sql, capture: Capture) -> None:
    rows = capture.rows(3)
    tenants.execute("UPDATE items SET tenant = 'beta' WHERE id = 1")
    rows += capture.rows(2)
    assert folded(rows)["tenants/acme"] == {}
    assert folded(rows)["tenants/beta"]["items"].keys() == {"1", "2"}


def test_a_deleted_row_is_deleted_from_its_stream(tenants: Sql, capture: Capture) -> None:
    capture.rows(3)
    tenants.execute("DELETE FROM items WHERE id = 2")
    (row,) = capture.rows(1)
    assert row["stream"] == "tenants/beta"


def test_a_truncated_table_resets_all_streams_that_its_rows_went_to(tenants: Sql, capture: Capture) -> None:
    capture.rows(3)
    tenants.execute("INSERT INTO items VALUES (4, 'gamma', 'new')")
    tenants.execute("TRUNCATE items")
    tenants.execute("INSERT INTO items VALUES (5, 'delta', 'after')")
    rows = capture.rows(6)
    reset = {row["stream"] for row in rows if "reset" in row["value"]}
    assert reset == {"tenants/acme", "tenants/beta", "tenants/gamma", "tenants/~null"}


def test_the_same_streams_are_reset_when_the_batch_is_asked_for_again(tenants: Sql, capture: Capture) -> None:
    capture.rows(3)
    tenants.execute("INSERT INTO items VALUES (4, 'gamma', 'new')")
    tenants.execute("TRUNCATE items")
    tenants.execute("INSERT INTO items VALUES (5, 'delta', 'after')")
    start, end = capture.plan_rows()
    while len(first := capture.read(start, end)) < 6:
        start, end = capture.plan_rows()
    capture.stop()
    assert capture.read(start, end) == first


def test_a_table_that_shares_a_stream_is_not_truncated_in_silence(two: Sql, capture: Capture) -> None:
    capture.options |= {"tables": "items,shop.orders", "stream": "everything"}
    capture.rows(3)
    two.execute("INSERT INTO items VALUES (3, 'three', 3)")
    two.execute("TRUNCATE items")
    capture.rows(1)
    with pytest.raises(CaptureRefused, match=r"items was truncated at .* share streams with those of shop.orders"):
        capture.rows(1)


@pytest.mark.parametrize("choice,operations", [("reset", ["reset", "insert"]), ("ignore", ["insert"])])
def test_what_a_truncated_table_means_to_a_shared_stream_can_be_said(
    choice: str, operations: list[str], two: Sql, capture: Capture
) -> None:
    capture.options |= {"tables": "items,shop.orders", "stream": "everything", "onTruncate": choice}
    capture.rows(3)
    two.execute("TRUNCATE items")
    two.execute("INSERT INTO items VALUES (3, 'three', 3)")
    assert [change[0] for change in capture.changes(len(operations))] == operations


def test_a_shared_stream_is_reset_when_all_its_tables_are_truncated(two: Sql, capture: Capture) -> None:
    capture.options |= {"tables": "items,shop.orders", "stream": "everything"}
    capture.rows(3)
    two.execute("TRUNCATE items, shop.orders")
    assert capture.changes(1)[0][0] == "reset"


@pytest.mark.parametrize(
    "value,segment",
    [
        (b"acme", "acme"),
        (None, "~null"),
        (b"", "~empty"),
        (b"~null", "%7Enull"),
        (b"a/b", "a%2Fb"),
        (b"..", "%2E%2E"),
        (b"100%", "100%25"),
        ("ä b".encode(), "ä%20b"),
    ],
)
def test_every_value_is_a_segment_of_its_own(value: bytes | None, segment: str) -> None:
    assert format_segment(value) == segment


@pytest.mark.parametrize("name,stream", [("a?b #%/c", "a%3Fb%20%23%25%2Fc"), ("Tee, schwarz", "Tee,%20schwarz")])
def test_a_table_may_have_any_name(name: str, stream: str, db: Sql, capture: Capture) -> None:
    db.execute(f'CREATE TABLE "{name}" (id serial PRIMARY KEY)')
    insert = psycopg.sql.SQL("INSERT INTO {} DEFAULT VALUES").format(psycopg.sql.Identifier(name))
    db.execute(insert)
    capture.options |= {"tables": f'"{name}"'}
    rows = capture.rows(1)
    db.execute(insert)
    assert [row["stream"] for row in rows + capture.rows(1)] == [stream, stream]
