"""Makes rows of messages: fields of a JSON object go into columns; other messages become dead letters.

    RawMessages    each message as it is, in the column `value`
    JsonMessages   fields in columns. A new field is a new column, if the table may grow; a value that does not fit in
                   its column, and a field that has none, are kept in `_rescued`

Rows come in chunks, and the columns may grow from one to the next: `columns` are those of the last chunk.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
import pyarrow as pa
from msgspec import Raw, Struct

from everbrook.protocol.json_text import decode_mended
from everbrook.spark.lake.columns import RESCUED, Column, Columns, agreed, column_name, rescued_column
from everbrook.spark.lake.values import NULL, infer, read_values

VALUE = "value"
Fields = dict[str, Raw]
_decoder = msgspec.json.Decoder(dict[str, Raw])
_LONGEST_REASON = 500


class Read(Struct, frozen=True):
    """The result of reading messages: the values of columns, and the reasons of refused messages."""

    arrays: list[pa.Array]
    refused: dict[int, str]


class Messages(Protocol):
    """Makes rows of messages."""

    columns: Columns
    widened: bool
    """Whether a column has another type than in a chunk before."""

    def read(self, values: pa.Array) -> Read:
        """Read messages."""


class RawMessages:
    """Messages as they are."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.widened = False

    def read(self, values: pa.Array) -> Read:
        """Return messages as they are, with the type of the one column."""
        return Read([values.cast(self.columns[0].type)], {})


class JsonMessages:
    """Fields of messages of JSON."""

    def __init__(self, columns: Columns, *, evolve: bool, most: int) -> None:
        self.columns = columns
        self.widened = False
        self._settled = {column.name for column in columns}
        self._evolve = evolve
        self._most = most

    def read(self, values: pa.Array) -> Read:
        """Read the fields of messages."""
        payloads = values.cast(pa.binary())
        objects, refused = _objects(payloads.to_pylist(), _decoder.decode if _is_text(payloads) else _decode_text)
        if self._evolve:
            self._grow(objects)
        rescued: dict[int, Fields] = {}
        self._rescue_unknown(objects, rescued)
        arrays = {}
        for column in self.columns:
            if column.name != RESCUED:
                arrays[column.name] = self._read_column(column, objects, rescued)
        arrays[RESCUED] = _rescued(rescued, len(objects))
        return Read([arrays[column.name] for column in self.columns], refused)

    def _fields(self) -> set[str]:
        return {column.field for column in self.columns if column.name != RESCUED}

    def _grow(self, objects: list[Fields]) -> None:
        """Add columns for fields that have none yet, and a value."""
        known = self._fields()
        new: dict[str, None] = {}
        for fields in objects:
            if not known.issuperset(fields):
                new.update(dict.fromkeys(fields))
        taken = {column.name.lower() for column in self.columns}
        for field in new:
            name = None if field in known else column_name(field)
            if name is None or name.lower() in taken or len(self.columns) >= self._most:
                continue
            column = infer(name, (fields[field] for fields in objects if field in fields))
            if column is not None:
                self.columns = (*self.columns, column)
                taken.add(name.lower())

    def _rescue_unknown(self, objects: list[Fields], rescued: dict[int, Fields]) -> None:
        known = self._fields()
        for place, fields in enumerate(objects):
            if not known.issuperset(fields):
                unknown = {name: raw for name, raw in fields.items() if name not in known and raw != NULL}
                if unknown:
                    rescued[place] = unknown

    def _read_column(self, column: Column, objects: list[Fields], rescued: dict[int, Fields]) -> pa.Array:
        field = column.field
        raws = [fields.get(field, NULL) for fields in objects]
        array, misfits = read_values(column, raws)
        if misfits and column.name not in self._settled:
            array, misfits = read_values(self._widen(column, [raws[place] for place in misfits]), raws)
        for place in misfits:
            rescued.setdefault(place, {})[field] = raws[place]
        return array

    def _widen(self, column: Column, misfits: list[Raw]) -> Column:
        """Widen the type of a column that is not in the table yet, for values that came later."""
        wider = agreed(column, infer(column.name, misfits) or column)
        if wider != column:
            self.widened = True
            self.columns = tuple(wider if each.name == column.name else each for each in self.columns)
        return wider


def _is_text(payloads: pa.Array) -> bool:
    try:
        payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _decode_text(payload: bytes) -> Fields:
    """Read a message that may be no UTF-8, which values that are not decoded would hide."""
    payload.decode()
    return _decoder.decode(payload)


def _objects(
    payloads: Iterable[bytes | None], decode: Callable[[bytes], Fields]
) -> tuple[list[Fields], dict[int, str]]:
    """Read the fields of messages, and the reasons why others are refused, by their places."""
    objects: list[Fields] = []
    refused: dict[int, str] = {}
    for place, payload in enumerate(payloads):
        try:
            objects.append(decode_mended(decode, b"null" if payload is None else payload))
        except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
            refused[place] = _reason(error)
            objects.append({})
    return objects, refused


def _reason(error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        return "is no JSON object"
    words = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
    return f"is no JSON: {words}"[:_LONGEST_REASON]


def _rescued(rescued: dict[int, Fields], count: int) -> pa.Array:
    if not rescued:
        return pa.nulls(count, pa.string())
    texts = {place: msgspec.json.encode(fields).decode() for place, fields in rescued.items()}
    return pa.array([texts.get(place) for place in range(count)], pa.string())


def messages_of(columns: Columns, *, evolve: bool, most: int) -> Messages:
    """Choose how messages are read, by the columns of the table."""
    if any(column.name == RESCUED for column in columns):
        return JsonMessages(columns, evolve=evolve, most=most)
    return RawMessages(columns)


def json_columns(given: Columns) -> Columns:
    """Return the columns of a table of fields."""
    return (rescued_column(), *given)


def raw_columns(type_: pa.DataType) -> Columns:
    """Return the column of a table of messages."""
    return (Column(VALUE, type_),)
