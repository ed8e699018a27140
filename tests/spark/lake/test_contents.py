"""Rows back to messages: as they were."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings, strategies as st

from everbrook.spark.lake.lake_errors import TableMismatch
from everbrook.spark.lake.lake_source import Contents
from everbrook.spark.lake.replay import parse_replay
from everbrook.spark.options import InvalidOption
from tests.kit.lake_rows import rows_of, table_at, write
from tests.spark.lake.test_message_fields import JSON_VALUES, NAMES


def contents(folder: Path, pin: str | None = None, **options: str) -> Contents:
    return Contents(parse_replay({"path": str(folder), **options}), pin)


def messages(table: Contents, buckets: int = 1) -> list[tuple[str, Any]]:
    """Give the streams and messages of all buckets, each bucket in the order of streams and offsets."""
    found = []
    for number in range(buckets):
        rows = [row for batch in table.read(range(number, number + 1), buckets) for row in batch.to_pylist()]
        rows.sort(key=lambda row: (row["stream"], row["offset"]))
        found += [(row["stream"], json.loads(row["value"])) for row in rows]
    return found


def test_each_row_is_in_one_bucket(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    sent = [(f"orders/{name}", {"n": n}) for name in range(20) for n in range(3)]
    for batch, n in enumerate(range(3)):
        rows = [rows_of({"n": n}, stream=f"orders/{name}", first=n) for name in range(20)]
        write(table, batch, *rows)
    found = messages(contents(tmp_path), buckets=4)
    assert sorted(found, key=str) == sorted(sent, key=str)
    assert [value["n"] for stream, value in found if stream == "orders/7"] == [0, 1, 2]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
@given(st.lists(st.dictionaries(NAMES, JSON_VALUES, max_size=5), min_size=1, max_size=6))
def test_messages_are_put_together_as_they_were(tmp_path_factory: pytest.TempPathFactory, sent: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("table")
    table = table_at(folder)
    for batch, message in enumerate(sent):
        write(table, batch, rows_of(message, first=batch))
    expected = [{name: value for name, value in each.items() if value is not None} for each in sent]
    assert [value for _, value in messages(contents(folder))] == json.loads(json.dumps(expected))


def test_a_version_of_a_delta_table_is_read_as_it_was(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of({"n": 1}))
    pin = contents(tmp_path).pin
    write(table, 1, rows_of({"n": 2}, first=1))
    assert [value["n"] for _, value in messages(contents(tmp_path, pin))] == [1]


def test_a_version_that_is_not_there_is_told(tmp_path: Path) -> None:
    table_at(tmp_path)
    with pytest.raises(TableMismatch, match="can't be read at version 99"):
        contents(tmp_path, version="99")


def test_a_delta_table_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, rows_of({"n": 1}))
    pin = contents(tmp_path).pin
    shutil.rmtree(tmp_path)
    write(table_at(tmp_path), 0, rows_of({"n": 2}))
    with pytest.raises(TableMismatch, match="is another table than when the replay began"):
        contents(tmp_path, pin)


def test_a_table_without_rows_has_no_messages(tmp_path: Path) -> None:
    table_at(tmp_path)
    assert messages(contents(tmp_path)) == []


def test_rows_are_sorted_by_the_columns_that_are_given(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, rows_of({"at": 3}, {"at": 1}, {"at": 2}))
    assert [value["at"] for _, value in messages(contents(tmp_path, orderBy="at"))] == [1, 2, 3]


def test_a_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    table_at(tmp_path)
    with pytest.raises(TableMismatch, match="has no column 'att'; the columns are stream_group, date, stream, offset"):
        contents(tmp_path, orderBy="att")


def test_files_that_are_no_table_of_the_lake_are_refused_with_the_way(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user": ["ada"]}), tmp_path / "part.parquet")
    with pytest.raises(
        TableMismatch, match=r"is no Delta table.*spark\.read\.parquet\(path\)\.write\.format\('everbrook'\)"
    ):
        contents(tmp_path)
    write_deltalake(tmp_path / "delta", pa.table({"user": ["ada"]}))
    with pytest.raises(TableMismatch, match=r"has no columns 'stream' and 'offset'.*df\.write\.format\('everbrook'\)"):
        contents(tmp_path / "delta")


@pytest.mark.parametrize("option", ["streamColumn", "valueColumn"])
def test_options_for_other_files_are_refused_with_the_way(tmp_path: Path, option: str) -> None:
    with pytest.raises(InvalidOption, match=rf"{option} is not supported.*\.write\.format\('everbrook'\)"):
        contents(tmp_path, **{option: "user"})


def test_a_version_whose_files_were_removed_is_told(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch in range(2):
        write(table, batch, rows_of({"n": batch}, first=batch))
    before = contents(tmp_path)
    pin = before.pin
    table.compact(retention_hours=0)
    with pytest.raises(TableMismatch, match="is gone, and the replay needs it to the end"):
        messages(contents(tmp_path, pin))
