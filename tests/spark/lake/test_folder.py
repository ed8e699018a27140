"""Folders of Parquet that are killed in the middle: what was decided is finished, what was not is forgotten."""

from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.spark.lake.opening import open_table
from tests.spark.lake.rows import rows_of, table_at, write


class Killed(BaseException):
    """The process ends here."""


def kill(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    """End at the so many-th call of a method of paths, before it does anything."""
    original = getattr(Path, call)
    calls = iter(range(number + 1))

    def counted(self: Path, *arguments: object, **named: object) -> object:
        if next(calls, None) == number:
            raise Killed
        return original(self, *arguments, **named)

    monkeypatch.setattr(Path, call, counted)


def rows_there(folder: Path) -> list[int]:
    found: list[int] = open_table(folder).to_table(columns=["n"])["n"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("call", ["rename", "replace"])
@pytest.mark.parametrize("number", range(4))
def test_a_batch_that_is_killed_anywhere_is_there_once(
    tmp_path: Path, call: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [rows_of(*({"n": n} for n in range(24))), rows_of({"n": 24}, stream="other")]
    table = table_at(tmp_path, "parquet")
    with monkeypatch.context() as patched:
        kill(patched, call, number)
        with suppress(Killed):
            write(table, 0, *batches)
    write(table_at(tmp_path, "parquet"), 0, *batches)
    assert rows_there(tmp_path) == list(range(25))


@pytest.mark.parametrize("call, number", [("rename", 0), ("replace", 0), ("unlink", 0), ("unlink", 1)])
def test_a_compaction_that_is_killed_anywhere_changes_no_row(
    tmp_path: Path, call: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path, "parquet")
    for batch in range(3):
        write(table, batch, rows_of({"n": batch}, first=batch))
    with monkeypatch.context() as patched:
        kill(patched, call, number)
        with pytest.raises(Killed):
            table.compact(0)
    table_at(tmp_path, "parquet")
    assert rows_there(tmp_path) == [0, 1, 2]


def test_plain_readers_pass_over_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb  # noqa: PLC0415 - here only

    table = table_at(tmp_path, "parquet")
    write(table, 0, rows_of({"n": 1}))
    with monkeypatch.context() as patched:
        kill(patched, "replace", 0)
        with pytest.raises(Killed):
            write(table, 1, rows_of({"n": 2}))
    found = duckdb.read_parquet(f"{tmp_path}/stream_group=*/*/*.parquet", union_by_name=True, hive_partitioning=True)
    assert found.select("n", "stream_group").fetchall() == [(1, "orders")]
