"""What decides in the soak of the lake: rows that are lost or there twice are seen, and so are odd messages."""

from pathlib import Path

import pytest

from soak.lake.verdict import ODD, judge
from soak.ledger import PromiseBroken
from soak.spark.cases import LOST, TWICE
from soak.spark.load import message
from tests.kit.lake_rows import rows_of, table_at, write

ODDITIES: list[object] = [{"odd_1": 1}, "bad 1"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table with two messages of a stream, and the odd ones."""
    rows = table_at(tmp_path)
    write(rows, 0, rows_of(*(message("many/0", number) for number in range(2)), stream="many/0"))
    write(rows, 1, rows_of({"odd_1": 1}, stream=ODD))
    write(table_at(tmp_path / "_dead_letters"), 1, rows_of({"message": '"bad 1"'}, stream=ODD))
    return tmp_path


def test_a_table_that_has_everything_is_whole(table: Path) -> None:
    assert judge(table, {"many/0": 2}, ODDITIES).whole


def test_rows_that_are_lost_or_there_twice_are_seen(table: Path) -> None:
    write(table_at(table), 2, rows_of(message("many/0", 1), stream="many/0", first=1))
    damage = judge(table, {"many/0": 3}, ODDITIES).damage
    assert (damage[LOST], damage[TWICE]) == (["2 of many/0"], ["1 of many/0"])


def test_an_odd_message_that_is_missing_breaks_the_promise(table: Path) -> None:
    with pytest.raises(PromiseBroken, match="2 dead letters of many/odd were sent"):
        judge(table, {"many/0": 2}, [*ODDITIES, "bad 2"])
