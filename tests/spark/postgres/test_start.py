"""How a capture begins: what it makes, what it refuses, and a copy that agrees with the changes after it."""

import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everbrook.spark.capture import CaptureRefused, ChangesLost, PostgresAway, drop, status
from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.capture_options import CaptureTuning
from everbrook.spark.postgres.capture_position import MANIFEST
from everbrook.spark.postgres.start import begin
from everbrook.stack.postgres import Postgres
from tests.kit.ports import free_port
from tests.spark.postgres.capture_query import Capture, folded

Sql = psycopg.Connection[Any]
_PASSWORD = "secret"  # noqa: S105 - of roles that a test makes


def table_of(db: Sql) -> dict[str, int]:
    return {str(key): value for key, value in db.execute("SELECT id, number FROM items").fetchall()}


def test_publication_slot_and_identity_are_made_on_first_use(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    name = capture.parsed.slot
    assert items.execute("SELECT pubname FROM pg_publication").fetchall() == [(name,)]
    assert status(capture.options["url"], name).wal_status == "reserved"
    assert items.execute("SELECT relreplident::text FROM pg_class WHERE relname = 'items'").fetchone() == ("f",)


def test_the_copy_and_the_changes_after_it_are_the_table_while_it_is_written(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, number int)")
    db.execute("INSERT INTO items SELECT g, 0 FROM generate_series(1, 5000) g")
    stop, written = threading.Event(), threading.Thread(target=lambda: write_until(stop, capture.options["url"]))
    written.start()
    rows = [row for _ in range(20) for row in capture.batch()]
    stop.set()
    written.join()
    while more := capture.batch():
        rows += more
    values = {key: value["number"] for key, value in folded(rows)["items"]["items"].items()}
    assert values == table_of(db)


def write_until(stop: threading.Event, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        number = 0
        while not stop.is_set():
            number += 1
            connection.execute("UPDATE items SET number = %s WHERE id %% 50 = %s", [number, number % 50])
            connection.execute("DELETE FROM items WHERE id = %s", [number * 3])
            connection.execute("INSERT INTO items VALUES (%s, 1)", [10_000 + number])


def test_a_large_table_is_copied_in_parts(items: Sql, capture: Capture) -> None:
    # The driver reads nothing, so that tasks do.
    capture.tuning = CaptureTuning(pages_per_part=2, small_bytes=0, task_bytes=10_000)
    items.execute("INSERT INTO items SELECT g, repeat('x', 100), 1 FROM generate_series(3, 1000) g")
    manifest = begin(capture.parsed, capture.tuning)
    assert len(manifest.parts) > 5
    assert len(folded(capture.rows(1000))["items"]["items"]) == 1000


def test_the_copy_is_read_in_batches_of_limited_size(items: Sql, capture: Capture) -> None:
    items.execute("INSERT INTO items SELECT g, 'x', 1 FROM generate_series(3, 100) g")
    capture.options |= {"maxRowsPerTrigger": "30"}
    sizes = [len(capture.batch()) for _ in range(4)]
    assert sizes == [30, 30, 30, 10]


def test_the_files_of_the_copy_are_deleted_when_they_were_read(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    folder = capture.parsed.location
    assert list(folder.glob("part-*"))
    for number in (3, 4):
        items.execute("INSERT INTO items VALUES (%s, 'x', 1)", [number])
        capture.rows(1)
    items.execute("INSERT INTO items VALUES (5, 'x', 1)")
    capture.rows(1)
    assert not list(folder.glob("part-*"))


def test_without_a_copy_only_changes_are_read(items: Sql, capture: Capture) -> None:
    capture.options |= {"initialCopy": "false"}
    assert capture.batch() == []
    items.execute("INSERT INTO items VALUES (3, 'three', 3)")
    assert [change[1] for change in capture.changes(1)] == ["3"]


def test_a_start_that_was_cut_off_in_its_copy_is_made_anew(items: Sql, capture: Capture) -> None:
    begin(capture.parsed, capture.tuning)
    (capture.parsed.location / MANIFEST).unlink()  # as if it had been killed before the end
    items.execute("DELETE FROM items WHERE id = 1")
    assert [change[1] for change in capture.changes(1)] == ["2"]


def test_a_copy_that_fails_leaves_no_slot(selectable: Sql, capture: Capture) -> None:
    selectable.execute("CREATE PUBLICATION failing FOR TABLE items WHERE (1 / (id - 1) > 0)")
    capture.options["publication"] = "failing"
    with pytest.raises(CaptureRefused, match=r"items can't be copied: division by zero"):
        capture.batch()
    assert status(capture.options["url"], capture.parsed.slot).wal_status == "missing"


def test_a_slot_of_somebody_else_is_left_alone(items: Sql, capture: Capture) -> None:
    items.execute("SELECT pg_create_logical_replication_slot('theirs_1', 'pgoutput')")
    capture.options |= {"slot": "theirs_1"}
    with pytest.raises(CaptureRefused, match="there is a slot 'theirs_1' already"):
        capture.batch()


def test_a_table_without_a_key_is_refused(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (name text)")
    with pytest.raises(CaptureRefused, match=r"public.items has no primary key.*keyColumns.items"):
        capture.batch()


@pytest.mark.parametrize("columns,reason", [("nome", "has no column 'nome'"), ("name", "may be NULL")])
def test_key_columns_must_be_there_and_not_null(columns: str, reason: str, db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (name text)")
    capture.options |= {"keyColumns": columns}
    with pytest.raises(CaptureRefused, match=reason):
        capture.batch()


@pytest.mark.parametrize(
    "statement,reason",
    [
        ("SELECT 1", "there is no table 'items'"),
        ("CREATE VIEW items AS SELECT 1 AS id", "is not an ordinary table"),
        ("CREATE UNLOGGED TABLE items (id int PRIMARY KEY)", "is not an ordinary table"),
    ],
)
def test_what_is_no_table_is_refused(statement: str, reason: str, db: Sql, capture: Capture) -> None:
    db.execute(statement)
    with pytest.raises(CaptureRefused, match=reason):
        capture.batch()


def test_a_table_whose_old_rows_are_not_told_by_their_key_is_told_in_whole(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY, code int UNIQUE NOT NULL)")
    db.execute("ALTER TABLE items REPLICA IDENTITY USING INDEX items_code_key")
    capture.batch()
    db.execute("INSERT INTO items VALUES (1, 2)")
    db.execute("DELETE FROM items")
    assert [change[:2] for change in capture.changes(2)] == [("insert", "1"), ("delete", "1")]


def test_a_table_whose_old_rows_are_not_told_by_their_key_is_refused_as_it_is(db: Sql, capture: Capture) -> None:
    db.execute("CREATE TABLE items (id int PRIMARY KEY)")
    db.execute("ALTER TABLE items REPLICA IDENTITY NOTHING")
    capture.options |= {"replicaIdentity": "keep"}
    with pytest.raises(CaptureRefused, match="needs the whole old row"):
        capture.batch()


def test_a_table_that_somebody_has_locked_is_not_waited_for_long(items: Sql, capture: Capture) -> None:
    capture.tuning = CaptureTuning(lock_timeout="100ms")
    with items.transaction():
        items.execute("LOCK TABLE items")
        with pytest.raises(PostgresAway, match=r"no time for ALTER TABLE .*lock timeout"):
            capture.batch()


def test_a_role_that_may_not_replicate_is_told_so(items: Sql, capture: Capture) -> None:
    items.execute("DROP ROLE IF EXISTS reader_1")
    items.execute("CREATE ROLE reader_1 LOGIN PASSWORD 'secret'")
    items.execute("ALTER TABLE items OWNER TO reader_1")
    items.execute(f'GRANT CREATE ON DATABASE "{items.info.dbname}" TO reader_1')
    capture.options["url"] = psycopg.conninfo.make_conninfo(capture.options["url"], user="reader_1", password=_PASSWORD)
    with pytest.raises(CaptureRefused, match="ALTER ROLE … REPLICATION"):
        capture.batch()


def test_a_role_that_may_not_publish_is_told_the_command(items: Sql, capture: Capture) -> None:
    items.execute("DROP ROLE IF EXISTS reader_2")
    items.execute("CREATE ROLE reader_2 LOGIN REPLICATION PASSWORD 'secret'")
    capture.options["url"] = psycopg.conninfo.make_conninfo(capture.options["url"], user="reader_2", password=_PASSWORD)
    with pytest.raises(CaptureRefused, match=r'can run: ALTER TABLE "public"."items" REPLICA IDENTITY FULL'):
        capture.batch()


def test_tables_that_are_named_later_are_refused_until_a_new_copy(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    items.execute("CREATE TABLE more (id int PRIMARY KEY)")
    capture.options["tables"] = "items,more"
    with pytest.raises(CaptureRefused, match=r"public.more is not one of the tables that the capture began with"):
        capture.rows(1)


def test_a_lost_slot_is_an_error_with_the_way_out(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    drop(capture.options["url"], capture.parsed.slot, "nothing")
    with pytest.raises(ChangesLost, match=r"the slot .* is gone.*everbrook pipeline reset"):
        capture.rows(1)


def test_a_slot_that_was_made_anew_is_an_error(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    drop(capture.options["url"], capture.parsed.slot, "nothing")
    items.execute("INSERT INTO items VALUES (3, 'missed', 3)")
    items.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [capture.parsed.slot])
    with pytest.raises(ChangesLost, match="created again, or moved by another client"):
        capture.rows(1)


def test_a_missing_publication_is_an_error_with_the_way_out(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    capture.stop()
    items.execute(f"DROP PUBLICATION {capture.parsed.publication}")
    with pytest.raises(ChangesLost, match=r"publication .* is gone"):
        capture.rows(1)


def test_a_publication_may_show_some_columns_and_rows(selectable: Sql, capture: Capture) -> None:
    selectable.execute("CREATE PUBLICATION partly FOR TABLE items (id, name) WHERE (id > 1)")
    capture.options |= {"publication": "partly", "replicaIdentity": "keep"}
    assert capture.changes(1) == [("insert", "2", {"id": 2, "name": "two"})]
    selectable.execute("INSERT INTO items VALUES (0, 'hidden', 1), (3, 'three', 1)")
    assert capture.changes(1) == [("insert", "3", {"id": 3, "name": "three"})]


def test_postgres_without_logical_changes_is_refused(tmp_path: Path) -> None:
    cluster = Postgres(tmp_path / "cluster", free_port(), settings={"wal_level": "replica", "fsync": "off"})
    capture = Capture(cluster.url(), tmp_path / "copy")
    try:
        cluster.start().wait_ready()
        with pytest.raises(CaptureRefused, match="wal_level is 'replica'"):
            capture.batch()
    finally:
        cluster.stop()


@pytest.mark.parametrize(
    "options,reason",
    [
        ({"tables": ""}, "tables must be names"),
        ({"slot": "My Slot"}, "slot must be at most 63"),
        ({"stream": "a", "streamColumn": "b"}, "stream and streamColumn contradict each other"),
        ({"copyLocation": "s3://bucket/x"}, "copyLocation must be a folder"),
        ({"onTruncate": "delete"}, "onTruncate must be fail, reset or ignore"),
        ({"stroem": "a"}, "Did you mean stream?"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        Capture("postgres://x", Path("/tmp"), **options).parsed  # noqa: B018, S108
