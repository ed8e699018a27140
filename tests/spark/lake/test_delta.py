"""Delta tables: compaction removes what the table has named once, and nothing that is somebody else's."""

import logging
from pathlib import Path

import pytest
from deltalake.exceptions import DeltaError
from deltalake.table import TableOptimizer

from everbrook.spark.lake.opening import open_table
from tests.spark.lake.rows import rows_of, table_at, write


def test_compaction_leaves_other_files_of_the_folder_alone(tmp_path: Path) -> None:
    table = table_at(tmp_path, "delta")
    for batch in range(3):
        write(table, batch, rows_of({"n": batch}, first=batch))
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "mine.parquet").touch()
    table.compact(retention_hours=0)
    assert (tmp_path / "export" / "mine.parquet").exists()
    assert open_table(tmp_path).count_rows() == 3


def test_a_compaction_that_delta_does_not_do_is_told_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: TableOptimizer) -> None:
        raise DeltaError("no plan")

    table = table_at(tmp_path, "delta")
    monkeypatch.setattr(TableOptimizer, "compact", broken)
    with caplog.at_level(logging.WARNING):
        table.compact(retention_hours=0)
    assert caplog.messages == [f"small files of the table {tmp_path} are not put together: no plan"]
