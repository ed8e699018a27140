"""Tables by themselves: a batch is in one as a whole and once, and compaction changes no row."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from everbrook.spark.lake.delta import DeltaLake, open_table
from everbrook.spark.lake.lake_errors import ColumnsChanged, LakeUnwritable, TableMismatch
from everbrook.spark.lake.lake_table import BatchFiles, LakeOptions, require_apart
from everbrook.spark.lake.message_fields import json_columns
from tests.kit.lake_rows import QUERY, rows_of, table_at, write, write_files


def numbers(folder: Path) -> list[int]:
    found: list[int] = open_table(folder).to_table(columns=["n"])["n"].to_pylist()
    return sorted(found)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts]


def test_a_batch_is_there_once(tmp_path: Path) -> None:
    for _ in range(2):
        write(table_at(tmp_path), 0, rows_of({"n": 1}, {"n": 2}))
    assert numbers(tmp_path) == [1, 2]


def test_files_that_were_not_committed_do_not_count_and_are_cleared(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, rows_of({"n": 1}))
    write_files(table_at(tmp_path), 1, rows_of({"n": 2}))
    assert numbers(tmp_path) == [1]
    write(table_at(tmp_path), 1, rows_of({"n": 2}))
    assert (numbers(tmp_path), len(files(tmp_path))) == ([1, 2], 2)


def test_files_of_another_query_are_left_alone(tmp_path: Path) -> None:
    written = write_files(table_at(tmp_path, "another"), 5, rows_of({"n": 1}))
    write(table_at(tmp_path), 0, rows_of({"n": 2}))
    mine = table_at(tmp_path, QUERY)
    assert mine.has(0)
    assert all((tmp_path / file.path).exists() for file in written.files)


def test_rows_are_parted_by_group_and_day(tmp_path: Path) -> None:
    rows = [rows_of(*({"n": n} for n in range(24))), rows_of({"n": 24}, stream="other")]
    write(table_at(tmp_path), 0, *rows)
    found = open_table(tmp_path).to_table().to_pylist()
    parts = {(row["stream_group"], str(row["date"]), row["n"] >= 12) for row in found}
    assert parts == {("orders", "2026-01-01", False), ("orders", "2026-01-02", True), ("other", "2026-01-01", True)}


def test_rows_whose_group_and_day_are_not_known_are_there(tmp_path: Path) -> None:
    rows = rows_of({"n": 1}, stream="")
    write(table_at(tmp_path), 0, rows.drop_columns(["time"]))
    found = open_table(tmp_path).to_table().to_pylist()
    assert [(row["n"], row["stream_group"], row["date"], row["appended_at"]) for row in found] == [
        (1, None, None, None)
    ]


def test_a_table_that_many_runs_have_added_to_is_due_for_compaction(tmp_path: Path) -> None:
    for batch in range(3):
        write(table_at(tmp_path), batch, rows_of({"n": batch}, first=batch))
    assert table_at(tmp_path).loose_files() == 2


def test_files_that_another_run_has_cleared_are_not_committed(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    written = write_files(table, 0, rows_of({"n": 1}))
    write(table_at(tmp_path), 0, rows_of({"n": 1}))
    table.commit(written)
    assert numbers(tmp_path) == [1]


def test_a_stream_with_a_long_name_stops_nothing(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, rows_of({"n": 1}, stream="日" * 60 + "/x"))
    assert numbers(tmp_path) == [1]


def test_columns_that_two_queries_add_at_once_are_all_there_and_stay(tmp_path: Path) -> None:
    one, other = _two(tmp_path, {"n": 1, "p": 1}, {"n": 2, "q": 2})
    table = one()
    other()
    table.compact(retention_hours=0)
    found = open_table(tmp_path).to_table().sort_by("n").to_pylist()
    assert [(row["p"], row["q"]) for row in found] == [(1, None), (None, 2)]


@pytest.mark.parametrize("late", [{"x": "text"}, {"X": 1}])
def test_a_batch_whose_new_column_the_table_has_otherwise_by_now_is_not_committed(
    tmp_path: Path, late: dict[str, Any]
) -> None:
    one, other = _two(tmp_path, {"n": 1, "x": 1}, {"n": 2, **late})
    one()
    with pytest.raises(ColumnsChanged, match="has got the column 'x' of int64 from another writer"):
        other()
    assert numbers(tmp_path) == [1]


def _two(folder: Path, *messages: dict[str, Any]) -> list[Callable[[], DeltaLake]]:
    """Let two queries write files at the same time, and give what commits those of each."""

    def commit(table: DeltaLake, written: BatchFiles) -> DeltaLake:
        table.commit(written)
        return table

    tables = [DeltaLake(LakeOptions(str(folder)), name) for name in ("a", "b")]
    tables[0].prepare(json_columns(()))
    written = [write_files(table, 0, rows_of(message)) for table, message in zip(tables, messages, strict=True)]
    return [partial(commit, table, each) for table, each in zip(tables, written, strict=True)]


def test_compaction_leaves_alone_what_somebody_else_keeps_below_the_folder(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    mine = tmp_path / "stream_group=orders" / "mine.csv"
    for batch in range(2):
        write(table, batch, rows_of({"n": batch}, first=batch))
    mine.touch()
    inner = table_at(tmp_path / "inner")
    write(inner, 0, rows_of({"n": 1}))
    table.compact(retention_hours=0)
    assert (mine.exists(), numbers(tmp_path / "inner")) == (True, [1])


def test_a_table_within_another_is_refused(tmp_path: Path) -> None:
    table_at(tmp_path)
    with pytest.raises(TableMismatch, match="is within the table"):
        require_apart(tmp_path / "some" / "inner")


def test_groups_of_all_characters_are_found_before_and_after_compaction(tmp_path: Path) -> None:
    names = ["a b", "a%25b", "a~b", "ü", "日本", "{x}", "*", "a+b", "a=b"]
    table = table_at(tmp_path)
    for batch in range(4):
        write(table, batch, *(rows_of({"n": batch}, stream=f"{name}/x", first=batch) for name in names))
        if batch % 2:
            table.compact(retention_hours=0)
        found = open_table(tmp_path).to_table()["stream_group"].to_pylist()
        assert sorted(found) == sorted([name.replace("~", "-") for name in names] * (batch + 1))


def test_what_lies_beside_the_rows_is_left_alone_by_compaction(tmp_path: Path) -> None:
    table, letters = table_at(tmp_path), table_at(tmp_path / "_dead_letters")
    for batch in range(2):
        write(table, batch, rows_of({"n": batch}, first=batch))
        write(letters, batch, rows_of({"n": batch}, first=batch))
    table.compact(retention_hours=0)
    assert numbers(tmp_path / "_dead_letters") == [0, 1]


def test_compaction_changes_no_row(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch in range(6):
        write(table, batch, rows_of({"n": batch, f"field-{batch}": [batch]}, first=batch))
    before = _sorted(tmp_path)
    table.compact(retention_hours=0)
    assert _sorted(tmp_path) == before
    assert len(files(tmp_path)) == 1
    assert table_at(tmp_path).has(5)


def _sorted(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = open_table(folder).to_table().sort_by("offset").to_pylist()
    return rows


def test_batches_go_on_behind_a_compaction(tmp_path: Path) -> None:
    for batch in range(4):
        table = table_at(tmp_path)
        write(table, batch, rows_of({"n": batch}, first=batch))
        table.compact(retention_hours=0)
    assert numbers(tmp_path) == [0, 1, 2, 3]


def test_a_folder_that_is_no_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(TableMismatch, match="is not empty"):
        table_at(tmp_path)


def test_a_full_disk_is_told_with_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    table = table_at(tmp_path)
    monkeypatch.setattr("everbrook.spark.lake.files.pq.ParquetWriter", full)
    with pytest.raises(LakeUnwritable, match=r"can't write to the table .*: No space left on device\. No message"):
        write(table, 0, rows_of({"n": 1}))
    monkeypatch.undo()
    write(table_at(tmp_path), 0, rows_of({"n": 1}))
    assert numbers(tmp_path) == [1]
