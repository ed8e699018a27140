"""Tables that change their columns, their names and their keys in mid-stream."""

from typing import Any

import psycopg
import pytest

from everbrook.spark.capture import CaptureRefused
from tests.spark.postgres.capture_query import Capture

Sql = psycopg.Connection[Any]


def schema_and_row(capture: Capture) -> tuple[dict[str, str], dict[str, Any]]:
    """Take the next two messages: the columns of a table, and its next row."""
    told, row = capture.messages(2)
    assert (told["type"], told["key"]) == ("postgres.schema", "items")
    return {column["name"]: column["type"] for column in told["value"]["columns"]}, row


def test_an_added_column_is_told_before_the_first_row_that_has_it(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("ALTER TABLE items ADD stock int NOT NULL DEFAULT 5")
    items.execute("UPDATE items SET name = 'uno' WHERE id = 1")
    columns, row = schema_and_row(capture)
    assert columns == {"id": "integer", "name": "text", "price": "numeric", "stock": "integer"}
    assert row["value"] == {"id": 1, "name": "uno", "price": 1.1, "stock": 5}


@pytest.mark.parametrize(
    "statement,expected",
    [
        ("DROP price", {"id": "integer", "name": "text"}),
        ("RENAME name TO title", {"id": "integer", "title": "text", "price": "numeric"}),
        ("ALTER price TYPE text", {"id": "integer", "name": "text", "price": "text"}),
        ("ALTER price TYPE numeric(10,2)", {"id": "integer", "name": "text", "price": "numeric(10,2)"}),
        ("RENAME id TO code", {"code": "integer", "name": "text", "price": "numeric"}),
    ],
)
def test_columns_are_told_when_they_change(
    statement: str, expected: dict[str, str], items: Sql, capture: Capture
) -> None:
    capture.rows(2)
    items.execute(f"ALTER TABLE items {statement}")
    items.execute("DELETE FROM items")
    columns, row = schema_and_row_of_two(capture)
    assert columns == expected
    assert [each["key"] for each in row] == ["1", "2"]


def schema_and_row_of_two(capture: Capture) -> tuple[dict[str, str], list[dict[str, Any]]]:
    told, *rows = capture.messages(3)
    return {column["name"]: column["type"] for column in told["value"]["columns"]}, rows


def test_columns_are_told_once_also_when_the_query_is_restarted(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("ALTER TABLE items ADD stock int")
    items.execute("INSERT INTO items VALUES (3, 'three', 3, 3)")
    schema_and_row(capture)
    capture.stop()
    items.execute("INSERT INTO items VALUES (4, 'four', 4, 4)")
    assert [change[:2] for change in capture.changes(1)] == [("insert", "4")]


def test_rows_from_before_a_change_of_columns_are_read_as_they_were(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    items.execute("ALTER TABLE items RENAME id TO code")
    items.execute("INSERT INTO items VALUES (4, 'four', 4)")
    values = [change[2] for change in capture.changes(3)]
    assert values[0] == {"id": 3, "name": "three", "price": 3}
    assert values[2] == {"code": 4, "name": "four", "price": 4}


def test_a_renamed_table_keeps_its_name_in_messages(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("ALTER TABLE items RENAME TO things")
    items.execute("INSERT INTO things VALUES (3, 'three', 3)")
    (row,) = capture.rows(1)
    assert row["stream"] == "items"


def test_another_primary_key_is_refused_with_the_way_out(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("ALTER TABLE items DROP CONSTRAINT items_pkey, ADD PRIMARY KEY (id, name)")
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    with pytest.raises(CaptureRefused, match=r"primary key of items was \(id\), and is \(id, name\) now.*reset"):
        capture.rows(1)


def test_changes_of_a_dropped_table_are_still_told(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    items.execute("DROP TABLE items")
    assert [change[:2] for change in capture.changes(1)] == [("insert", "3")]


def test_a_table_made_anew_is_refused(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    items.execute("DROP TABLE items")
    items.execute("CREATE TABLE items (id int PRIMARY KEY)")
    with pytest.raises(CaptureRefused, match=r"public.items was dropped and created again"):
        capture.rows(1)
