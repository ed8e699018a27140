"""A second copy of a capture: it begins with a reset of the streams that the capture wrote before."""

import json
from typing import Any

import psycopg

from everbrook.protocol import State, parse_message
from everbrook.spark.capture import drop, forget
from tests.spark.postgres.capture_query import Capture, folded

Sql = psycopg.Connection[Any]


def test_rows_of_the_copy_are_marked_as_such(items: Sql, capture: Capture) -> None:
    (copied, _) = capture.messages(2)
    items.execute("UPDATE items SET name = 'changed' WHERE id = 1")
    (changed,) = capture.messages(1)
    assert [copied["headers"].get("snapshot"), changed["headers"].get("snapshot")] == [True, None]


def begun_anew(capture: Capture) -> Capture:
    """Forget the progress of a capture, as users do, and give the capture that replaces it."""
    capture.stop()
    drop(*capture.slot)
    forget(capture.parsed.location)
    anew = Capture(capture.options["url"], capture.parsed.location)
    anew.options |= capture.options
    return anew


def test_a_new_copy_begins_with_a_reset(items: Sql, capture: Capture) -> None:
    rows = capture.rows(2)
    items.execute("DELETE FROM items WHERE id = 1")
    anew = begun_anew(capture)
    again = anew.rows(2)
    anew.stop()
    assert folded(again)["items"]["items"].keys() == {"2"}
    # Spark gives each copy to the stream in its order, one behind the other.
    state = State()
    for row in rows + again:
        state.apply(parse_message(json.loads(row["value"])))
    assert state["items"].keys() == {"2"}


def test_the_reset_is_a_batch_of_its_own_and_comes_also_without_any_rows(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    anew = begun_anew(capture)
    assert len(anew.batch()) == 1
    items.execute("TRUNCATE items")
    again = begun_anew(anew)  # before the copy was read to its end
    assert [change[0] for change in again.changes(1)] == ["reset"]
    again.stop()


def test_a_reset_that_was_read_is_not_given_again(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    anew = begun_anew(capture)
    anew.rows(3)
    for number in (3, 4):
        items.execute("INSERT INTO items VALUES (%s, 'x', 1)", [number])
        assert [change[:2] for change in anew.changes(1)] == [("insert", str(number))]
    anew.stop()


def test_streams_that_no_row_goes_to_any_more_are_reset_too(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, tenant text)")
    db.execute("INSERT INTO items VALUES (1, 'acme'), (2, 'beta')")
    capture.options |= {"streamColumn": "tenant", "envelope": "change"}
    capture.rows(2)
    db.execute("DELETE FROM items WHERE tenant = 'acme'")
    anew = begun_anew(capture)
    rows = anew.rows(3)
    anew.stop()
    assert [(row["stream"], row["operation"]) for row in rows] == [
        ("acme", "reset"),
        ("beta", "reset"),
        ("beta", "insert"),
    ]
