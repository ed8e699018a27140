"""Incarnations of streams in a table: their rows have the same offsets, and are told apart."""

from pathlib import Path

import pytest
from deltalake import write_deltalake

from everbrook.spark.lake.columns import INCARNATION
from everbrook.spark.lake.delta import open_table
from everbrook.spark.lake.lake_errors import TableMismatch
from everbrook.spark.lake.lake_source import Contents
from everbrook.spark.lake.replay import parse_replay
from everbrook.spark.options import InvalidOption
from tests.kit.lake_rows import rows_of, table_at, write

A, B = "orders/a", "orders/b"


def replayed(folder: Path, **options: str) -> list[tuple[str, str]]:
    """Give the streams and messages of a table in the order in which a sink writes them."""
    table = Contents(parse_replay({"path": str(folder), **options}))
    table.require_single()
    rows = [row for batch in table.read(range(1), 1) for row in batch.to_pylist()]
    return [(row["stream"], row["value"]) for row in sorted(rows, key=lambda row: (row["stream"], row["offset"]))]


def of(stream: str, *names: str) -> list[tuple[str, str]]:
    return [(stream, f'{{"m":"{name}"}}') for name in names]


def messages(*names: str) -> list[dict[str, str]]:
    return [{"m": name} for name in names]


def two_incarnations(folder: Path, first: str | None, second: str | None) -> None:
    """Write a stream that was created anew, whose incarnations may be unknown, beside one that was not."""
    table = table_at(folder)
    known = {} if first is None else {A: first}
    write(table, 0, rows_of(*messages("old0", "old1", "old2"), stream=A), rows_of(*messages("b0"), stream=B), **known)
    known = {} if second is None else {A: second}
    rows = rows_of(*messages("new0", "new1"), stream=A, later=5), rows_of(*messages("b1"), stream=B, first=1)
    write(table, 1, *rows, **known)


@pytest.mark.parametrize("first, second", [("f2", "0a"), ("0a", "f2"), (None, "0a"), (None, None), ("0a", None)])
def test_rows_of_incarnations_are_not_mixed(tmp_path: Path, first: str | None, second: str | None) -> None:
    two_incarnations(tmp_path, first, second)
    with pytest.raises(TableMismatch, match=r"incarnations of 'orders/a', which was .* Set the option incarnations"):
        replayed(tmp_path)
    others = of(B, "b0", "b1")
    assert replayed(tmp_path, incarnations="latest") == of(A, "new0", "new1") + others
    both = of(A, "old0", "old1", "old2", "new0", "new1")
    assert replayed(tmp_path, incarnations="ALL") == both + others
    assert replayed(tmp_path, orderBy="appended_at") == both + others


def test_the_option_is_one_of_two_words() -> None:
    with pytest.raises(InvalidOption, match="incarnations must be latest or all, got 'newest'"):
        parse_replay({"path": "t", "incarnations": "newest"})


def test_rows_of_a_known_incarnation_continue_those_of_an_earlier_version(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of(*messages("0", "1"), stream=A))
    write(table, 1, rows_of(*messages("2"), stream=A, first=2), **{A: "0a"})
    assert replayed(tmp_path) == of(A, "0", "1", "2")


def test_a_clock_that_went_back_makes_no_other_incarnation(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of(*messages("0", "1"), stream=A, later=9))
    write(table, 1, rows_of(*messages("2"), stream=A, first=2))
    assert replayed(tmp_path) == of(A, "0", "1", "2")


def test_a_clock_that_went_back_makes_none_beside_one_that_is_known(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of(*messages("0", "1"), stream=A, later=9))
    write(table, 1, rows_of(*messages("2"), stream=A, first=2))
    write(table, 2, rows_of(*messages("new"), stream=A, later=30), **{A: "0a"})
    assert replayed(tmp_path, incarnations="all") == of(A, "0", "1", "2", "new")


def test_the_newest_incarnation_may_begin_with_rows_of_an_earlier_version(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    write(table, 0, rows_of(*messages("old"), stream=A), **{A: "f"})
    write(table, 1, rows_of(*messages("0", "1"), stream=A, later=10))
    write(table, 2, rows_of(*messages("2"), stream=A, first=2, later=10), **{A: "0a"})
    assert replayed(tmp_path, incarnations="latest") == of(A, "0", "1", "2")


def test_several_rows_of_one_message_are_of_one_incarnation(tmp_path: Path) -> None:
    write(table_at(tmp_path), 0, *[rows_of(*messages(name), stream=A) for name in "xx"])
    assert replayed(tmp_path) == of(A, "x", "x")


def test_three_incarnations_are_in_the_order_of_time(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch, known in enumerate([{}, {A: "f"}, {A: "1"}, {A: "f"}, {A: "1"}]):
        part = batch > 2
        rows = rows_of(*messages(f"{batch}"), stream=A, first=int(part), later=10 * (batch - 2 * part))
        write(table, batch, rows, **known)
    assert replayed(tmp_path, incarnations="all") == of(A, "0", "1", "3", "2", "4")
    assert replayed(tmp_path, incarnations="latest") == of(A, "2", "4")


def test_incarnations_without_times_are_in_no_order(tmp_path: Path) -> None:
    table = table_at(tmp_path)
    for batch, incarnation in enumerate("ab"):
        write(table, batch, rows_of(*messages("0"), stream=A).drop_columns(["time"]), **{A: incarnation})
    with pytest.raises(TableMismatch, match="not the times at which they were"):
        replayed(tmp_path, incarnations="latest")


def make_earlier(folder: Path, message: object) -> None:
    """Make a table as a version wrote it that had no column for incarnations."""
    write(table_at(folder / "now"), 0, rows_of(message, stream=A))
    rows = open_table(folder / "now").to_table()
    rows = rows.select([name for name in rows.column_names if name != INCARNATION])
    names = [name.removesuffix("_") if name.startswith(INCARNATION) else name for name in rows.column_names]
    write_deltalake(folder, rows.rename_columns(names), partition_by=["stream_group", "date"])


def test_a_table_of_an_earlier_version_gets_the_column(tmp_path: Path) -> None:
    make_earlier(tmp_path / "t", {"m": "0"})
    assert replayed(tmp_path / "t") == of(A, "0")
    table = table_at(tmp_path / "t")
    write(table, 0, rows_of(*messages("1"), stream=A, first=1), **{A: "0a"})
    table = table_at(tmp_path / "t")
    write(table, 1, rows_of(*messages("0"), stream=A, later=9), **{A: "0b"})
    found = open_table(tmp_path / "t").to_table(columns=[INCARNATION]).column(0).to_pylist()
    assert sorted(map(str, found)) == ["0a", "0b", "None"]
    assert replayed(tmp_path / "t", incarnations="all") == of(A, "0", "1", "0")


def test_a_field_that_has_the_name_of_the_column_is_not_taken_for_it(tmp_path: Path) -> None:
    make_earlier(tmp_path / "t", {INCARNATION: "mine"})
    assert replayed(tmp_path / "t") == [(A, f'{{"{INCARNATION}":"mine"}}')]
    with pytest.raises(TableMismatch, match="has a column 'stream_incarnation' for a field of messages"):
        table_at(tmp_path / "t")
    write(table_at(tmp_path / "new"), 0, rows_of({INCARNATION: "mine"}, stream=A), **{A: "0a"})
    assert replayed(tmp_path / "new") == [(A, f'{{"{INCARNATION}":"mine"}}')]
