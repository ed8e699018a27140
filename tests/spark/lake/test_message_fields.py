"""Messages to rows: every value is in a column, or kept beside it."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from everbrook.spark.lake.columns import ANY, Column, column_name, settle
from everbrook.spark.lake.message_fields import JsonMessages, json_columns

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["a", "A", "b", "date", "date_", "stream", "with space", "", "_rescued"])


def read(messages: JsonMessages, *values: object) -> list[dict[str, Any]]:
    found = messages.read(pa.array([json.dumps(value) for value in values]))
    names = [column.name for column in messages.columns]
    rows: list[dict[str, Any]] = pa.Table.from_arrays(found.arrays, names=names).to_pylist()
    return rows


def inferring(*given_columns: Column, most: int = 100) -> JsonMessages:
    return JsonMessages(json_columns(given_columns), evolve=True, most=most)


def fixed(*given_columns: Column) -> JsonMessages:
    return JsonMessages(json_columns(given_columns), evolve=False, most=100)


@pytest.mark.parametrize(
    "values, type_, kind",
    [
        ([1, None], pa.int64(), ""),
        ([1, 2.5], pa.float64(), ""),
        ([True], pa.bool_(), ""),
        (["x"], pa.string(), ""),
        ([{"a": 1}], pa.string(), "json"),
        ([1, "x"], pa.string(), "json"),
        ([2**63], pa.string(), "json"),
    ],
)
def test_a_new_field_gets_the_type_of_its_values(values: list[object], type_: pa.DataType, kind: str) -> None:
    messages = inferring()
    read(messages, *({"x": value} for value in values))
    assert messages.columns[1:] == (Column("x", type_, kind),)


def test_a_field_of_nulls_has_no_column_yet() -> None:
    messages = inferring()
    assert read(messages, {"x": None}) == [{"_rescued": None}]
    assert read(messages, {"x": 1}) == [{"_rescued": None, "x": 1}]


def test_what_does_not_fit_its_column_is_rescued_to_the_letter() -> None:
    messages = fixed(Column("id", pa.int64()))
    values = [b'{"id":1.50}', b'{"id":"x"}', b'{"id":%d}' % 2**70, b'{"id":{"a": 1}}', b'{"id":7}']
    found = messages.read(pa.array(values, pa.binary()))
    assert found.arrays[1].to_pylist() == [None, None, None, None, 7]
    assert found.arrays[0].to_pylist() == [*(value.decode() for value in values[:4]), None]


def test_a_whole_number_that_would_be_rounded_is_rescued() -> None:
    found = read(fixed(Column("x", pa.float64())), {"x": 2**53 + 1}, {"x": 2**53}, {"x": 1.5})
    assert [(row["x"], row["_rescued"]) for row in found] == [
        (None, f'{{"x":{2**53 + 1}}}'),
        (2.0**53, None),
        (1.5, None),
    ]


def test_fields_that_are_called_like_columns_of_the_table_keep_their_values() -> None:
    found = read(inferring(), {"date": "today", "date_": 2, "Stream": "s", "a b": 1, "x": 1, "X": 2})
    assert found == [{"_rescued": '{"a b":1,"X":2}', "date_": "today", "date__": 2, "Stream_": "s", "x": 1}]


def test_columns_are_no_more_than_allowed() -> None:
    found = read(inferring(most=5), {f"key-{number}": number for number in range(20)})
    assert (len(found[0]), len(json.loads(found[0]["_rescued"]))) == (5, 16)


def test_given_columns_take_what_their_types_say() -> None:
    types = {"at": pa.timestamp("us", "UTC"), "price": pa.decimal128(4, 2), "tags": pa.list_(pa.string())}
    messages = fixed(*(Column(name, type_) for name, type_ in types.items()), Column("note", pa.string(), ANY))
    first, second = read(
        messages,
        {"at": "2026-01-01T10:00:00Z", "price": 9.5, "tags": ["a"], "note": {"x": 1}},
        {"price": 12345, "note": 5},
    )
    assert (first["at"], first["price"]) == (datetime(2026, 1, 1, 10, tzinfo=UTC), Decimal("9.50"))
    assert (first["tags"], first["note"], first["_rescued"]) == (["a"], '{"x":1}', None)
    assert (second["price"], second["note"], second["_rescued"]) == (None, "5", '{"price":12345}')


@pytest.mark.parametrize("bad", [b'{"a":"\xff"}', b'{"a":["\xff"]}', b'{"a b":"\xff"}', b'{"\xff":1}'])
def test_a_message_that_is_no_text_is_a_dead_letter_and_leaves_others_alone(bad: bytes) -> None:
    messages = inferring()
    found = messages.read(pa.array([b'{"a":"ok"}', bad], pa.binary()))
    assert list(found.refused) == [1]
    assert found.arrays[1].to_pylist()[0] == "ok"


STRUCT = pa.struct([pa.field("a", pa.int64())])


@pytest.mark.parametrize(
    "type_, value",
    [
        (STRUCT, b'{"a":1,"b":2}'),
        (STRUCT, b'{"A":3}'),
        (pa.list_(STRUCT), b'[{"a":1},{"b":2}]'),
        (pa.map_(pa.string(), STRUCT), b'{"k":{"b":2}}'),
        (pa.list_(pa.float64()), b"[9007199254740993]"),
        (pa.float32(), b"1e300"),
        (pa.float32(), b"16777217"),
        (pa.decimal128(10, 2), b"1.234"),
        (pa.decimal128(10, 2), b'"1.234"'),
        (pa.decimal128(38, 20), b"1.23456789012345678901"),
        (pa.timestamp("us", "UTC"), b'"2026-01-01T00:00:00.123456789Z"'),
        (pa.timestamp("us", "UTC"), b'"9999-12-31T23:59:59-02:00"'),
    ],
)
def test_a_value_that_would_lose_a_part_is_rescued_as_a_whole(type_: pa.DataType, value: bytes) -> None:
    message = b'{"x":%b}' % value
    found = fixed(Column("x", type_)).read(pa.array([message], pa.binary()))
    assert [array.to_pylist()[0] for array in found.arrays] == [message.decode(), None]


@pytest.mark.parametrize(
    "type_, value, expected",
    [
        (STRUCT, b'{"a":1,"b":null}', {"a": 1}),
        (pa.float32(), b"0.5", 0.5),
        (pa.decimal128(10, 2), b"1.230", Decimal("1.23")),
        (pa.timestamp("us", "UTC"), b'"2026-01-01T10:00:00.500000000Z"', datetime(2026, 1, 1, 10, 0, 0, 500_000, UTC)),
    ],
)
def test_a_value_that_loses_nothing_is_in_its_column(type_: pa.DataType, value: bytes, expected: object) -> None:
    found = fixed(Column("x", type_)).read(pa.array([b'{"x":%b}' % value], pa.binary()))
    assert [array.to_pylist()[0] for array in found.arrays] == [None, expected]


@settings(deadline=None)
@given(st.lists(st.dictionaries(NAMES, JSON_VALUES, max_size=5), min_size=1, max_size=8))
def test_every_value_is_in_its_column_or_rescued(values: list[dict[str, Any]]) -> None:
    """In chunks of two, so that columns grow in between. A null is what is not there."""
    messages = inferring()
    there: list[dict[str, Any]] = []
    for place in range(0, len(values), 2):
        rows = read(messages, *values[place : place + 2])
        there += [_rebuilt(messages, row) for row in rows]
    expected = [{name: value for name, value in each.items() if value is not None} for each in values]
    assert there == [json.loads(json.dumps(each)) for each in expected]


def _rebuilt(messages: JsonMessages, row: dict[str, Any]) -> dict[str, Any]:
    fields = {
        column.field: json.loads(row[column.name]) if column.kind == "json" else row[column.name]
        for column in messages.columns
        if column.name != "_rescued" and row[column.name] is not None
    }
    rescued: dict[str, Any] = json.loads(row["_rescued"] or "{}")
    return fields | rescued


@given(NAMES)
def test_the_name_of_a_field_is_known_by_that_of_its_column(field: str) -> None:
    name = column_name(field)
    assert name is None or Column(name, pa.string()).field == field


def test_columns_that_tasks_found_are_settled() -> None:
    one = (Column("a", pa.int64()), Column("b", pa.int64()), Column("c", pa.string()))
    other = (Column("a", pa.float64()), Column("b", pa.string()), Column("C", pa.string()))
    settled = settle((), [one, other], 100)
    assert settled == (Column("a", pa.float64()), Column("b", pa.string(), "json"), Column("c", pa.string()))


def test_a_lone_surrogate_is_in_its_column() -> None:
    """Gap G-03: a message with one is no dead letter."""
    messages = inferring()
    found = messages.read(pa.array([rb'{"a":"\ud83d"}', rb'{"a":"b"}'], pa.binary()))
    (place,) = [place for place, column in enumerate(messages.columns) if column.name == "a"]
    assert (found.arrays[place].to_pylist(), found.refused) == (["\ufffd", "b"], {})
