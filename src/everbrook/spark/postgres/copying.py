"""COPY: columns of texts as the one text that Postgres reads a table from, built with whole columns at a time.

`pyarrow.array` would load pandas first, which takes a second of every new worker: columns are made of buffers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

_NULL = r"\N"
_ESCAPES = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
"""The backslash comes first: it is in what the others become."""


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
    """Make a column of places."""
    numbers = np.array(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def escaped(column: pa.Array) -> pa.Array:
    """Write the values of a column as COPY has them."""
    text = data_of(column)
    for character, escape in _ESCAPES.items():
        if character.encode() in text:
            column = pc.replace_substring(column, character, escape)
    return pc.fill_null(column, _NULL) if column.null_count else column


def rows_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Give the line of each row."""
    *first, last = (escaped(column) for column in columns)
    return pc.binary_join_element_wise(*first, pc.binary_join_element_wise(last, "", "\n"), "\t")


def data_of(column: pa.Array) -> bytes:
    """Give the values of a column, one behind the other."""
    if not len(column):
        return b""
    bounds = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
    size = int(bounds[-1] - bounds[0])
    data: bytes = column.buffers()[2].slice(int(bounds[0]), size).to_pybytes() if size else b""
    return data
