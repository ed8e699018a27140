"""Rows back to messages: those of our tables as they were, and those of any folder of Parquet as told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from everbrook.spark.lake.contents import Contents
from everbrook.spark.lake.errors import TableMismatch
from everbrook.spark.lake.replays import parse_replay
from tests.spark.lake.rows import rows_of, table_at, write
from tests.spark.lake.test_messages import JSON_VALUES, NAMES


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
    pin = contents(tmp_path).pin()
    write(table, 1, rows_of({"n": 2}, first=1))
    assert [value["n"] for _, value in messages(contents(tmp_path, pin))] == [1]


def test_a_version_that_is_not_there_is_told(tmp_path: Path) -> None:
    table_at(tmp_path)
    with pytest.raises(TableMismatch, match="can't be read at version 99"):
        contents(tmp_path, version="99")


def test_a_delta_table_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, rows_of({"n": 1}))
    pin = contents(tmp_path).pin()
    shutil.rmtree(tmp_path)
    write(table_at(tmp_path), 0, rows_of({"n": 2}))
    with pytest.raises(TableMismatch, match="is another table, or has other files, than when the replay began"):
        contents(tmp_path, pin)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder that somebody else has written."""
    folder = tmp_path / "clicks"
    folder.mkdir()
    for number in range(2):
        rows = {"user": ["ada", "bob", "ada"], "at": [3 - number, 2, 1 - number], "page": [f"/{number}"] * 3}
        pq.write_table(pa.table(rows), folder / f"part-{number}.parquet")
    return folder


def test_rows_of_any_folder_are_objects_of_the_stream_of_its_name(foreign: Path) -> None:
    found = messages(contents(foreign))
    assert found[0] == ("clicks", {"user": "ada", "at": 3, "page": "/0"})
    assert [value["at"] for _, value in found] == [3, 2, 1, 2, 2, 0]


def test_columns_say_the_stream_the_order_and_the_message(foreign: Path) -> None:
    found = messages(contents(foreign, streamColumn="user", orderBy="at", valueColumn="at"), buckets=3)
    assert sorted(found) == sorted([("ada", 0), ("ada", 1), ("ada", 2), ("ada", 3), ("bob", 2), ("bob", 2)])
    assert [at for stream, at in found if stream == "ada"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "column, expected",
    [
        (pa.array([b'"\xc3\xa9"'], pa.large_binary()), "é"),
        (pa.array(['"é"'], pa.large_string()), "é"),
        (pa.array([{"a": [1]}]), {"a": [1]}),
        (pa.array([[1_000_000_001]], pa.list_(pa.timestamp("ns"))), ["1970-01-01T00:00:01.000000001"]),
    ],
)
def test_a_message_may_be_of_any_type(tmp_path: Path, column: pa.Array, expected: object) -> None:
    pq.write_table(pa.table({"it": column}), tmp_path / "part.parquet")
    assert messages(contents(tmp_path, valueColumn="it")) == [(tmp_path.name, expected)]


def test_what_is_no_parquet_is_passed_over(foreign: Path) -> None:
    (foreign / "readme.txt").write_text("clicks")
    assert len(messages(contents(foreign))) == 6


def test_a_table_without_rows_has_no_messages(tmp_path: Path) -> None:
    table_at(tmp_path)
    assert messages(contents(tmp_path)) == []


def test_a_column_that_is_not_there_is_told(foreign: Path) -> None:
    with pytest.raises(TableMismatch, match="has no column 'usr'; the columns are user, at, page"):
        contents(foreign, streamColumn="usr")


def test_offsets_that_are_numbers_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    rows = {"stream": ["a"] * 12, "offset": list(range(11, -1, -1)), "value": [str(n) for n in range(11, -1, -1)]}
    pq.write_table(pa.table(rows), tmp_path / "dump.parquet")
    assert [value for _, value in messages(contents(tmp_path))] == list(range(12))


def test_times_of_nanoseconds_are_texts(tmp_path: Path) -> None:
    at = pa.array([1_767_261_600_000_000_001], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"at": at}), tmp_path / "pandas.parquet")
    assert messages(contents(tmp_path)) == [(tmp_path.name, {"at": "2026-01-01T10:00:00.000000001Z"})]


def test_a_file_that_was_written_anew_is_refused(foreign: Path) -> None:
    pin = contents(foreign).pin()
    pq.write_table(pa.table({"user": ["eve"]}), foreign / "part-1.parquet")
    with pytest.raises(TableMismatch, match="has other files"):
        contents(foreign, pin)


def test_files_whose_columns_are_of_several_types_are_read_if_one_type_takes_all(tmp_path: Path) -> None:
    for number, value in enumerate((1, 1.5)):
        pq.write_table(pa.table({"a": [value]}), tmp_path / f"{number}.parquet")
    assert [value for _, value in messages(contents(tmp_path))] == [{"a": 1.0}, {"a": 1.5}]
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "2.parquet")
    with pytest.raises(TableMismatch, match=r"2\.parquet has a column of another type than files before it"):
        contents(tmp_path)


def test_a_version_whose_files_were_removed_is_told(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch in range(2):
        write(table, batch, rows_of({"n": batch}, first=batch))
    before = contents(tmp_path)
    pin = before.pin()
    table.compact(retention_hours=0)
    with pytest.raises(TableMismatch, match="is gone, and the replay needs it to the end"):
        messages(contents(tmp_path, pin))
