"""Rows back to messages: as they are in the table, or put together from the columns of their fields.

A message that is put together has the fields of the one that was, with the same values; it does not have those that
were null, and its fields are in the order of the columns.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Raw

from everbrook.spark.lake.columns import JSON, RESCUED, Column, columns_in as columns_of
from everbrook.spark.lake.messages import VALUE
from everbrook.spark.messages import plain

_rescued = msgspec.json.Decoder(dict[str, Raw])
_encoder = msgspec.json.Encoder(decimal_format="number")
_SIMPLE = {pa.string(), pa.int64(), pa.float64(), pa.bool_()}

Rebuild = Callable[[pa.Table], pa.Array]


def rebuilding(schema: pa.Schema) -> tuple[Rebuild, pa.DataType]:
    """Choose how rows of a table become messages, and tell of which type they are."""
    if RESCUED in schema.names:
        return _from_fields, pa.string()
    return lambda rows: rows.column(VALUE).combine_chunks(), schema.field(VALUE).type


def _from_fields(rows: pa.Table) -> pa.Array:
    """Put messages together from the columns of their fields."""
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
