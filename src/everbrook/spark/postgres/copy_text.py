"""Values as the text that COPY reads, built with whole columns at a time.

A JSON string is its text, a number as it is written, and true and false are these words, whatever the type of the
column: Postgres parses them by the type. An object or a list is its JSON. Columns of JSON take every value as JSON,
columns of bytes take base64, and columns of arrays take a list, whose items are what a column of their type takes.

JSON is read and written with every digit of its numbers: a number is a float if the float has the same digits, and a
Decimal otherwise.

`pyarrow.array` would load pandas first, which takes a second in every new worker: columns are made of buffers.
"""

import re
from base64 import b64decode
from binascii import Error as InvalidBase64
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from everbrook.protocol.state_changes import shown

_NULL = r"\N"
_ESCAPES = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
"""The backslash comes first, because the other escapes contain it."""
UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
Misfits = dict[int, str]
"""The reasons why messages do not fit, by their places."""

PLAIN, JSON, JSONB, BYTES = "plain", "json", "jsonb", "bytes"
ARRAY, ARRAY_OF_JSON, ARRAY_OF_BYTES = ARRAYS = "array", "array of json", "array of bytes"
_NUL, _ESCAPE = "\0", b"\\"
NUL = "has the character U+0000, which Postgres can't keep"
_ESCAPED_NUL = b"\\u0000"
_NUL_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def column_of(values: Sequence[bytes | Raw | None]) -> pa.Array:
    """Make a column of texts."""
    valid = None
    if None in values:
        valid = pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little"))
        values = [b"" if value is None else value for value in values]
    parts: Sequence[Any] = values
    bounds = np.zeros(len(parts) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, parts), np.int32, len(parts)), out=bounds[1:])
    data = b"".join(parts)
    return pa.Array.from_buffers(pa.string(), len(values), [valid, pa.py_buffer(bounds), pa.py_buffer(data)])


def numbers_of(values: Sequence[int]) -> pa.Array:
    """Make a column of integers."""
    numbers = np.array(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def escaped(column: pa.Array) -> pa.Array:
    """Escape the values of a column for COPY."""
    text = data_of(column)
    for character, escape in _ESCAPES.items():
        if character.encode() in text:
            column = pc.replace_substring(column, character, escape)
    return pc.fill_null(column, _NULL) if column.null_count else column


def rows_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the line of COPY for each row."""
    *first, last = (escaped(column) for column in columns)
    return pc.binary_join_element_wise(*first, pc.binary_join_element_wise(last, "", "\n"), "\t")


def data_of(column: pa.Array) -> bytes:
    """Return the concatenated values of a column."""
    if not len(column):
        return b""
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    size = int(bounds[-1] - bounds[0])
    data: bytes = column.buffers()[2].slice(int(bounds[0]), size).to_pybytes() if size else b""
    return data


def _number(text: str) -> float | Decimal:
    number = float(text)
    if repr(number) == text:
        return number
    try:
        return Decimal(text)
    except ArithmeticError:
        raise ValueError(f"the number {text:.40} is too large") from None


_decoder = msgspec.json.Decoder(float_hook=_number)
_encoder = msgspec.json.Encoder(decimal_format="number")


def decode_json(data: bytes | str) -> Any:
    return _decoder.decode(data)


def encode_json(value: Any) -> bytes:
    return _encoder.encode(value)


def as_text(kind: str, name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    """Convert values of JSON to the text of a kind of column. A value that does not fit is null, and a misfit."""
    return _WAYS[kind](name, values, misfits)


def has_nul(text: bytes) -> bool:
    """Return whether a string in JSON has the character U+0000, which Postgres can't store."""
    return _ESCAPED_NUL in text and _NUL_IN_JSON.search(text) is not None


def _plain(name: str, values: pa.Array, misfits: Misfits) -> pa.Array:
    quoted = pc.starts_with(values, '"')
    if _ESCAPE not in data_of(values):
        # The database refuses invalid UTF-8 by row: a cast here would refuse the whole column.
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
    """Decode all values at once, several times as fast as one by one. A value that can't be read is a misfit."""
    raws = values.cast(pa.binary()).to_pylist()
    try:
        decoded: list[Any] = decode_json(b"[" + b",".join(raw or b"null" for raw in raws) + b"]")
    except UNREADABLE:
        return [_one(name, place, raw or b"null", misfits) for place, raw in enumerate(raws)]
    return decoded


def _one(name: str, place: int, raw: bytes, misfits: Misfits) -> Any:
    try:
        return decode_json(raw)
    except UNREADABLE as error:
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
    """Write a list as an array of JSON: inner lists are items, not dimensions."""
    return "{" + ",".join(_item(item, _json_text) for item in value) + "}"


def _item(value: Any, text_of: Callable[[Any], str]) -> str:
    if value is None:
        return "NULL"
    return '"' + text_of(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json_text(value: Any) -> str:
    return encode_json(value).decode()


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
