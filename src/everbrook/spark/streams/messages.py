"""Makes a message of each row, and decides to which stream it goes.

A row is its `value`, if that is text or bytes and the other columns are those that the source adds; a row without such
a `value` is a JSON object of its columns. Where both are possible, the option `message` decides. A `stream` column
names the stream of a row, unless one stream was chosen for all.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.pandas.types import is_variant
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    VariantVal,
)

from everbrook.protocol.json_text import require_json
from everbrook.spark.options import InvalidOption, SinkOptions

STREAM, VALUE, MESSAGE = "stream", "value", "message"
_BESIDE_VALUE = {STREAM, "offset", "next_offset", "content_type", "time"}
_OFFSETS = ("_offset", "offset")
"""Columns of the source that say in which order messages were, if the user says nothing else."""

_NO_NUMBER = (
    "has nan or infinity, which JSON has no numbers for: replace them in the query, for example with nanvl(x, NULL)"
)
_NO_YEAR = "has a date or a time outside of the years 1 to 9999 (UTC): replace it in the query, or write it as text"
_encoder = msgspec.json.Encoder(decimal_format="number")


Convert = Callable[[Any], Any]


class InvalidRow(ValueError):
    """A row can't be a message."""

    restartable = False


def require_messages(schema: StructType, beside: Iterable[str]) -> None:
    """Refuse a data frame that lacks the message in `value`, or one of the columns `beside` it."""
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
        """Return the columns of what `encode` makes."""
        order = [(f"by_{place}", batch.schema.field(name).type) for place, name in enumerate(self.order_by)]
        return pa.schema([(STREAM, pa.string()), (MESSAGE, pa.binary()), *order])


def layout_of(schema: StructType, options: SinkOptions) -> Layout:
    """Decide how rows become messages, or raise why they can't."""
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
    routed = options.stream is None
    fields = tuple(name for name in types if not (routed and name == STREAM))
    whole = _is_whole(schema, options)
    for name in () if whole else fields:
        _require_names(name, types[name])
    return Layout(options.stream, whole, fields, order_by)


def _require_names(column: str, type_: DataType) -> None:
    """Refuse maps whose keys can't be names in an object of JSON."""
    if isinstance(type_, MapType):
        if isinstance(type_.keyType, ArrayType | MapType | StructType | BooleanType | DecimalType):
            raise InvalidOption(
                f"the column {column!r} has a map with keys of {type_.keyType.simpleString()}, which are no names of "
                "JSON: write them as text, for example with transform_keys(x, (k, v) -> string(k))"
            )
        _require_names(column, type_.valueType)
    elif isinstance(type_, ArrayType):
        _require_names(column, type_.elementType)
    elif isinstance(type_, StructType):
        for field in type_.fields:
            _require_names(column, field.dataType)


def _is_whole(schema: StructType, options: SinkOptions) -> bool:
    """Return whether the `value` of a row is its message. Refuse an ambiguous schema."""
    columns = ", ".join(schema.names)
    text = VALUE in schema.names and isinstance(schema[VALUE].dataType, StringType | BinaryType)
    if options.message is not None:
        if options.message == VALUE and not text:
            raise InvalidOption(f"message=value needs a column 'value' of STRING or BINARY; the columns are {columns}")
        return options.message == VALUE
    if text and not {VALUE, *_BESIDE_VALUE}.issuperset(schema.names):
        raise InvalidOption(
            f"a row of the columns {columns} can be written as its 'value' or as a JSON object: set the option message "
            "to value or to object. If 'value' contains JSON that belongs in the object, make it a VARIANT with "
            "parse_json(value)"
        )
    return text


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
    columns = [_column(batch, name) for name in fields]
    rows = (dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True))
    return pa.array([_encoder.encode(row) for row in rows], pa.binary())


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    try:
        return plain(batch.column(name))
    except InvalidRow as error:
        raise InvalidRow(f"the column {name!r} {error}") from None


def plain(column: pa.Array) -> list[Any]:
    """Return the values of a column as JSON has them.

    Times are of UTC, maps are objects, and variants what they hold.
    """
    try:
        values: list[Any] = column.to_pylist(maps_as_pydicts="strict")
    except (OverflowError, ValueError):
        raise InvalidRow(_NO_YEAR) from None
    except KeyError:
        raise InvalidRow("has a map with one key twice, which an object of JSON can't have") from None
    if pa.types.is_floating(column.type):
        return values if pc.all(pc.is_finite(column), min_count=0).as_py() else [*map(_nullable(_finite), values)]
    convert = _converter(column.type)
    return values if convert is None else [convert(value) for value in values]


def _converter(type_: pa.DataType) -> Convert | None:
    """Choose how values of a type are converted to what the encoder takes. None if it takes them as they are."""
    convert = _converter_of(type_)
    return None if convert is None else _nullable(convert)


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _converter_of(type_: pa.DataType) -> Convert | None:
    if pa.types.is_floating(type_):
        return _finite
    if pa.types.is_timestamp(type_):
        return _in_utc if type_.tz is not None else None
    if pa.types.is_struct(type_):
        return _variant if is_variant(type_) else _fields_converter(type_)
    if pa.types.is_map(type_):
        return _map_converter(type_)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _within(type_.value_type, lambda convert: lambda value: list(map(convert, value)))
    return None


def _map_converter(type_: pa.MapType) -> Convert | None:
    key, item = (_finite if pa.types.is_floating(type_.key_type) else None), _converter(type_.item_type)
    if key is None:
        return item and (lambda value: {name: item(value[name]) for name in value})
    return lambda value: {key(name): item(each) if item else each for name, each in value.items()}


def _within(type_: pa.DataType, lift: Callable[[Convert], Convert]) -> Convert | None:
    convert = _converter(type_)
    return None if convert is None else lift(convert)


def _fields_converter(type_: pa.StructType) -> Convert | None:
    inner = {field.name: convert for field in type_ if (convert := _converter(field.type)) is not None}
    return (lambda value: value | {name: inner[name](value[name]) for name in inner}) if inner else None


def _in_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _finite(value: float) -> float:
    if not isfinite(value):
        raise InvalidRow(_NO_NUMBER)
    return value


def _variant(value: dict[str, bytes]) -> msgspec.Raw:
    json = VariantVal(value["value"], value["metadata"]).toJson().encode()
    try:
        require_json(json)
    except msgspec.MsgspecError:  # of a variant's values, only these are no JSON
        raise InvalidRow(_NO_NUMBER) from None
    return msgspec.Raw(json)
