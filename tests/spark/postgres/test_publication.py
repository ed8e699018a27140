"""What is altered by hand while a capture goes on: publications, identities, tables. Nothing is lost in silence."""

import json
import time
from typing import Any

import psycopg
import pytest

from everbrook.spark.capture import CaptureRefused, ChangesLost, drop
from everbrook.spark.postgres.capture_options import CaptureTuning
from tests.spark.postgres.capture_query import Capture, folded
from tests.spark.postgres.test_capture_resume import eventually

Sql = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def often(capture: Capture) -> None:
    """Look more often than in production whether all is unchanged."""
    capture.tuning = CaptureTuning(look_secs=0.2)


@pytest.fixture
def parted(db: Sql) -> Sql:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, tenant text, name text) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE items_0 PARTITION OF items FOR VALUES FROM (0) TO (10)")
    db.execute("INSERT INTO items VALUES (1, 'acme', 'x')")
    return db


@pytest.mark.parametrize(
    "statement,reason",
    [
        ("ALTER PUBLICATION {} DROP TABLE items", "items is no longer in the publication"),
        ("ALTER PUBLICATION {} SET (publish = 'insert, update, truncate')", "does not publish delete any more"),
        ("ALTER PUBLICATION {0} DROP TABLE items; ALTER PUBLICATION {0} ADD TABLE items", "added again"),
        ("DROP PUBLICATION {}", "is gone"),
    ],
)
@pytest.mark.parametrize("meanwhile", ["running", "stopped"])
def test_a_publication_that_was_altered_ends_the_capture(
    statement: str, reason: str, meanwhile: str, items: Sql, capture: Capture
) -> None:
    capture.rows(2)
    capture.plan()
    if meanwhile == "stopped":
        capture.stop()
    items.execute(statement.format(capture.parsed.publication))
    with pytest.raises(ChangesLost, match=f"{reason}.*everbrook pipeline reset"):
        capture.rows(1)


def test_a_publication_that_shows_only_some_rows_now_ends_the_capture(selectable: Sql, capture: Capture) -> None:
    capture.rows(2)
    selectable.execute(f"ALTER PUBLICATION {capture.parsed.publication} SET TABLE items WHERE (id > 2)")
    with pytest.raises(ChangesLost, match=r"added again, or in part.*everbrook pipeline reset"):
        capture.rows(1)


def test_a_gap_is_noticed_before_the_first_row_behind_it(items: Sql, capture: Capture) -> None:
    capture.tuning = CaptureTuning(look_secs=60.0)
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    capture.rows(1)
    time.sleep(0.6)
    name = capture.parsed.publication
    items.execute(f"ALTER PUBLICATION {name} DROP TABLE items")
    items.execute("INSERT INTO items VALUES (4, 'lost', 4)")
    items.execute(f"ALTER PUBLICATION {name} ADD TABLE items")
    items.execute("INSERT INTO items VALUES (5, 'five', 5)")
    with pytest.raises(ChangesLost, match="added again"):
        capture.rows(1)


def test_old_rows_of_a_partition_that_is_made_later_are_told_in_whole(parted: Sql, capture: Capture) -> None:
    capture.options |= {"streamColumn": "tenant"}
    rows = capture.rows(1)
    parted.execute("CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (10) TO (20)")
    capture.plan()
    identity = "SELECT relreplident::text FROM pg_class WHERE relname = 'items_1'"
    assert eventually(lambda: parted.execute(identity).fetchone() == ("f",))
    parted.execute("INSERT INTO items VALUES (11, 'acme', 'y')")
    parted.execute("UPDATE items SET tenant = 'beta' WHERE id = 11")
    rows += capture.rows(3)
    assert folded(rows)["acme"]["items"].keys() == {"1"}


@pytest.mark.parametrize("change", ["UPDATE items SET tenant = 'beta'", "DELETE FROM items"])
def test_a_row_whose_stream_was_not_logged_is_not_guessed(change: str, parted: Sql, capture: Capture) -> None:
    capture.options |= {"streamColumn": "tenant"}
    capture.rows(1)
    capture.stop()
    parted.execute("CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (10) TO (20)")
    parted.execute("INSERT INTO items VALUES (11, 'acme', 'y')")
    parted.execute(f"{change} WHERE id = 11")
    with pytest.raises(ChangesLost, match=r"a row of items was changed at .* REPLICA IDENTITY FULL"):
        capture.rows(2)


@pytest.mark.parametrize("change", ["UPDATE items SET tenant = 'beta'", "DELETE FROM items"])
def test_an_identity_that_was_changed_by_hand_is_not_guessed_over(change: str, db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, tenant text)")
    db.execute("INSERT INTO items VALUES (1, 'acme')")
    capture.options |= {"streamColumn": "tenant"}
    capture.rows(1)
    db.execute(f"ALTER TABLE items REPLICA IDENTITY DEFAULT; {change}")
    with pytest.raises(ChangesLost, match="a row of items was changed"):
        capture.rows(2)


def test_an_old_row_of_which_only_the_key_was_logged_is_not_told(parted: Sql, capture: Capture) -> None:
    capture.rows(1)
    capture.stop()
    parted.execute("CREATE TABLE items_1 PARTITION OF items FOR VALUES FROM (10) TO (20)")
    parted.execute("INSERT INTO items VALUES (11, 'acme', 'y')")
    parted.execute("DELETE FROM items WHERE id = 11")
    parted.execute("DELETE FROM items WHERE id = 1")
    olds = [json.loads(row["value"]).get("old_value") for row in capture.rows(3)]
    assert olds == [None, None, {"id": 1, "tenant": "acme", "name": "x"}]


def test_a_list_of_columns_does_not_break_whoever_works_with_the_table(selectable: Sql, capture: Capture) -> None:
    selectable.execute("CREATE PUBLICATION mine FOR TABLE items (id, name)")
    capture.options |= {"publication": "mine"}
    capture.rows(2)
    selectable.execute("UPDATE items SET name = 'uno' WHERE id = 1")
    assert capture.changes(1) == [("update", "1", {"id": 1, "name": "uno"})]


def test_whole_old_rows_that_a_list_of_columns_forbids_are_refused(selectable: Sql, capture: Capture) -> None:
    selectable.execute("CREATE PUBLICATION mine FOR TABLE items (id, name)")
    capture.options |= {"publication": "mine", "streamColumn": "name"}
    with pytest.raises(CaptureRefused, match=r"needs the whole old row for streamColumn.*publish all its columns"):
        capture.batch()


def test_a_generated_column_does_not_break_whoever_works_with_the_table(db: Sql, capture: Capture) -> None:
    db.execute(
        "CREATE TABLE items (id int PRIMARY KEY, name text, twice text GENERATED ALWAYS AS (name || name) STORED)"
    )
    capture.batch()
    db.execute("INSERT INTO items VALUES (1, 'x')")
    db.execute("UPDATE items SET name = 'y'")
    assert [change[2] for change in capture.changes(2)] == [{"id": 1, "name": "x"}, {"id": 1, "name": "y"}]


def test_a_table_that_is_dropped_ends_the_capture_when_all_was_told(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    items.execute("DROP TABLE items")
    assert [change[1] for change in capture.changes(1)] == ["3"]
    with pytest.raises(CaptureRefused, match="items was dropped"):
        capture.rows(1)


def test_a_table_that_is_made_anew_ends_a_capture_that_runs(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("DROP TABLE items")
    items.execute("CREATE TABLE items (id int PRIMARY KEY)")
    with pytest.raises(CaptureRefused, match=r"public.items was dropped and created again"):
        capture.rows(1)


def test_a_copy_that_was_read_by_another_checkpoint_is_an_error(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    for number in (3, 4, 5):
        items.execute("INSERT INTO items VALUES (%s, 'x', 1)", [number])
        capture.rows(1)
    capture.stop()
    capture.checkpoint.clear()
    with pytest.raises(ChangesLost, match="the copy of items was read before"):
        capture.batch()


def test_a_table_is_named_once(items: Sql, capture: Capture) -> None:
    capture.options |= {"tables": "items,public.items"}
    with pytest.raises(CaptureRefused, match=r"items and public.items are the same table"):
        capture.batch()


def test_a_generated_key_is_refused(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (n int NOT NULL, id int PRIMARY KEY GENERATED ALWAYS AS (n * 2) STORED)")
    with pytest.raises(CaptureRefused, match=r"primary key of public.items is generated.*keyColumns.items"):
        capture.batch()


def test_a_publication_may_be_kept_when_a_capture_is_forgotten(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    drop(*capture.slot, keep_publication=True)
    assert items.execute("SELECT count(*) FROM pg_publication").fetchone() == (1,)


@pytest.mark.parametrize("options", [{}, {"keyColumns": "code"}])
def test_a_key_that_rows_may_swap_is_refused(options: dict[str, str], db: Sql, capture: Capture) -> None:
    unique = "DEFERRABLE INITIALLY DEFERRED"
    db.execute(f"CREATE TABLE items (id int PRIMARY KEY {unique}, code int NOT NULL UNIQUE {unique})")
    capture.options |= options
    with pytest.raises(CaptureRefused, match=r"the key of public.items .* is DEFERRABLE"):
        capture.batch()


def test_a_table_that_was_left_out_for_a_while_is_refused(items: Sql, capture: Capture) -> None:
    items.execute("CREATE TABLE other (id int PRIMARY KEY)")
    capture.options["tables"] = "items,other"
    capture.rows(2)
    for tables in ("items", "items,other"):
        capture.stop()
        capture.options["tables"] = tables
        if tables == "items":
            items.execute("INSERT INTO other VALUES (1)")
            capture.batch()
    with pytest.raises(CaptureRefused, match=r"public.other is not one of the tables that the capture began with"):
        capture.rows(1)


@pytest.mark.parametrize("options", [{"streamPrefix": "other-"}, {"stream": "all"}, {"streamColumn": "name"}])
def test_other_streams_than_before_are_refused(options: dict[str, str], items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    capture.options |= options
    with pytest.raises(CaptureRefused, match="are not those that the capture began with"):
        capture.batch()


@pytest.mark.parametrize(
    "statement,reason",
    [
        ("ALTER TABLE items ALTER id TYPE numeric(10, 2)", "the column 'id' of the key of items has another type"),
        ("ALTER TABLE items DROP CONSTRAINT items_pkey", "primary key"),
    ],
)
def test_another_kind_of_key_is_refused(statement: str, reason: str, items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute(statement)
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    with pytest.raises(CaptureRefused, match=reason):
        capture.rows(1)


def test_a_key_that_grows_stays_the_same(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("ALTER TABLE items ALTER id TYPE int8")
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    assert [change[1] for change in capture.changes(2)] == ["items", "3"]
