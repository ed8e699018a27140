"""Going on after restarts, broken connections and full buffers: every batch is the same whenever it is asked for."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from everbrook.spark.capture import PostgresAway, status
from everbrook.spark.postgres.capture_options import CaptureTuning
from everbrook.spark.postgres.capture_position import parse_lsn
from everbrook.stack.postgres import Postgres
from tests.kit.ports import free_port
from tests.spark.postgres.capture_query import Capture

Sql = psycopg.Connection[Any]


def insert(db: Sql, first: int, last: int) -> None:
    db.execute("INSERT INTO items SELECT g, 'x', 1 FROM generate_series(%s::int, %s::int) g", [first, last])


def eventually(claim: Callable[[], bool], timeout_secs: float = 120.0) -> bool:
    deadline = time.monotonic() + timeout_secs
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.05)
    return claim()


def test_a_batch_is_the_same_when_it_is_asked_for_again(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    insert(items, 3, 50)
    insert(items, 51, 100)
    start, end = capture.plan_rows()
    first = capture.read(start, end)
    capture.stop()
    insert(items, 101, 150)
    assert capture.read(start, end) == first != []


def test_a_batch_of_the_copy_is_the_same_when_it_is_asked_for_again(items: Sql, capture: Capture) -> None:
    start, end = capture.plan_rows()
    first = capture.read(start, end)
    capture.stop()
    items.execute("DELETE FROM items")
    assert capture.read(start, end) == first != []


def test_a_huge_transaction_is_parted_among_batches(items: Sql, capture: Capture) -> None:
    capture.options |= {"maxRowsPerTrigger": "100"}
    capture.rows(2)
    insert(items, 1001, 2000)
    sizes: list[int] = []
    keys: list[str] = []
    while len(keys) < 1000:
        rows = capture.batch()
        sizes.append(len(rows))
        keys += [row["offset"] for row in rows]
        if len(sizes) % 3 == 0:
            capture.stop()  # which is in the midst of the transaction
    assert max(sizes) == 100
    assert keys == sorted(set(keys))


def test_what_waits_for_spark_is_bounded(items: Sql, capture: Capture) -> None:
    capture.options |= {"maxRowsPerTrigger": "50"}
    capture.rows(2)
    insert(items, 1001, 21_000)
    capture.plan()
    receiver = capture.reader.receiver
    assert receiver is not None
    assert eventually(lambda: receiver.buffer.full)
    time.sleep(0.3)
    assert receiver.buffer.row_count < 50 * 4 + 300


def test_a_batch_that_was_decided_on_is_given_under_smaller_limits_too(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    insert(items, 1001, 2000)
    capture.reader.prepareForTriggerAvailableNow()  # so that all of them are in one batch
    start, end = capture.plan_rows()
    capture.stop()
    capture.options |= {"maxRowsPerTrigger": "10"}
    read: list[int] = []
    thread = threading.Thread(target=lambda: read.append(len(capture.read(start, end))), daemon=True)
    thread.start()
    thread.join()
    assert read == [1000]


def test_a_large_row_is_a_batch_of_its_own(items: Sql, capture: Capture) -> None:
    capture.options |= {"maxBytesPerTrigger": "1000"}
    capture.rows(2)
    items.execute("INSERT INTO items SELECT g, repeat('x', 5000), 1 FROM generate_series(3, 6) g")
    for _ in range(4):
        capture.rows(1)


def test_the_slot_is_confirmed_by_what_is_committed_alone(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    before = status(capture.options["url"], capture.parsed.slot).confirmed_lsn
    insert(items, 3, 10)
    capture.rows(8)
    time.sleep(0.3)
    assert status(capture.options["url"], capture.parsed.slot).confirmed_lsn == before
    capture.reader.commit(capture.checkpoint[-1])
    confirmed = parse_lsn(capture.checkpoint[-1]["lsn"])
    assert eventually(lambda: parse_lsn(status(*capture.slot).confirmed_lsn) == confirmed)


def test_the_slot_advances_when_only_other_tables_change(items: Sql, capture: Capture) -> None:
    capture.tuning = CaptureTuning(advance_secs=0.1)
    capture.rows(2)
    items.execute("CREATE TABLE other (text text)")
    for _ in range(3):
        items.execute("INSERT INTO other SELECT repeat('x', 1000) FROM generate_series(1, 2000)")
        assert eventually(lambda: capture.plan()[0] != capture.plan()[1])
        assert capture.batch() == []
    assert eventually(lambda: status(*capture.slot).lag_bytes < 3_000_000)


def test_lag_and_size_of_the_slot_are_told(items: Sql, capture: Capture) -> None:
    capture.rows(2)
    items.execute("INSERT INTO items SELECT g, repeat('x', 1000), 1 FROM generate_series(1000, 2000) g")
    told = status(*capture.slot)
    assert told.lag_bytes > 1_000_000
    assert told.retained_bytes >= told.lag_bytes


def test_postgres_that_goes_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    cluster = Postgres(tmp_path / "cluster", free_port(), settings={"fsync": "off"})
    capture = Capture(cluster.url(), tmp_path / "copy")
    try:
        cluster.start().wait_ready()
        with psycopg.connect(cluster.url(), autocommit=True) as db:
            db.execute("CREATE TABLE items (id int PRIMARY KEY, name text, price numeric)")
            capture.batch()
            insert(db, 1, 100)
            keys = [change[1] for change in capture.changes(100)]
        cluster.stop()
        cluster.start().wait_ready()
        with psycopg.connect(cluster.url(), autocommit=True) as db:
            insert(db, 101, 200)
        keys += [change[1] for change in capture.changes(100)]
        assert keys == [str(number) for number in range(1, 201)]
    finally:
        capture.stop()
        cluster.stop()


def test_a_broken_connection_in_mid_transaction_loses_and_repeats_nothing(items: Sql, capture: Capture) -> None:
    capture.options |= {"maxRowsPerTrigger": "100"}
    capture.rows(2)
    insert(items, 1001, 5000)
    rows = capture.batch()
    while len(rows) < 4000:
        items.execute("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active")
        for _ in range(8):
            rows += capture.batch()
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == 4000


def test_a_slot_that_another_process_reads_is_waited_for(items: Sql, capture: Capture, database: str) -> None:
    capture.rows(2)
    items.execute("INSERT INTO items VALUES (3, 'x', 1)")
    second = Capture(database, Path(capture.options["copyLocation"]))
    second.checkpoint = list(capture.checkpoint)
    capture.plan()
    assert second.batch() == []
    capture.stop()
    assert [change[1] for change in second.changes(1)] == ["3"]
    second.stop()


def test_a_slot_that_stays_in_use_is_an_error(items: Sql, capture: Capture, database: str) -> None:
    capture.rows(2)
    capture.plan()
    second = Capture(database, Path(capture.options["copyLocation"]), reconnectSecs="1")
    second.checkpoint = list(capture.checkpoint)
    with pytest.raises(PostgresAway, match=r"is active for PID .* tried for 1 s"):
        second.rows(1)
    second.stop()


def test_what_is_available_now_ends(items: Sql, capture: Capture) -> None:
    insert(items, 3, 10)
    capture.batch()
    insert(items, 11, 20)
    capture.reader.prepareForTriggerAvailableNow()
    insert(items, 21, 30)
    rows = []
    while more := capture.batch():
        rows += more
    assert len(rows) == 10
    start, end = capture.plan()
    assert start == end
