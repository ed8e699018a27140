"""JSON messages to Arrow arrays, exactly.

This is the one engine for it: the connector for Spark and the lake read through `read_columns` and write text by
`text_of`. pyarrow's parser is fast and reads most streams. It refuses columns of several types, rounds large integers
and reads strings that look like times as times: then the messages are decoded and converted value by value.
"""

import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from everbrook.client.errors import InvalidAnswer
from everbrook.client.tables.shapes import MAX_DEPTH, TEXT, Shape, ValueKind, merge, shape_of, size_between
from everbrook.protocol.json_text import MAX_LEVELS, decode_mended, mend, too_deep

_COLUMN = "messages"
_LARGEST_EXACT = 2.0**53
_MOST_DIGITS = 4000
_TOO_DEEP = f"messages of the stream are nested too deeply: more than {MAX_LEVELS} levels"

Decode = Callable[[bytes], list[Any]]


class _Inexact(Exception):
    """The fast parser may have changed a value, or can't produce the needed type."""


def decode(messages: bytes) -> list[Any]:
    """Decode messages value by value. A number that Python can't hold becomes its text."""
    document = b"[%b]" % messages
    try:
        values: list[Any] = decode_mended(msgspec.json.decode, document)
    except msgspec.DecodeError:
        values = _decode_vast_numbers(document)
    except RecursionError as error:
        raise InvalidAnswer(_TOO_DEEP) from error
    if too_deep(messages):
        raise InvalidAnswer(_TOO_DEEP)
    return values


def parse(messages: bytes, expected: Shape, decode: Decode = decode) -> tuple[pa.Array | None, Shape]:
    """Find the shape of messages that are joined by commas, and add it to that of those before them.

    Returns them as an array too if the fast parser could read them; otherwise they were decoded by `decode`.
    """
    if not expected.mixed:
        try:
            array, shape = _parse_quickly(messages, expected)
            return array, merge(expected, shape)
        except (pa.ArrowInvalid, _Inexact):
            pass
    return None, merge(expected, shape_of(decode(messages)))


def _parse_quickly(messages: bytes, expected: Shape) -> tuple[pa.Array, Shape]:
    if expected.kinds:
        try:
            array = _read(messages, _known(expected.type))
            return array, _shape_of_array(array)
        except (pa.ArrowInvalid, _Inexact):
            pass
    array = _read(messages)
    return array, _shape_of_array(array)


def conform(array: pa.Array | None, messages: bytes, shape: Shape, decode: Decode = decode) -> pa.Array:
    """Convert messages to the type of a shape that holds them and others, from their array if that is possible."""
    if array is not None:
        try:
            return _widened(array, shape.type)
        except _Inexact:
            pass
    return parse_as(messages, shape, decode)


def _widened(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """Add columns of nulls, and turn integers into floats where the shape says that this is exact."""
    if array.type == type_:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), type_)
    if pa.types.is_integer(array.type) and pa.types.is_floating(type_):
        return array.cast(type_)
    if not (pa.types.is_struct(array.type) and pa.types.is_struct(type_)):
        raise _Inexact
    there = {part.name: place for place, part in enumerate(array.type)}
    children = [
        _widened(array.field(there[part.name]), part.type) if part.name in there else pa.nulls(len(array), part.type)
        for part in type_
    ]
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())


def parse_as(messages: bytes, shape: Shape, decode: Decode = decode) -> pa.Array:
    """Read messages as the type of a shape that holds them all."""
    try:
        if not shape.mixed:
            return _widened(_read(messages, _known(shape.type)), shape.type)
        if shape.record:
            return _parse_apart(messages, shape)
    except (ValueError, _Inexact):
        pass
    return build(decode(messages), shape)


def _parse_apart(messages: bytes, shape: Shape) -> pa.Array:
    """Parse the fields of one type fast, and decode only those of several types value by value."""
    plain = Shape(shape.kinds, {name: child for name, child in shape.fields.items() if not child.mixed})
    if not plain.record:
        raise _Inexact
    quick = _widened(_read(messages, _known(plain.type), others="ignore"), plain.type)
    columns = dict(zip(plain.fields, quick.flatten(), strict=True))
    mixed = [name for name in shape.fields if name not in columns]
    rows = _decode_fields(messages, mixed)
    for place, name in enumerate(mixed):
        columns[name] = build([None if row is None else row[place] for row in rows], shape.fields[name])
    children = [columns[name] for name in shape.fields]
    return pa.StructArray.from_arrays(children, fields=list(shape.type), mask=quick.is_null())


def _decode_fields(messages: bytes, names: Sequence[str]) -> list[tuple[Any, ...] | None]:
    """Decode some fields of objects, and pass over the others."""
    fields = [(f"field_{place}", Any, msgspec.field(name=name, default=None)) for place, name in enumerate(names)]
    picked = msgspec.json.decode(b"[%b]" % messages, type=list[msgspec.defstruct("Picked", fields) | None])  # type: ignore[misc]
    return [row if row is None else msgspec.structs.astuple(row) for row in picked]


def _decode_vast_numbers(document: bytes) -> list[Any]:
    try:
        values: list[Any] = json.loads(mend(document), parse_int=_integer, parse_float=_float)
    except (ValueError, RecursionError) as error:
        raise InvalidAnswer(f"the messages of the stream are not JSON: {error}") from error
    return values


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _float(digits: str) -> float | str:
    return value if isfinite(value := float(digits)) else digits


def build(values: Sequence[Any], shape: Shape) -> pa.Array:
    """Put an array together from values of a shape."""
    if shape.text:
        return pa.array([text_of(value) for value in values], TEXT)
    if shape.record and shape.mixed:
        columns = [
            build([None if value is None else value.get(name) for value in values], child)
            for name, child in shape.fields.items()
        ]
        missing = pa.array([value is None for value in values])
        return pa.StructArray.from_arrays(columns, fields=list(shape.type), mask=missing)
    if shape.mixed:
        values = [_fitted(value, shape) for value in values]
    return pa.array(values, shape.type)


def _fitted(value: Any, shape: Shape) -> Any:
    if value is None or shape.text:
        return text_of(value)
    if shape.record:
        return {name: _fitted(value[name], child) for name, child in shape.fields.items() if name in value}
    if shape.kinds == ValueKind.LIST and shape.items is not None:
        return [_fitted(item, shape.items) for item in value]
    return value


def text_of(value: Any) -> str | None:
    """Write a value as text: a string as it is, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# The fast parser


def read_columns(messages: bytes, schema: pa.Schema) -> pa.Array:
    """Read some fields of messages that are objects, in these types. Raises ArrowInvalid if a value does not fit."""
    return _read(messages, pa.struct(list(schema)), others="ignore")


def _read(messages: bytes, type_: pa.DataType | None = None, others: str = "infer") -> pa.Array:
    """Parse messages as the one list of a one-line document, so that any value is a message."""
    document = b'{"%b":[%b]}\n' % (_COLUMN.encode(), messages)
    explicit = None if type_ is None else pa.schema([(_COLUMN, pa.list_(type_))])
    table = pyarrow.json.read_json(
        pa.BufferReader(document),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(document) + 1),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior=others),
    )
    messages_read = table.column(_COLUMN).chunk(0)
    messages_read.validate()  # lists of nothing but nulls come out too short
    return messages_read.flatten()


def _shape_of_array(array: pa.Array, depth: int = 0) -> Shape:
    type_ = array.type
    if depth > MAX_DEPTH:
        raise _Inexact
    if pa.types.is_struct(type_):
        children = [_shape_of_array(child, depth + 1) for child in array.flatten()]
        return Shape(ValueKind.OBJECT, {part.name: shape for part, shape in zip(type_, children, strict=True)})
    if pa.types.is_list(type_):
        return Shape(ValueKind.LIST, items=_shape_of_array(array.flatten(), depth + 1))
    return Shape(_kinds_of(array))


def _kinds_of(array: pa.Array) -> ValueKind:
    if array.null_count == len(array):
        return ValueKind(0)
    if pa.types.is_integer(array.type):
        extremes = pc.min_max(array).as_py()
        return ValueKind.INTEGER | size_between(extremes["min"], extremes["max"])
    if pa.types.is_floating(array.type):
        if not pc.max(pc.abs(array)).as_py() < _LARGEST_EXACT:
            raise _Inexact
        return ValueKind.FLOAT
    # Columns of times are strings that look like times: they are read again, as strings.
    return ValueKind.BOOLEAN if pa.types.is_boolean(array.type) else ValueKind.STRING


def _known(type_: pa.DataType) -> pa.DataType:
    """Return the type without the columns that had no value yet, so that the parser infers these."""
    if pa.types.is_struct(type_):
        return pa.struct([part.with_type(_known(part.type)) for part in type_ if not pa.types.is_null(part.type)])
    return type_
