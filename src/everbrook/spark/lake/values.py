"""Values of fields, as they stand in messages, and the columns that they go into.

They are taken as bytes of JSON first (`Raw`), so that what does not fit is kept to the letter. All values of a column
are read at once; only if that fails is each looked at by itself.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import Annotated, Any

import msgspec
import pyarrow as pa
from msgspec import Meta, Raw

from everbrook.client.tables.json_columns import text_of
from everbrook.spark.conversion import Misfit, fit
from everbrook.spark.lake.columns import ANY, JSON, Column
from everbrook.spark.lake.wholeness import require_whole

NULL = Raw(b"null")
_exact = msgspec.json.Decoder(float_hook=Decimal)
_INTEGER = re.compile(rb"-?\d{1,19}")
_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
_PYTHON = {pa.int64(): _Long, pa.float64(): int | float, pa.bool_(): bool, pa.string(): str}
_BY_FIRST = {b"{": JSON, b"[": JSON, b'"': "text", b"t": "flag", b"f": "flag"}
_TYPES = {"text": pa.string(), "flag": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}


def read_values(column: Column, raws: list[Raw]) -> tuple[pa.Array, list[int]]:
    """Give the values of a column, and the places of those that do not fit in it."""
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
