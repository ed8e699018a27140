"""A shape's type holds every value it was made from, as it is."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from everbrook.client.tables.shapes import MAX_DEPTH, MAX_FIELDS, Shape, merge, shape_of
from tests.client.tables.json_values import records, rows
from tests.kit.generated import generated


@pytest.mark.parametrize(
    "values, type_",
    [
        ([], pa.null()),
        ([None], pa.null()),
        ([True, None], pa.bool_()),
        ([1, 2**53 + 1, -(2**63)], pa.int64()),
        ([1, 1.5], pa.float64()),
        ([1e300], pa.float64()),
        (["é"], pa.string()),
        ([[], [None]], pa.list_(pa.null())),
        ([[1], [2.5]], pa.list_(pa.float64())),
        (
            [{"a": 1}, {"b": [{"c": "x"}]}],
            pa.struct([("a", pa.int64()), ("b", pa.list_(pa.struct([("c", pa.string())])))]),
        ),
    ],
)
def test_values_of_one_kind_have_its_type(values: list[Any], type_: pa.DataType) -> None:
    assert shape_of(values).type == type_


@pytest.mark.parametrize(
    "values",
    [[1, "x"], [True, 1], [2**63], [-(2**63) - 1], [2**53 + 1, 0.5], [{}], [[1], 1], [{"a": 1}, 1], [{"a": 1}, "x"]],
    ids=str,
)
def test_values_that_no_type_holds_are_text(values: list[Any]) -> None:
    shape = shape_of(values)
    assert shape.text
    assert shape.type == pa.string()


def test_only_what_is_mixed_is_text() -> None:
    shape = shape_of([{"a": 1, "b": [1]}, {"a": 2, "b": ["x"]}])
    assert shape.mixed
    assert shape.type == pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])


def test_objects_with_ever_new_keys_are_text() -> None:
    one, other = ({f"{name}{number}": 1 for number in range(MAX_FIELDS // 2 + 1)} for name in "ab")
    assert shape_of([one]).record
    assert shape_of([one, other]).text
    assert merge(shape_of([one]), shape_of([other])).text


def test_what_is_nested_too_deeply_is_text() -> None:
    value: Any = 1
    for _ in range(2 * MAX_DEPTH):
        value = [value]
    type_ = shape_of([value]).type
    for _ in range(MAX_DEPTH):
        type_ = type_.value_type
    assert type_ == pa.string()


@generated
@given(rows, rows)
def test_the_shape_of_two_pages_is_the_sum_of_theirs(one: list[Any], other: list[Any]) -> None:
    assert merge(shape_of(one), shape_of(other)).type == shape_of([*one, *other]).type


@generated
@given(records, records)
def test_a_sum_has_the_same_kinds_in_any_order(one: list[Any], other: list[Any]) -> None:
    forwards, backwards = merge(shape_of(one), shape_of(other)), merge(shape_of(other), shape_of(one))
    assert forwards == backwards


def test_nothing_adds_nothing() -> None:
    shape = shape_of([{"a": 1}])
    assert merge(shape, Shape()) == merge(Shape(), shape) == shape
