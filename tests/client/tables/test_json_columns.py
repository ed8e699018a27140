"""Messages of JSON become arrays without a value being changed, whichever way they are read."""

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.json
import pytest
from hypothesis import given, strategies as st

from everbrook.client.errors import InvalidAnswer
from everbrook.client.tables.json_columns import build, conform, decode, parse, parse_as, text_of
from everbrook.client.tables.shapes import Shape, shape_of
from tests.client.tables.json_values import Value, alike, records, rows
from tests.client.tables.jsonl import joined
from tests.kit.generated import generated


def same(found: Value, value: Value, shape: Shape) -> bool:
    """Whether a value came out as it went in: itself, or its text where the shape says so."""
    if value is None or shape.text:
        return bool(found == text_of(value))
    if shape.record:
        children = shape.fields.items()
        return all(same(found[name], value.get(name), child) for name, child in children)
    if isinstance(value, list):
        items = shape.items or Shape()
        return len(found) == len(value) and all(same(*pair, items) for pair in zip(found, value, strict=True))
    return bool(found == value)


def parsed(messages: bytes) -> tuple[pa.Array | None, bytes, Shape]:
    array, shape = parse(messages, Shape())
    return array, messages, shape


def all_same(array: pa.Array, values: list[Any], shape: Shape) -> bool:
    return all(same(*pair, shape) for pair in zip(array.to_pylist(), values, strict=True))


@generated
@given(rows.filter(bool))
def test_any_messages_are_read_exactly(values: list[Any]) -> None:
    array, shape = parse(joined(values), Shape())
    assert shape.type == shape_of(values).type
    assert all_same(conform(array, joined(values), shape), values, shape)


@generated
@given(st.one_of(rows, records, alike).filter(bool), st.one_of(rows, records, alike).filter(bool))
def test_pages_that_were_read_apart_get_one_type(one: list[Any], other: list[Any]) -> None:
    first, shape = parse(joined(one), Shape())
    second, shape = parse(joined(other), shape)
    for array, values in ((first, one), (second, other)):
        conformed = conform(array, joined(values), shape)
        assert conformed.type == shape.type
        assert all_same(conformed, values, shape)


@generated
@given(st.one_of(rows, records, alike).filter(bool))
def test_reading_again_with_a_known_shape_gives_the_same(values: list[Any]) -> None:
    shape = shape_of(values)
    array = parse_as(joined(values), shape)
    assert array.type == shape.type
    assert all_same(array, values, shape)


@pytest.mark.parametrize(
    "message, found",
    [
        ('{"at": "2024-01-01T00:00:00Z"}', "2024-01-01T00:00:00Z"),
        ('{"at": 9007199254740993.0}', 9007199254740993.0),
        ('{"at": 123456789012345678901234567890}', "123456789012345678901234567890"),
        ('{"at": 1, "at": 2}', 2),
        ('{"at": "\\u00e9\\ud83d\\ude42"}', "é🙂"),
        ('{"at": 1e2}', 100.0),
        ('{"at": -1e400}', "-1e400"),
        (f'{{"at": {"9" * 5000}}}', "9" * 5000),
        ('{"at": 1e400}, {"at": 1, "n": "x"}, {"n": 1}', "1e400"),
        ('{ "at" :\n[ ] }', []),
    ],
)
def test_awkward_values_come_out_as_they_are(message: str, found: Value) -> None:
    array = conform(*parsed(message.encode()))
    assert array.field("at")[0].as_py() == found


def test_text_is_the_string_itself_or_json() -> None:
    array = conform(*parsed(joined(["x", 1, None, {"é": [True]}, 1.5, 2**70])))
    assert array.to_pylist() == ["x", "1", None, '{"é":[true]}', "1.5", str(2**70)]


def test_messages_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidAnswer, match="are not JSON"):
        parse(b'{"a":', Shape())


@pytest.mark.parametrize("levels", [513, 5000, 100_000])
def test_messages_that_are_nested_too_deeply_are_refused(levels: int) -> None:
    with pytest.raises(InvalidAnswer, match="nested too deeply"):
        decode(b"1," + b"[" * levels + b"]" * levels)


def test_deep_messages_are_read() -> None:
    deep = "[" * 500 + "]" * 500
    array, messages, shape = parsed(f'{{"deep": {deep}}}'.encode())
    assert shape.mixed
    assert len(conform(array, messages, shape)) == 1


def refuse(_messages: bytes) -> list[Any]:
    pytest.fail("decoded value by value")


def test_plain_messages_take_the_quick_way() -> None:
    messages = joined([{"a": 1, "b": "2024-01-01", "c": None, "d": {"e": [1.5]}}, {"a": 2, "b": "x"}])
    first, shape = parse(messages, Shape(), refuse)
    second, shape = parse(joined([{"a": 1.5, "f": True}]), shape, refuse)
    assert conform(first, messages, shape, refuse).type == conform(second, b"", shape, refuse).type == shape.type


def test_messages_are_parsed_once_where_pages_are_alike() -> None:
    messages = joined([{"a": 1, "b": "2024-01-01", "c": None}])
    _, shape = parse(messages, Shape())
    with patch("pyarrow.json.read_json", wraps=pyarrow.json.read_json) as read:
        array, shape = parse(messages, shape)
        conform(array, messages, shape)
    assert read.call_count == 1


def test_only_fields_of_several_types_are_read_value_by_value() -> None:
    values = [{"n": 1, "s": "x"}, None, {"s": 2, "deep": {"n": "y"}}, {"deep": {"n": 3}}]
    shape = shape_of(values)
    assert all_same(parse_as(joined(values), shape, refuse), values, shape)


@generated
@given(rows)
def test_built_values_are_those_given(values: list[Any]) -> None:
    shape = shape_of(values)
    assert all_same(build(values, shape), values, shape)


@generated
@given(rows)
def test_decoding_is_the_inverse_of_writing(values: list[Any]) -> None:
    assert decode(joined(values)) == json.loads(json.dumps(values))


def test_lone_surrogates_are_values_of_a_table() -> None:
    """Gap G-03: neither Arrow nor UTF-8 has them."""
    messages = rb'{"a":"\ud83d"},{"a":"b\ude00"}'
    array, shape = parse(messages, Shape())
    assert conform(array, messages, shape).to_pylist() == [{"a": "\ufffd"}, {"a": "b\ufffd"}]


def test_lone_surrogates_beside_a_vast_number_are_values_too() -> None:
    """Gap G-03."""
    assert decode(b'"\\ud83d",1%b' % (b"0" * 5000)) == ["\ufffd", "1" + "0" * 5000]
