"""Delta tables: two runs of a query, what other writers promise, and what compaction leaves alone."""

import logging
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.table import TableOptimizer

from everbrook.spark.lake import delta
from everbrook.spark.lake.delta import open_table
from everbrook.spark.lake.lake_errors import RunSuperseded, TableMismatch
from tests.kit.lake_rows import rows_of, table_at, write, write_files


def test_a_run_that_another_takes_over_from_in_the_last_moment_commits_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path)
    written = write_files(table, 0, rows_of({"n": 1}))
    monkeypatch.setattr(delta, "require_there", lambda *_: table_at(tmp_path))
    with pytest.raises(RunSuperseded):
        table.commit(written)
    assert open_table(tmp_path).count_rows() == 0


def test_a_filter_finds_its_rows_before_and_after_compaction(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch in range(3):
        write(table, batch, rows_of({"n": batch, f"of_{batch}": True}, first=batch))
    above = ds.field("n") > 0
    assert open_table(tmp_path).count_rows(filter=above) == 2
    table.compact(retention_hours=0)
    assert open_table(tmp_path).count_rows(filter=above & ds.field("of_2")) == 1


def test_a_constraint_of_another_writer_is_kept_and_told(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of({"n": 1}))
    DeltaTable(tmp_path).alter.add_constraint({"positive": "n > 0"})
    with pytest.raises(TableMismatch, match="the constraint 'positive' \\(n > 0\\)"):
        write(table, 1, rows_of({"n": -1}, first=1))
    assert open_table(tmp_path).count_rows() == 1


def test_compaction_leaves_other_files_of_the_folder_alone(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch in range(3):
        write(table, batch, rows_of({"n": batch}, first=batch))
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "mine.parquet").touch()
    table.compact(retention_hours=0)
    assert (tmp_path / "export" / "mine.parquet").exists()
    assert open_table(tmp_path).count_rows() == 3


def test_compaction_drops_what_a_task_that_failed_has_left(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of({"n": 1}), rows_of({"n": 2}, stream="日本/x"))
    failed = write_files(table, 0, rows_of({"n": 1}), rows_of({"n": 2}, stream="日本/x"))
    table.compact(retention_hours=0)
    assert not any((tmp_path / file.path).exists() for file in failed.files)
    assert open_table(tmp_path).to_table(columns=["n"])["n"].to_pylist() == [1, 2]


def test_a_compaction_that_delta_does_not_do_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: TableOptimizer) -> None:
        raise DeltaError("no plan")

    table = table_at(tmp_path)
    monkeypatch.setattr(TableOptimizer, "compact", broken)
    with caplog.at_level(logging.WARNING):
        table.compact(retention_hours=0)
    assert caplog.messages == [f"small files of the table {tmp_path} can't be merged: no plan"]
