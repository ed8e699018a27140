"""Messages: what is appended for each row, and to which stream.

A row is its `value`, if that is text or bytes and the other columns are those that the source has beside it; any other
row is a JSON object of its columns. A `stream` column says where it goes, unless one stream was chosen for all.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql.types import BinaryType, StringType, StructType

from everbrook.spark.given import InvalidOption
from everbrook.spark.options import SinkOptions

STREAM, VALUE, MESSAGE = "stream", "value", "message"
_BESIDE_VALUE = {STREAM, "offset", "next_offset", "content_type", "time"}
_OFFSETS = ("_offset", "offset")
"""Columns of the source that say in which order messages were, if the user says nothing else."""

_encoder = msgspec.json.Encoder(decimal_format="number")


class InvalidRow(ValueError):
    """A row can't be a message."""


def require_messages(schema: StructType, beside: Iterable[str]) -> None:
    """Refuse a data frame that does not say which message is where: in `value`, with these columns beside it."""
    types = {field.name: field.dataType for field in schema.fields}
    for name in (*beside, VALUE):
        if name not in types:
            raise InvalidOption(
                f"rows need the column {name!r}, as the source has it where nothing else is chosen; "
                f"the columns are {', '.join(types)}"
            )
    if not isinstance(types[VALUE], StringType | BinaryType):
        raise InvalidOption(
            f"the column 'value' must be the message, as STRING or BINARY, got {types[VALUE].simpleString()}"
        )


class Layout(Struct, frozen=True):
    """How rows of a table become messages."""

    stream: str | None
    whole: bool
    """Whether the `value` is the message."""
    fields: tuple[str, ...]
    order_by: tuple[str, ...]

    def schema_of(self, batch: pa.RecordBatch) -> pa.Schema:
        """Give the columns of what `encode` makes."""
        order = [(f"by_{place}", batch.schema.field(name).type) for place, name in enumerate(self.order_by)]
        return pa.schema([(STREAM, pa.string()), (MESSAGE, pa.binary()), *order])


def layout_of(schema: StructType, options: SinkOptions) -> Layout:
    """Decide how rows become messages, or say why they can't."""
    types = {field.name: field.dataType for field in schema.fields}
    if options.stream is None and not isinstance(types.get(STREAM), StringType):
        raise InvalidOption(
            "which stream do rows go to? Set the option stream, or give them a column 'stream' of STRING; "
            f"the columns are {', '.join(types)}"
        )
    missing = [name for name in options.order_by if name not in types]
    if missing:
        raise InvalidOption(f"orderBy names {missing[0]!r}, which is no column; the columns are {', '.join(types)}")
    order_by = options.order_by or tuple(name for name in _OFFSETS if isinstance(types.get(name), StringType))[:1]
    text = isinstance(types.get(VALUE), StringType | BinaryType)
    whole = text and types.keys() <= {VALUE, *_BESIDE_VALUE, *order_by}
    routed = options.stream is None
    fields = tuple(name for name in types if not (routed and name == STREAM))
    return Layout(options.stream, whole, fields, order_by)


def encode(batches: Iterable[pa.RecordBatch], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Make messages of rows: batches of `stream`, `message`, and what they are ordered by."""
    for batch in batches:
        streams = batch.column(STREAM) if layout.stream is None else pa.repeat(layout.stream, batch.num_rows)
        if streams.null_count:
            raise InvalidRow("a row has no stream: the column 'stream' is null")
        messages = _values(batch) if layout.whole else _objects(batch, layout.fields)
        order = [batch.column(name) for name in layout.order_by]
        yield pa.RecordBatch.from_arrays([streams.cast(pa.string()), messages, *order], schema=layout.schema_of(batch))


def _values(batch: pa.RecordBatch) -> pa.Array:
    column = batch.column(VALUE)
    if column.null_count:
        raise InvalidRow("a row has no message: the column 'value' is null")
    return column.cast(pa.binary())


def _objects(batch: pa.RecordBatch, fields: tuple[str, ...]) -> pa.Array:
    columns = [plain(batch.column(name)) for name in fields]
    rows = (dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True))
    return pa.array([_encoder.encode(row) for row in rows], pa.binary())


def plain(column: pa.Array) -> list[Any]:
    """Give the values of a column as JSON has them. Times are of UTC, and maps are objects."""
    return [_jsonable(value) for value in column.to_pylist(maps_as_pydicts="strict")]


def _jsonable(value: Any) -> Any:  # noqa: ANN401 - any value of Spark
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo is not None else value
    return value
