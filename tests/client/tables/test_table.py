"""A table is the same to everyone who reads it, however large the pages are and however little is kept."""

from collections.abc import Iterable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from everbrook.client.content import Kind
from everbrook.client.tables.forms import form_of
from everbrook.client.tables.table import SHOWN_ROWS, Table
from everbrook.client.tables.table_page import TablePage
from tests.client.tables.json_values import Value, alike, records, rows
from tests.client.tables.jsonl import table_pages
from tests.kit.generated import generated

START = "0000000000000000"
MIXED = [{"n": 1}, {"n": 2, "s": "x"}, {"n": "three"}, {"n": None, "o": {"a": [1]}}]


def table(values: list[Any], size: int = 2, held_bytes: float = 1e9, **choices: Value) -> Table:
    form = form_of(Kind.JSON, choices.get("columns"), raw=choices.get("raw", False))
    return Table("numbers", form, table_pages(values, size), START, held_bytes)


@generated
@given(
    st.one_of(rows, records, alike),
    st.integers(1, 7),
    st.sampled_from([0, 60, 1e9]),
    st.sampled_from([None, ["a", "n"], ["_offset", "missing"]]),
)
def test_neither_pages_nor_what_is_kept_change_it(
    values: list[Any], size: int, held_bytes: float, columns: list[str] | None
) -> None:
    whole = table(values, 100, columns=columns).arrow().drop_columns(["_time"])
    assert table(values, size, held_bytes, columns=columns).arrow().drop_columns(["_time"]).equals(whole)


def test_it_can_be_read_again() -> None:
    numbers = table(MIXED, held_bytes=20)
    assert numbers.arrow().equals(numbers.arrow())


def test_a_table_without_messages_has_the_columns_of_the_place() -> None:
    empty = table([])
    assert empty.schema.names == ["_offset", "_time"]
    assert (empty.arrow().num_rows, len(empty.polars()), len(empty.pandas())) == (0, 0, 0)


class Counted:
    """TablePages, and how many of them were taken."""

    def __init__(self, values: list[Any]) -> None:
        self._table_pages = table_pages(values, 1)
        self.taken = 0

    def __call__(self, offset: str) -> Iterable[TablePage]:
        for table_page in self._table_pages(offset):
            self.taken += 1
            yield table_page


@pytest.mark.parametrize("choices, before", [({"raw": True}, 1), ({"columns": {"n": "string"}}, 1), ({}, 4)])
def test_pages_are_read_as_batches_are_taken(choices: dict[str, Any], before: int) -> None:
    counted = Counted(MIXED)
    columns, raw = choices.get("columns"), choices.get("raw", False)
    reader = Table("numbers", form_of(Kind.JSON, columns, raw=raw), counted, START).reader()
    reader.read_next_batch()
    assert counted.taken == before


def test_what_fits_is_not_read_twice_and_the_rest_is() -> None:
    counted = Counted([{"n": number} for number in range(10)])
    Table("numbers", form_of(Kind.JSON, None, raw=False), counted, START, held_bytes=60).arrow()
    assert 10 < counted.taken < 20


def test_a_read_that_fails_can_be_made_again() -> None:
    whole, broken = table_pages(MIXED, 1), [True]

    def fail_once(offset: str) -> Iterable[TablePage]:
        yield from whole(offset)[:2]
        if broken:
            broken.clear()
            raise ConnectionError
        yield from whole(offset)[2:]

    numbers = Table("numbers", form_of(Kind.JSON, None, raw=False), fail_once, START)
    with pytest.raises(ConnectionError):
        numbers.arrow()
    assert numbers.arrow().column("n").to_pylist() == ["1", "2", "three", None]


# Who reads it


def test_pyarrow_reads_it() -> None:
    numbers = table(MIXED)
    assert pa.table(numbers).equals(numbers.arrow())
    assert pa.RecordBatchReader.from_stream(numbers).schema == numbers.schema


def test_polars_reads_it() -> None:
    numbers = table(MIXED)
    assert pl.DataFrame(numbers).equals(numbers.polars())
    assert numbers.polars()["o"].to_list() == [None, None, None, {"a": [1]}]


def test_pandas_reads_it() -> None:
    frame = table(MIXED).pandas()
    assert frame["n"].tolist() == ["1", "2", "three", None]
    assert str(frame["_time"].dt.tz) == "UTC"


def test_duckdb_queries_it_by_its_name() -> None:
    numbers = table([{"n": number, "odd": number % 2 == 1} for number in range(10)])
    assert numbers.name == "numbers"
    found = duckdb.sql("select odd, sum(n) from numbers group by odd order by odd")
    assert found is not None
    assert found.fetchall() == [(False, 20), (True, 25)]


def test_duckdb_takes_it_as_a_relation_that_lasts() -> None:
    with duckdb.connect() as connection:
        relation = table(MIXED).duckdb(connection)
        assert relation.filter("s = 'x'").fetchall()[0][2:] == ("2", "x", None)
        assert relation.count("*").fetchall() == [(4,)]
    assert table(MIXED).duckdb().columns == ["_offset", "_time", "n", "s", "o"]


# Notebooks


def test_a_notebook_shows_the_first_rows_of_the_first_page() -> None:
    counted = Counted([{"<b>": "<script>"}])
    shown = Table("a&b", form_of(Kind.JSON, None, raw=False), counted, START)._repr_html_()
    assert "a&amp;b: the first 1 messages" in shown
    assert "<td>&lt;script&gt;</td>" in shown
    assert "<th>&lt;b&gt;</th>" in shown


def test_a_notebook_shows_no_more_than_a_few_rows() -> None:
    shown = table([{"n": number} for number in range(100)], size=100)._repr_html_()
    assert shown.count("<tr>") == 1 + SHOWN_ROWS


def test_looking_at_it_does_not_decide_its_columns() -> None:
    numbers = table(MIXED, size=1)
    numbers._repr_html_()
    assert numbers.schema.names == ["_offset", "_time", "n", "s", "o"]


def test_an_empty_table_says_so() -> None:
    assert "no messages" in table([])._repr_html_()
    assert "no messages" in table([], raw=True)._repr_html_()


def test_its_representation_reads_nothing() -> None:
    assert repr(Table("numbers", form_of(Kind.JSON, None, raw=False), pytest.fail, START)) == "<Table of numbers>"
