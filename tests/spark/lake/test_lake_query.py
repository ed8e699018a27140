"""Queries that share a table, or lose theirs: none begins a table in the middle."""

import fcntl
from pathlib import Path

import pytest

from everbrook.spark.lake.lake_errors import TableMismatch
from everbrook.spark.lake.lake_query import held, register_query
from tests.kit.lake_rows import rows_of, table_at, write


def test_a_query_goes_on_with_a_table_that_knows_it(tmp_path: Path) -> None:
    register_query(tmp_path, "one", 0, known=False)
    register_query(tmp_path, "one", 7, known=False)


def test_a_query_that_has_a_table_already_does_not_begin_another_in_the_middle(tmp_path: Path) -> None:
    with pytest.raises(TableMismatch, match=r"has never had a batch of this query, whose checkpoint is at batch 7"):
        register_query(tmp_path, "one", 7, known=False)
    register_query(tmp_path, "one", 7, known=True)


def test_a_table_has_several_queries(tmp_path: Path) -> None:
    register_query(tmp_path, "one", 0, known=False)
    register_query(tmp_path, "other", 0, known=False)
    register_query(tmp_path, "other", 1, known=False)


def test_compaction_does_not_forget_queries(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    register_query(tmp_path, "one", 0, known=False)
    for batch in range(2):
        write(table, batch, rows_of({"n": batch}, first=batch))
    table.compact(retention_hours=0)
    register_query(tmp_path, "one", 1, known=False)


def test_two_runs_of_a_query_take_turns(tmp_path: Path) -> None:
    lock = tmp_path / "_queries" / ".one"
    with held(tmp_path, "one"), held(tmp_path, "other"), lock.open("ab") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with held(tmp_path, "one"):
        register_query(tmp_path, "one", 0, known=False)
