"""Converts JSON values to the types of a user's schema, one by one: slow, for messages that pyarrow can't read.

A value that does not fit is null, and its message goes to `_corrupt_record` if the schema has that column, as in
Spark's own JSON source. With `mode=FAILFAST` it is an error.
"""

from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Raw
from pyspark.sql.pandas.types import is_variant
from pyspark.sql.types import VariantVal

from everbrook.client.tables.json_columns import text_of
from everbrook.protocol.json_text import decode_mended, mend

_INTEGER_BITS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}


class Misfit(ValueError):
    """A message does not fit the schema."""


def decode_object(payload: bytes) -> dict[str, Any]:
    """Read a message that has fields."""
    try:
        value = decode_mended(msgspec.json.decode, payload)
    except (ValueError, RecursionError) as error:
        raise Misfit(f"is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise Misfit("is no object")
    return value


def decode_raw(payload: bytes) -> dict[str, Raw]:
    """Read the fields of a message that is an object, with all digits of their numbers."""
    return msgspec.json.decode(mend(payload), type=dict[str, Raw])


def has_variant(type_: pa.DataType) -> bool:
    """Return whether a type is VARIANT, or contains it."""
    children = (type_.field(place).type for place in range(type_.num_fields))
    return (pa.types.is_struct(type_) and is_variant(type_)) or any(map(has_variant, children))


def fit(value: Any, type_: pa.DataType) -> Any:
    """Return what a column of a type takes for a value."""
    if value is None:
        return None
    if pa.types.is_string(type_):
        return text_of(value)
    if pa.types.is_struct(type_):
        return _variant(value) if is_variant(type_) else _fields(value, type_)
    if pa.types.is_list(type_):
        return [fit(item, type_.value_type) for item in _of(value, list)]
    if pa.types.is_map(type_):
        return [(key, fit(item, type_.item_type)) for key, item in _of(value, dict).items()]
    return _fit_scalar(value, type_)


def _fields(value: Any, type_: pa.StructType) -> dict[str, Any]:
    return {field.name: fit(_of(value, dict).get(field.name), field.type) for field in type_}


def _variant(value: Any) -> dict[str, bytes] | None:
    text = bytes(value) if isinstance(value, Raw) else msgspec.json.encode(value)
    if text == b"null":
        return None
    try:
        variant = VariantVal.parseJson(text.decode())
    except (ValueError, RecursionError) as error:
        raise Misfit(f"can't be read as VARIANT ({error})") from None
    return {"value": variant.value, "metadata": variant.metadata}


def _fit_scalar(value: Any, type_: pa.DataType) -> Any:
    if pa.types.is_boolean(type_):
        return _of(value, bool)
    if isinstance(value, bool):
        raise _misfit(value, type_)
    if type_ in _INTEGER_BITS:
        number = _of(value, int)
        if not -(1 << _INTEGER_BITS[type_]) <= number < 1 << _INTEGER_BITS[type_]:
            raise _misfit(value, type_)
        return number
    if pa.types.is_floating(type_):
        return float(_of(value, int | float))
    return _fit_text(value, type_)


def _fit_text(value: Any, type_: pa.DataType) -> Any:
    """Read what JSON has only as text, or as a number that is not exact."""
    try:
        if pa.types.is_timestamp(type_):
            moment = datetime.fromisoformat(_of(value, str))
            return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        if pa.types.is_date(type_):
            return date.fromisoformat(_of(value, str))
        if pa.types.is_decimal(type_):
            return Decimal(str(_of(value, int | float | str))).quantize(Decimal(1).scaleb(-type_.scale))
    except (ValueError, InvalidOperation):
        raise _misfit(value, type_) from None
    raise Misfit(f"can't be read as {type_}, which JSON does not have")


def _of(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise Misfit(f"has {value!r:.80}, which is no {getattr(kind, '__name__', 'number')}")
    return value


def _misfit(value: object, type_: pa.DataType) -> Misfit:
    return Misfit(f"has {value!r:.80}, which is no {type_}")
