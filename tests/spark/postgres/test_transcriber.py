"""Changes of tables as messages: what each of Postgres' operations becomes."""

from typing import Any

import psycopg
import pytest

from tests.spark.postgres.capture_query import Capture

Sql = psycopg.Connection[Any]


def test_rows_that_are_there_come_first_as_inserts(items: Sql, capture: Capture) -> None:
    assert capture.changes(2) == [
        ("insert", "1", {"id": 1, "name": "one", "price": 1.1}),
        ("insert", "2", {"id": 2, "name": "two", "price": 2.2}),
    ]


def test_inserts_updates_and_deletes_follow_in_the_order_of_commits(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'three', NULL)")
    items.execute("UPDATE items SET name = 'drei' WHERE id = 3")
    items.execute("DELETE FROM items WHERE id = 1")
    assert capture.changes(3) == [
        ("insert", "3", {"id": 3, "name": "three", "price": None}),
        ("update", "3", {"id": 3, "name": "drei", "price": None}),
        ("delete", "1", None),
    ]


def test_a_message_tells_its_transaction_and_the_row_before(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("UPDATE items SET price = 3 WHERE id = 2")
    (message,) = capture.messages(1)
    assert message["old_value"] == {"id": 2, "name": "two", "price": 2.2}
    assert message["headers"].keys() == {"operation", "txid", "timestamp", "lsn"}


def test_a_changed_key_is_a_delete_and_an_insert(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("UPDATE items SET id = 20 WHERE id = 2")
    assert capture.changes(2) == [("delete", "2", None), ("insert", "20", {"id": 20, "name": "two", "price": 2.2})]


def test_a_changed_key_is_noticed_where_old_rows_are_only_their_keys(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, number int)")
    capture.batch()
    db.execute("INSERT INTO items VALUES (1, 7)")
    db.execute("UPDATE items SET id = 2")
    assert capture.changes(3)[1:] == [("delete", "1", None), ("insert", "2", {"id": 2, "number": 7})]


def test_large_values_that_an_update_leaves_alone_are_in_its_message(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    large = "".join(chr(48 + (number * 7919) % 75) for number in range(20_000))
    items.execute("ALTER TABLE items ALTER name SET STORAGE EXTERNAL")
    items.execute("INSERT INTO items VALUES (3, %s, 1)", [large])
    items.execute("UPDATE items SET price = 2 WHERE id = 3")
    assert capture.changes(2)[1] == ("update", "3", {"id": 3, "name": large, "price": 2})


def test_large_values_that_were_not_sent_are_named(items: Sql, capture: Capture) -> None:
    capture.options |= {"replicaIdentity": "keep"}
    capture.rows(2)
    items.execute("ALTER TABLE items ALTER name SET STORAGE EXTERNAL")
    items.execute("INSERT INTO items VALUES (3, %s, 1)", ["x" * 20_000])
    items.execute("UPDATE items SET price = 2 WHERE id = 3")
    _, message = capture.messages(2)
    assert message["headers"]["unchanged"] == ["name"]
    assert message["value"] == {"id": 3, "price": 2}


def test_a_truncated_table_is_a_reset(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("TRUNCATE items")
    items.execute("INSERT INTO items VALUES (9, 'nine', 9)")
    assert [change[0] for change in capture.changes(2)] == ["reset", "insert"]


def test_transactions_that_are_rolled_back_say_nothing(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    with items.transaction(force_rollback=True):
        items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    items.execute("INSERT INTO items VALUES (4, 'four', 4)")
    assert [change[1] for change in capture.changes(1)] == ["4"]


def test_concurrent_transactions_come_whole_in_the_order_of_their_commits(
    items: Sql, database: str, capture: Capture
) -> None:
    capture.rows(2)
    with psycopg.connect(database) as other:
        other.execute("INSERT INTO items VALUES (10, 'first begun', 0)")
        items.execute("INSERT INTO items VALUES (20, 'first committed', 0)")
        other.execute("INSERT INTO items VALUES (11, 'first begun', 0)")
        other.commit()
    assert [change[1] for change in capture.changes(3)] == ["20", "10", "11"]


def test_keys_of_several_columns_are_a_list(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (tenant text, id int, name text, PRIMARY KEY (tenant, id))")
    db.execute("INSERT INTO items VALUES ('a\"b', 1, 'x')")
    assert capture.changes(1)[0][1] == '["a\\"b",1]'


@pytest.mark.parametrize("key,written", [("", '""'), ('"', '"\\""'), ("plain", "plain"), ("ä\n", "ä\n")])
def test_no_key_is_empty_or_like_another(key: str, written: str, db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id text PRIMARY KEY)")
    db.execute("INSERT INTO items VALUES (%s)", [key])
    assert capture.changes(1)[0][1] == written


def test_a_table_without_a_primary_key_takes_the_columns_that_are_named(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (code text NOT NULL, name text)")
    capture.options |= {"keyColumns.items": "code"}
    capture.batch()
    db.execute("INSERT INTO items VALUES ('a', 'x')")
    db.execute("UPDATE items SET code = 'b'")
    db.execute("DELETE FROM items")
    assert [change[:2] for change in capture.changes(4)] == [
        ("insert", "a"),
        ("delete", "a"),
        ("insert", "b"),
        ("delete", "b"),
    ]


def test_partitions_are_their_table(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    db.execute("CREATE TABLE items_low PARTITION OF items FOR VALUES FROM (0) TO (10)")
    db.execute("CREATE TABLE items_high PARTITION OF items FOR VALUES FROM (10) TO (20)")
    db.execute("INSERT INTO items VALUES (1, 'low'), (11, 'high')")
    assert sorted(change[1] for change in capture.changes(2)) == ["1", "11"]
    db.execute("UPDATE items SET id = 12 WHERE id = 1")  # it moves to the other partition
    assert [change[:2] for change in capture.changes(2)] == [("delete", "1"), ("insert", "12")]


def test_old_rows_can_be_left_out(items: Sql, capture: Capture) -> None:
    capture.options |= {"oldValues": "false"}
    capture.rows(2)
    items.execute("UPDATE items SET price = 3 WHERE id = 2")
    items.execute("DELETE FROM items WHERE id = 2")
    assert not any("old_value" in message for message in capture.messages(2))


def test_the_envelope_change_has_what_a_message_says_as_columns(items: Sql, capture: Capture) -> None:
    capture.options |= {"envelope": "change"}
    row = capture.rows(2)[1]
    assert (row["table"], row["operation"], row["key"]) == ("items", "insert", "2")
