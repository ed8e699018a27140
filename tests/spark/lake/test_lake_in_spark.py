"""Streams into tables: rows equal the messages, whatever they are, and each is there once."""

import shutil
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from everbrook import Client
from everbrook.spark.lake.lake_errors import TableMismatch
from everbrook.spark.options import InvalidOption, TableTuning
from tests.spark.batches import append, forget_last_batch
from tests.spark.lake.lake_queries import Lake


def test_rows_equal_the_messages_of_the_streams(lake: Lake, client: Client) -> None:
    messages = {f"{lake.prefix}{name}": [{"n": n, "from": name} for n in range(50)] for name in ("a", "b c")}
    for name, sent in messages.items():
        append(client, name, *sent)
    lake.run()
    rows = lake.rows()
    there = {name: [{"n": r["n"], "from": r["from"]} for r in rows if r["stream"] == name] for name in messages}
    assert there == messages
    assert {(row["stream_group"], row["date"]) for row in rows} == {(lake.prefix.rstrip("/"), datetime.now(UTC).date())}


def test_a_batch_that_runs_again_is_there_once(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", *({"n": n} for n in range(10)), "no object")
    lake.run()
    forget_last_batch(lake.checkpoint)
    lake.run()
    assert [row["n"] for row in lake.rows()] == list(range(10))
    assert len(lake.dead_letters()) == 1


def test_large_batches_are_written_by_tasks(lake: Lake, client: Client) -> None:
    for name in "abcd":
        append(client, f"{lake.prefix}{name}", *({"n": n, name: n} for n in range(30)))
    lake.run({"readOn": "tasks"}, tuning=TableTuning(large_bytes=0))
    rows = lake.rows()
    assert [(row["stream"][-1], row["n"]) for row in rows] == [(name, n) for name in "abcd" for n in range(30)]
    assert all(row[row["stream"][-1]] == row["n"] for row in rows)


def test_tasks_that_find_different_types_are_settled(lake: Lake, client: Client) -> None:
    values: list[Any] = [1, 2.5, "three", None, [4]]
    for name, value in zip("abcde", values, strict=True):
        append(client, f"{lake.prefix}{name}", {"x": value, "n": 1 if name == "a" else 0.5})
    lake.run({"readOn": "tasks", "minPartitions": "2"}, tuning=TableTuning(large_bytes=0))
    assert [row["x"] for row in lake.rows()] == ["1", "2.5", '"three"', None, "[4]"]
    assert [row["n"] for row in lake.rows()] == [1.0, 0.5, 0.5, 0.5, 0.5]


def test_a_new_field_is_a_new_column_and_a_missing_one_is_null(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", {"id": 1})
    lake.run()
    client.stream(f"{lake.prefix}a").extend([{"id": 2, "item": "tea"}, {"item": "cup"}])
    lake.run()
    assert lake.fields() == [
        {"_rescued": None, "id": 1, "item": None},
        {"_rescued": None, "id": 2, "item": "tea"},
        {"_rescued": None, "id": None, "item": "cup"},
    ]


def test_dead_letters_go_to_a_stream_once(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", {"n": 1}, [2], "three")
    there = f"letters-of-{lake.prefix.strip('/')}"
    lake.run(dead_letters=f"stream:{there}")
    forget_last_batch(lake.checkpoint)
    lake.run(dead_letters=f"stream:{there}")
    found = client.stream(there).read().all()
    assert [letter["payload"] for letter in found] == ["[2]", '"three"']
    assert found[0]["stream"] == f"{lake.prefix}a"


def test_a_given_schema_says_the_types_and_keeps_the_rest(lake: Lake, client: Client) -> None:
    schema = "id INT, at TIMESTAMP, price DECIMAL(10,2), tags ARRAY<STRING>, note STRING"
    append(
        client,
        f"{lake.prefix}a",
        {"id": 1, "at": "2026-01-01T10:00:00Z", "price": 9.5, "tags": ["a"], "note": {"x": 1}, "more": True},
        {"id": 2**40},
    )
    lake.run(schema=schema)
    first, second = lake.fields()
    assert (first["id"], first["at"], str(first["price"])) == (1, datetime(2026, 1, 1, 10, tzinfo=UTC), "9.50")
    assert (first["tags"], first["note"], first["_rescued"]) == (["a"], '{"x":1}', '{"more":true}')
    assert (second["id"], second["_rescued"]) == (None, f'{{"id":{2**40}}}')


def test_raw_keeps_messages_as_they_are(lake: Lake, client: Client) -> None:
    client.stream(f"{lake.prefix}t").create(content_type="application/octet-stream", data=b"\xff\x00")
    lake.run(schema="raw")
    assert lake.fields() == [{"value": b"\xff\x00"}]


def test_compaction_leaves_the_rows_as_they_are(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", *({"n": n} for n in range(40)))
    client.stream(f"{lake.prefix}a").extend([{"n": 40, "late": True}])
    source = {"maxRowsPerTrigger": "5"}
    lake.run(source, compact_after=4, retention_hours=0)
    files = [path for path in lake.path.rglob("*.parquet") if "_delta_log" not in path.parts]
    assert [row["n"] for row in lake.rows()] == list(range(41))
    assert len(files) < 6
    assert lake.rows()[-1]["late"] is True


def test_a_schema_that_contradicts_the_table_is_refused(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", {"n": 1})
    lake.run(schema="n BIGINT")
    with pytest.raises(TableMismatch, match=r"'n' of the table .* is int64 already"):
        lake.start(schema="n STRING")
    with pytest.raises(TableMismatch, match="has fields in its columns"):
        lake.start(schema="raw")


def test_a_table_that_was_removed_is_not_begun_in_the_middle(lake: Lake, client: Client) -> None:
    append(client, f"{lake.prefix}a", {"n": 1})
    lake.run()
    shutil.rmtree(lake.path)
    client.stream(f"{lake.prefix}a").append({"n": 2})
    with pytest.raises(StreamingQueryException, match="has never had a batch of this query"):
        lake.run()
    assert lake.rows() == []


def test_options_that_make_no_sense_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match="format must be 'delta', got 'csv'"):
        lake.start(format="csv")
    with pytest.raises(InvalidOption, match=r"use Spark's own file sink: df\.writeStream\.format\('parquet'\)"):
        lake.start(format="parquet")
    with pytest.raises(InvalidOption, match="group must be"):
        lake.start(group=0)
    with pytest.raises(InvalidOption, match="every table of the lake has"):
        lake.start(schema="offset STRING")
    with pytest.raises(InvalidOption, match="no table can have a column 'a b'"):
        lake.start(schema="`a b` BIGINT")
    with pytest.raises(InvalidOption, match="'v' is a VARIANT; give STRING"):
        lake.start(schema="v VARIANT")
    with pytest.raises(InvalidOption, match="a type that no table can have"):
        lake.start(schema="a VARCHAR(3)")
