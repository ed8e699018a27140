"""Rows back to messages: as they are in the table, or put together from the columns of their fields.

A message that is put together has the fields of the one that was, with the same values; it does not have those that
were null, and its fields are in the order of the columns.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from everbrook.spark.lake.columns import JSON, OFFSET, RESCUED, STREAM, Column
from everbrook.spark.lake.columns import columns_in as columns_of
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.messages import plain

_rescued = msgspec.json.Decoder(dict[str, Raw])
_SIMPLE = {pa.string(), pa.int64(), pa.float64(), pa.bool_()}

Rebuild = Callable[[pa.Table], pa.Array]


def rebuilding(schema: pa.Schema, value_column: str | None, stream_column: str | None) -> tuple[Rebuild, pa.DataType]:
    """Choose how rows of a table become messages, and tell of which type they are."""
    names = set(schema.names)
    whole = value_column or (VALUE if {VALUE, STREAM, OFFSET} <= names and RESCUED not in names else None)
    if whole is not None:
        return _whole(whole, schema.field(whole).type)
    if RESCUED in names:
        return _from_fields, pa.string()
    left_out = {stream_column} if stream_column is not None else set()
    return lambda rows: _objects(rows, left_out), pa.string()


def _whole(name: str, type_: pa.DataType) -> tuple[Rebuild, pa.DataType]:
    """Take a column as the message: bytes and texts as they are, lists and objects as JSON."""
    if pa.types.is_nested(type_):
        return lambda rows: pa.array([_json(value) for value in _plain(rows.column(name))], pa.string()), pa.string()
    binary = pa.types.is_binary(type_) or pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_)
    message = pa.binary() if binary or pa.types.is_binary_view(type_) else pa.string()
    return lambda rows: rows.column(name).combine_chunks().cast(message), message


def _json(value: object) -> str | None:
    return None if value is None else _encoder.encode(value).decode()


def _told(value: Any) -> str:  # noqa: ANN401 - what JSON does not have
    """Write moments of nanoseconds within lists and objects, which are of a kind of their own."""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    raise TypeError(f"{value!r:.80} can't be written as JSON")


_encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=_told)


def _objects(rows: pa.Table, left_out: set[str]) -> pa.Array:
    """Make an object of each row."""
    names = [name for name in rows.column_names if name not in left_out]
    columns = [_plain(rows.column(name)) for name in names]
    values = zip(*columns, strict=True) if columns else [()] * len(rows)
    return pa.array([_encoder.encode(dict(zip(names, row, strict=True))).decode() for row in values], pa.string())


def _plain(values: pa.ChunkedArray) -> list[Any]:
    """Give values as JSON has them. Nanoseconds, which Python's times do not know, are written as text."""
    if pa.types.is_timestamp(values.type) and values.type.unit == "ns":
        texts: list[Any] = pc.replace_substring(values.cast(pa.string()), " ", "T", max_replacements=1).to_pylist()
        return texts
    if pa.types.is_duration(values.type):
        return plain(values.cast(pa.duration("us"), safe=False))
    return plain(values)


def _from_fields(rows: pa.Table) -> pa.Array:
    """Put messages together from the columns of a table of ours."""
    messages: list[dict[str, Any]] = [{} for _ in range(len(rows))]
    for column in columns_of(rows.schema):
        if column.name != RESCUED:
            field = column.field
            for message, value in zip(messages, _values(column, rows.column(column.name)), strict=True):
                if value is not None:
                    message[field] = value
    for message, text in zip(messages, rows.column(RESCUED).to_pylist(), strict=True):
        if text is not None:
            message.update(_rescued.decode(text))
    return pa.array([_encoder.encode(message) for message in messages], pa.binary()).cast(pa.string())


def _values(column: Column, values: pa.ChunkedArray) -> list[Any]:
    """Give values as the encoder takes them. JSON is what it is."""
    if column.kind == JSON:
        return [None if text is None else Raw(text.encode()) for text in values.to_pylist()]
    return values.to_pylist() if column.type in _SIMPLE else plain(values)
