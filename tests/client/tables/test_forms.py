"""Columns are what was asked for, or what the messages have."""

from typing import Any

import pyarrow as pa
import pytest

from everbrook.client.content import Kind
from everbrook.client.tables.forms import ColumnMismatch, Columns, form_of
from everbrook.client.tables.shapes import MAX_FIELDS
from tests.client.tables.json_values import Value
from tests.client.tables.jsonl import joined, table_page

MESSAGES = [{"n": 1, "s": "x"}, {"n": 2.5, "at": "2024-01-01T00:00:00Z"}]


def table(messages: list[Any], columns: Columns | None = None, *, raw: bool = False) -> pa.RecordBatch:
    form = form_of(Kind.JSON, columns, raw=raw)
    page = table_page([joined([message]) for message in messages])
    return form.batch(page, form.survey(page) if form.surveys else None)


def columns_of(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = batch.drop_columns(["_offset", "_time"]).to_pydict()
    return found


def test_every_field_is_a_column_behind_those_of_the_place() -> None:
    batch = table(MESSAGES)
    assert batch.schema.names == ["_offset", "_time", "n", "s", "at"]
    assert batch.schema.field("n").type == pa.float64()
    assert batch.column("_offset").to_pylist() == ["0000000000000000", "0000000000000019"]


def test_columns_can_be_chosen_by_their_names() -> None:
    assert columns_of(table(MESSAGES, ["s", "missing"])) == {"s": ["x", None], "missing": [None, None]}


@pytest.mark.parametrize("columns", [{"n": "float64"}, {"n": pa.float64()}, pa.schema([("n", pa.float64())])], ids=str)
def test_columns_can_be_given_with_their_types(columns: Columns) -> None:
    batch = table(MESSAGES, columns)
    assert batch.schema.field("n").type == pa.float64()
    assert columns_of(batch) == {"n": [1.0, 2.5]}


def test_strings_are_read_as_times_where_these_are_asked_for() -> None:
    moments = table(MESSAGES, {"at": pa.timestamp("ms", "UTC")}).column("at")
    assert [moment and moment.isoformat() for moment in moments.to_pylist()] == [None, "2024-01-01T00:00:00+00:00"]


@pytest.mark.parametrize(
    "values, type_, found",
    [
        ([1, "x", None, [2]], "string", ["1", "x", None, "[2]"]),
        ([1, "2"], "int64", [1, 2]),
        ([2**64 - 1, "3"], "uint64", [2**64 - 1, 3]),
        ([1, 2.0], "int64", [1, 2]),
        ([{"x": 1}, {"x": 2, "y": 3}], pa.struct([("x", pa.int8())]), [{"x": 1}, {"x": 2}]),
        ([[1], []], pa.list_(pa.float64()), [[1.0], []]),
    ],
    ids=str,
)
def test_values_are_converted_where_nothing_is_lost(values: list[Any], type_: Value, found: list[Any]) -> None:
    assert columns_of(table([{"v": value} for value in values], {"v": type_})) == {"v": found}


@pytest.mark.parametrize(
    "value, type_", [("x", "int64"), (1.5, "int64"), (2**63, "int64"), (300, "uint8"), ([1], "int64"), ("x", "bool")]
)
def test_a_value_that_a_given_type_can_t_hold_is_named_with_its_offset(value: Value, type_: str) -> None:
    with pytest.raises(ColumnMismatch, match=rf"'v' must be {type_}, but the message at offset 0{{15}}9 has") as raised:
        table([{"v": 1}, {"v": value}], {"v": type_})
    assert repr(value) in str(raised.value)


@pytest.mark.parametrize("message", [1, "x", [1], None])
def test_what_is_no_object_has_no_given_columns(message: Value) -> None:
    assert columns_of(table([message, {"a": 1}], {"a": "int64"})) == {"a": [None, 1]}


def test_messages_that_are_not_all_objects_are_one_column() -> None:
    assert columns_of(table([1, 2])) == {"value": [1, 2]}
    assert columns_of(table([{"a": 1}, "x"])) == {"value": ['{"a":1}', "x"]}


def test_nulls_alone_are_a_column_too() -> None:
    assert columns_of(table([None, None])) == {"value": [None, None]}


WIDE = {str(number): number for number in range(MAX_FIELDS + 1)}


@pytest.mark.parametrize("message", [7, None, "x", [1], {}, {"b": 1}, WIDE], ids=lambda value: repr(value)[:20])
def test_what_does_not_have_a_chosen_column_is_null_in_it(message: Value) -> None:
    assert columns_of(table([message], ["a"])) == {"a": [None]}
    assert columns_of(table([message, {"a": 1}], ["a"])) == {"a": [None, 1]}
    assert columns_of(table([message, {"a": 1}, {"a": "x"}], ["a"])) == {"a": [None, "1", "x"]}


def test_columns_are_found_in_objects_that_have_too_many_for_a_table() -> None:
    halves = [{f"{half}{number}": number for number in range(MAX_FIELDS)} for half in "ab"]
    form = form_of(Kind.JSON, ["a1", "b1"], raw=False)
    pages = [table_page([joined([half])]) for half in halves]
    parsed = [form.survey(page) for page in pages]
    found = [columns_of(form.batch(*each)) for each in zip(pages, parsed, strict=True)]
    assert found == [{"a1": [1], "b1": [None]}, {"a1": [None], "b1": [1]}]


def test_null_among_objects_is_a_row_without_values() -> None:
    assert (
        columns_of(table([{"a": False}, None]))
        == columns_of(table([{"a": False}, None], {"a": "bool"}))
        == {"a": [False, None]}
    )


def test_a_field_with_the_name_of_a_column_of_ours_gets_another() -> None:
    assert columns_of(table([{"_offset": 1, "_time": 2}])) == {"_offset_": [1], "_time_": [2]}
    assert columns_of(table([{"_offset": 1, "_offset_": 2}])) == {"_offset__": [1], "_offset_": [2]}


def test_a_raw_table_has_the_messages_as_they_are() -> None:
    batch = table(MESSAGES, raw=True)
    assert batch.schema.names == ["offset", "next_offset", "time", "value"]
    assert batch.column("value").to_pylist() == [joined([message]).decode() for message in MESSAGES]


@pytest.mark.parametrize(
    "kind, type_", [(Kind.TEXT, pa.string()), (Kind.BINARY, pa.binary()), (Kind.JSON, pa.string())]
)
def test_bytes_that_are_no_text_stay_bytes(kind: Kind, type_: pa.DataType) -> None:
    assert form_of(kind, None, raw=True).schema.field("value").type == type_


@pytest.mark.parametrize("kind, raw", [(Kind.TEXT, False), (Kind.BINARY, False), (Kind.JSON, True)])
def test_columns_of_what_has_none_are_refused(kind: Kind, raw: bool) -> None:  # noqa: FBT001 - a case
    with pytest.raises(ValueError, match="is for JSON streams without"):
        form_of(kind, ["a"], raw=raw)


def test_a_lone_name_is_refused() -> None:
    with pytest.raises(TypeError, match=r"list of names.*'abc'"):
        form_of(Kind.JSON, "abc", raw=False)


@pytest.mark.parametrize("columns", [["a", "b", "a"], pa.schema([("a", pa.int8()), ("a", pa.int8())])], ids=str)
def test_a_column_that_is_named_twice_is_refused(columns: Columns) -> None:
    with pytest.raises(ValueError, match=r"each column once, got 'a' twice"):
        form_of(Kind.JSON, columns, raw=False)


def test_more_columns_than_a_table_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"more than 1000 columns need their types, got 1001 names"):
        form_of(Kind.JSON, list(WIDE), raw=False)


@pytest.mark.parametrize("type_", ["nonsense", int], ids=str)
def test_what_is_no_type_is_named_with_its_column(type_: Value) -> None:
    with pytest.raises(ValueError, match=r"column 'a' must have a type of pyarrow, or its name, got .*(nonsense|int)"):
        form_of(Kind.JSON, {"a": type_}, raw=False)
