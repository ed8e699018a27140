"""Texts: JSON values as Postgres reads them into a column.

A text is itself, a number as it is written, and true and false are these words, whatever the type of the column is:
Postgres knows how to read its types. An object or a list is its JSON. Columns of JSON take every value as JSON, columns
of bytes a text of base64, and columns of arrays a list, whose items are what a column of their type takes.
"""

import re
from base64 import b64decode
from binascii import Error as InvalidBase64
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everbrook.protocol.state_changes import shown
from everbrook.spark.postgres import digits
from everbrook.spark.postgres.copying import column_of, data_of

Misfits = dict[int, str]
"""What is wrong with messages, by their places."""

PLAIN, JSON, JSONB, BYTES = "plain", "json", "jsonb", "bytes"
ARRAY, ARRAY_OF_JSON, ARRAY_OF_BYTES = ARRAYS = "array", "array of json", "array of bytes"
_NUL, _ESCAPE = "\0", b"\\"
NUL = "has the character U+0000, which Postgres can't keep"
_ESCAPED_NUL = b"\\u0000"
_NUL_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def as_text(kind: str, name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    """Give values of JSON as a column of a kind takes them. What it can't take is null, and among the misfits."""
    return _WAYS[kind](name, values, misfits)


def has_nul(text: bytes) -> bool:
    """Tell whether some text in JSON has the character that Postgres can't keep."""
    return _ESCAPED_NUL in text and _NUL_IN_JSON.search(text) is not None


def _plain(name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    quoted = pc.starts_with(values, '"')
    if _ESCAPE not in data_of(values):
        # What is no UTF-8 is left to the database to refuse: a cast would refuse the whole column.
        return pc.if_else(quoted, pc.binary_slice(values.cast(pa.binary()), 1, -1).view(pa.string()), values)
    texts: list[bytes | None] = []
    decoded = _decoded(name, pc.if_else(quoted, values, None), misfits)
    for place, (value, raw) in enumerate(zip(decoded, values.cast(pa.binary()).to_pylist(), strict=True)):
        if value is None:
            texts.append(raw)
        elif _NUL in value:
            misfits[place] = f"the column {name} {NUL}"
            texts.append(None)
        else:
            texts.append(value.encode())
    return column_of(texts)


def _decoded(name: str, values: pa.Array, misfits: Misfits) -> list[Any]:
    """Decode all values at once, which is several times as quick as one by one. What can't be read is a misfit."""
    raws = values.cast(pa.binary()).to_pylist()
    try:
        decoded: list[Any] = digits.decode(b"[" + b",".join(raw or b"null" for raw in raws) + b"]")
    except digits.UNREADABLE:
        return [_one(name, place, raw or b"null", misfits) for place, raw in enumerate(raws)]
    return decoded


def _one(name: str, place: int, raw: bytes, misfits: Misfits) -> Any:
    try:
        return digits.decode(raw)
    except digits.UNREADABLE as error:
        misfits[place] = f"the column {name} has a value that can't be read: {error}"
        return None


def _json(_name: str, values: pa.Array, _misfits: Misfits) -> pa.Array:
    return values


def _jsonb(name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    if _ESCAPED_NUL in data_of(values):
        for place, raw in enumerate(values.cast(pa.binary()).to_pylist()):
            if raw is not None and has_nul(raw):
                misfits[place] = f"the column {name} {NUL}"
    return values


def _bytes(name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    texts: list[bytes | None] = []
    for place, value in enumerate(_decoded(name, values, misfits)):
        try:
            texts.append(None if value is None else _hex(value).encode())
        except (InvalidBase64, TypeError, ValueError):
            misfits[place] = f"the column {name} takes bytes in base64, got {shown(value)}"
            texts.append(None)
    return column_of(texts)


def _hex(value: Any) -> str:
    return "\\x" + b64decode(value, validate=True).hex()


def _array(name: str, values: pa.Array, misfits: Misfits, literal: Callable[[list[Any]], str]) -> pa.Array:
    texts: list[bytes | None] = []
    for place, value in enumerate(_decoded(name, values, misfits)):
        if value is not None and not isinstance(value, list):
            misfits[place] = f"the column {name} takes a list, got {shown(value)}"
        try:
            texts.append(literal(value).encode() if isinstance(value, list) else None)
        except RecursionError:
            misfits[place] = f"the column {name} takes a list, got one that is nested too deeply"
            texts.append(None)
        except (InvalidBase64, TypeError, ValueError):
            misfits[place] = f"the column {name} takes a list of bytes in base64, got {shown(value)}"
            texts.append(None)
    return column_of(texts)


def _literal(value: list[Any], text_of: Callable[[Any], str]) -> str:
    """Write a list as Postgres writes arrays. Lists in it are further dimensions."""
    items = (_literal(item, text_of) if isinstance(item, list) else _item(item, text_of) for item in value)
    return "{" + ",".join(items) + "}"


def _literal_of_json(value: list[Any]) -> str:
    """Write a list whose items are JSON, also those that are lists."""
    return "{" + ",".join(_item(item, _json_text) for item in value) + "}"


def _item(value: Any, text_of: Callable[[Any], str]) -> str:
    if value is None:
        return "NULL"
    return '"' + text_of(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json_text(value: Any) -> str:
    return digits.encode(value).decode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json_text(value)


_WAYS: dict[str, Callable[[str, pa.Array, Misfits], pa.Array]] = {
    PLAIN: _plain,
    JSON: _json,
    JSONB: _jsonb,
    BYTES: _bytes,
    ARRAY: partial(_array, literal=partial(_literal, text_of=_text)),
    ARRAY_OF_JSON: partial(_array, literal=_literal_of_json),
    ARRAY_OF_BYTES: partial(_array, literal=partial(_literal, text_of=_hex)),
}
