"""Values of fields as JSON, and the columns that they fit into.

Values are kept as bytes of JSON (`Raw`) at first, so that a value that does not fit is preserved literally. All values
of a column are read at once, and one by one only if that fails.

A value fits if the column can hold all of it: a value that its type would cut, round or ignore in part does not fit. A
FLOAT or a DOUBLE holds the number nearest to one with a fraction, as everywhere; whole numbers must be exact.
"""

import re
from collections.abc import Iterable
from datetime import UTC
from decimal import Decimal, InvalidOperation
from functools import cache
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Meta, Raw

from everbrook.client.tables.json_columns import text_of
from everbrook.spark.lake.columns import ANY, JSON, Column
from everbrook.spark.streams.json_conversion import Misfit, fit

_FINER_THAN_MICROS = re.compile(r"[.,]\d{6}\d*[1-9]")
NULL = Raw(b"null")
_exact = msgspec.json.Decoder(float_hook=Decimal)
_INTEGER = re.compile(rb"-?\d{1,19}")
_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_PYTHON = {pa.int64(): _Long, pa.float64(): int | float, pa.bool_(): bool, pa.string(): str}
_BY_FIRST = {b"{": JSON, b"[": JSON, b'"': "text", b"t": "flag", b"f": "flag"}
_TYPES = {"text": pa.string(), "flag": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


def require_whole(value: Any, found: Any, type_: pa.DataType) -> None:
    """Refuse a value that `found`, its form in a type, holds only in part.

    Numbers with a fraction are decimals here.
    """
    if value is None:
        return
    if pa.types.is_struct(type_):
        _require_known(value, type_)
        for field in type_:
            require_whole(value.get(field.name), found[field.name], field.type)
    elif pa.types.is_list(type_):
        for item, found_item in zip(value, found, strict=True):
            require_whole(item, found_item, type_.value_type)
    elif pa.types.is_map(type_):
        for item, (_, found_item) in zip(value.values(), found, strict=True):
            require_whole(item, found_item, type_.item_type)
    elif not _is_whole(value, found, type_):
        raise Misfit(f"has {value!r:.80}, of which {type_} can hold only a part")


def _require_known(value: dict[str, Any], type_: pa.DataType) -> None:
    known = {field.name for field in type_}
    unknown = next((name for name, item in value.items() if name not in known and item is not None), None)
    if unknown is not None:
        raise Misfit(f"has {unknown!r:.80}, which {type_} lacks")


def _is_whole(value: Any, found: Any, type_: pa.DataType) -> bool:
    if pa.types.is_floating(type_):
        return _is_near(value, found, type_)
    if pa.types.is_timestamp(type_):
        found.astimezone(UTC)  # raises OverflowError for the first and last hours of all years in some zones
        return _FINER_THAN_MICROS.search(value) is None
    if pa.types.is_decimal(type_):
        try:
            return bool(Decimal(value) == found)
        except InvalidOperation:
            return False
    return True


def _is_near(value: Any, found: float, type_: pa.DataType) -> bool:
    with np.errstate(over="ignore"):
        there = float(np.float32(found)) if type_ == pa.float32() else found
    return bool(np.isfinite(there)) and (not isinstance(value, int) or there == value)


def read_values(column: Column, raws: list[Raw]) -> tuple[pa.Array, list[int]]:
    """Return the values of a column, and the places of those that do not fit in it."""
    if column.kind == JSON:
        return pa.array([None if raw is NULL or raw == NULL else bytes(raw) for raw in raws], pa.binary()).cast(
            pa.string()
        ), []
    python = _PYTHON.get(column.type) if not column.kind else None
    if python is not None:
        try:
            return pa.array(_decoder(python).decode(b"[%b]" % b",".join(raws)), column.type), []
        except (msgspec.MsgspecError, UnicodeError, OverflowError, pa.ArrowInvalid):
            pass
    return _one_by_one(column, python, raws)


@cache
def _decoder(python: Any) -> "msgspec.json.Decoder[list[Any]]":
    return msgspec.json.Decoder(list[python | None])


def _one_by_one(column: Column, python: Any, raws: list[Raw]) -> tuple[pa.Array, list[int]]:
    values: list[Any] = []
    misfits: list[int] = []
    for place, raw in enumerate(raws):
        try:
            values.append(_value(column, python, raw))
        except (Misfit, msgspec.MsgspecError, UnicodeError, OverflowError, RecursionError, pa.ArrowInvalid):
            values.append(None)
            misfits.append(place)
    return pa.array(values, column.type), misfits


def _value(column: Column, python: Any, raw: Raw) -> Any:
    if python is not None:
        value = msgspec.json.decode(raw, type=python | None)
        pa.array([value], column.type)  # refuses a whole number that a DOUBLE would round
        return value
    value = msgspec.json.decode(raw)
    if column.kind == ANY:
        return None if value is None else text_of(value)
    found = fit(value, column.type)
    require_whole(_exact.decode(raw), found, column.type)
    pa.array([found], column.type)  # a decimal may have more digits than its column
    return found


def infer(name: str, raws: Iterable[Raw]) -> Column | None:
    """Find the column for values of a field that is new. None if all of them are null."""
    kinds = {_kind(bytes(raw)) for raw in raws if raw is not NULL}
    kinds.discard("null")
    if not kinds:
        return None
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) == 1 and (kind := kinds.pop()) in _TYPES:
        return Column(name, _TYPES[kind])
    return Column(name, pa.string(), JSON)


def _kind(raw: bytes) -> str:
    first = raw[:1]
    if first == b"n":
        return "null"
    if first in _BY_FIRST:
        return _BY_FIRST[first]
    if _INTEGER.fullmatch(raw):
        return "integer" if -(2**63) <= int(raw) < 2**63 else JSON
    # A whole number beyond 64 bits would be rounded: its digits are kept instead.
    return "number" if any(sign in raw for sign in b".eE") else JSON
