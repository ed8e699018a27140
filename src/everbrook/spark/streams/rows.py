"""Rows of a source: their columns, and how they are made of messages.

raw      stream, offset, next_offset, content_type, value, time: each message as it is
change   stream, offset, next_offset, time, type, key, operation, value, old_value, headers: changes in either dialect
given    the fields of the user's own schema, read from messages of JSON; its columns `_stream`, `_offset`,
         `_next_offset`, `_time`, `_content_type` and `_corrupt_record` are metadata of the message

The `operation` of a change is insert, update, upsert, delete or append, or what a control message says. A message that
is no change has no operation and is the value as a whole; with `mode=FAILFAST` it is an error.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec
import pyarrow as pa
from msgspec import UNSET, Raw, Struct, UnsetType
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from everbrook.client.tables.json_columns import read_columns, text_of
from everbrook.protocol.json_text import decode_mended
from everbrook.protocol.state_changes import (
    Append,
    InvalidChange,
    Remove,
    Reset,
    Set,
    SnapshotEnd,
    SnapshotStart,
    StateMessage,
    parse_message,
)
from everbrook.spark.streams.bundle import Bundle
from everbrook.spark.streams.json_conversion import Misfit, decode_object, decode_raw, fit, has_variant

_STRING, _TIME = StringType(), TimestampType()
_PLACE = {"stream": _STRING, "offset": _STRING, "next_offset": _STRING}
_NAMES = ("type", "key", "operation", "value", "old_value", "headers")


def _struct(fields: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in fields.items()])


RAW = {
    kind: _struct({**_PLACE, "content_type": _STRING, "value": type_, "time": _TIME})
    for kind, type_ in (("string", _STRING), ("binary", BinaryType()))
}
CHANGE = _struct(
    {
        **_PLACE,
        "time": _TIME,
        **dict.fromkeys(("type", "key", "operation", "value", "old_value"), _STRING),
        "headers": MapType(_STRING, _STRING),
    }
)
CORRUPT = "_corrupt_record"

Column = Callable[[Bundle], pa.Array]
_METADATA: dict[str, Column] = {
    "stream": Bundle.streams,
    "offset": Bundle.offsets,
    "next_offset": Bundle.next_offsets,
    "content_type": Bundle.content_types,
    "time": Bundle.times,
}


class Rows(Protocol):
    """Makes batches of bundles."""

    def batch(self, bundle: Bundle) -> pa.RecordBatch: ...


def rows_of(schema: StructType, envelope: str, *, failfast: bool, any_text: bool = False) -> Rows:
    """Choose how messages become rows of a schema, one of those above or the user's.

    `any_text` reads streams of bytes as text too; a message that is not UTF-8 is null.
    """
    shape = _shape(schema)
    if envelope == "change":
        if shape != _shape(CHANGE):
            raise ValueError(
                f"the columns of envelope=change are fixed, leave the schema out; they are {CHANGE.simpleString()}"
            )
        return ChangeRows(schema, failfast=failfast)
    for kind, raw in RAW.items():
        if shape == _shape(raw):
            texts = partial(Bundle.texts, any_stream=any_text and not failfast)
            return RawRows(schema, texts if kind == "string" else Bundle.payloads)
    return GivenRows(schema, failfast=failfast)


def _shape(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _arrow(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone="UTC")


class RawRows:
    """Messages as they are."""

    def __init__(self, schema: StructType, values: Column) -> None:
        self._schema = _arrow(schema)
        self._columns = _METADATA | {"value": values}

    def batch(self, bundle: Bundle) -> pa.RecordBatch:
        arrays = [self._columns[name](bundle) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class ChangeRows:
    """Changes, whichever dialect they are written in."""

    def __init__(self, schema: StructType, *, failfast: bool) -> None:
        self._schema = _arrow(schema)
        self._failfast = failfast

    def batch(self, bundle: Bundle) -> pa.RecordBatch:
        changes = change_columns(bundle, failfast=self._failfast)
        arrays = [
            pa.array(changes[field.name], field.type) if field.name in changes else _METADATA[field.name](bundle)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


class GivenRows:
    """Fields of JSON messages in the types of a user's schema."""

    def __init__(self, schema: StructType, *, failfast: bool) -> None:
        self._schema = _arrow(schema)
        self._failfast = failfast
        metadata = {f"_{name}" for name in _METADATA} | {CORRUPT}
        self._fields = pa.schema([field for field in self._schema if field.name not in metadata])
        self._slow = any(pa.types.is_map(field.type) or has_variant(field.type) for field in self._fields)
        self._variants = [field.name for field in schema.fields if isinstance(field.dataType, VariantType)]
        for field in self._schema:
            if field.name == CORRUPT and not pa.types.is_string(field.type):
                raise ValueError(f"{CORRUPT} must be STRING, got {field.type}")

    def batch(self, bundle: Bundle) -> pa.RecordBatch:
        found = self._quickly(bundle) or self._slowly(bundle)
        arrays = [found[name] if name in found else _METADATA[name[1:]](bundle) for name in self._schema.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _quickly(self, bundle: Bundle) -> dict[str, pa.Array] | None:
        """Read all messages at once with pyarrow. None if one of them does not fit the schema."""
        if not bundle.trailer or self._slow:
            return None
        try:
            struct = read_columns(bundle.stored[: -bundle.trailer], self._fields)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None
        if struct.null_count:
            return None
        found = {field.name: struct.field(place) for place, field in enumerate(self._fields)}
        return found | self._corrupt([None] * len(bundle))

    def _slowly(self, bundle: Bundle) -> dict[str, pa.Array]:
        columns: dict[str, list[Any]] = {name: [] for name in self._fields.names}
        corrupt: list[str | None] = []
        for place, payload in enumerate(bundle.payloads().to_pylist()):
            try:
                whole = self._row(columns, self._decode(payload))
                corrupt.append(None if whole else payload.decode("utf-8", "replace"))
            except Misfit as misfit:
                self._refuse(bundle, place, misfit)
                corrupt.append(payload.decode("utf-8", "replace"))
                for values in columns.values():
                    values.extend([None] * (place + 1 - len(values)))
        found = {field.name: pa.array(columns[field.name], field.type) for field in self._fields}
        return found | self._corrupt(corrupt)

    def _decode(self, payload: bytes) -> dict[str, Any]:
        message = decode_object(payload)
        if self._variants:
            raw = decode_raw(payload)
            message |= {name: raw[name] for name in self._variants if name in raw}
        return message

    def _row(self, columns: dict[str, list[Any]], message: dict[str, Any]) -> bool:
        """Add a message, with null for what does not fit, and return whether everything fitted."""
        whole = True
        for field in self._fields:
            try:
                columns[field.name].append(fit(message.get(field.name), field.type))
            except Misfit as misfit:
                if self._failfast:
                    raise Misfit(f"does not fit column {field.name!r}: it {misfit}") from None
                columns[field.name].append(None)
                whole = False
        return whole

    def _refuse(self, bundle: Bundle, place: int, misfit: Misfit) -> None:
        if self._failfast:
            where = f"{bundle.streams()[place]} at offset {bundle.offsets()[place]}"
            raise ValueError(f"the message in {where} {misfit}; mode=PERMISSIVE makes null of it") from None

    def _corrupt(self, texts: list[str | None]) -> dict[str, pa.Array]:
        return {CORRUPT: pa.array(texts, pa.string())} if CORRUPT in self._schema.names else {}


class _Written(Struct):
    """The parts of a change as they are written, so that no number and no order of fields is changed."""

    value: Raw | UnsetType = UNSET
    old_value: Raw | UnsetType = UNSET


_written = msgspec.json.Decoder(_Written)


def change_columns(bundle: Bundle, *, failfast: bool) -> dict[str, list[Any]]:
    """Return the columns of changes, without those that every message has."""
    rows = []
    for place, payload in enumerate(bundle.payloads().to_pylist()):
        try:
            rows.append(_row(payload))
        except (InvalidChange, msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            if failfast:
                where = f"{bundle.streams()[place]} at offset {bundle.offsets()[place]}"
                raise ValueError(f"the message in {where} is no change: {error}") from error
            rows.append((None, None, None, payload.decode("utf-8", "replace"), None, None))
    return {name: [row[place] for row in rows] for place, name in enumerate(_NAMES)}


def _row(payload: bytes) -> tuple[Any, ...]:
    message = decode_mended(msgspec.json.decode, payload)
    change = parse_message(message)
    written = decode_mended(_written.decode, payload)
    headers = message.get("headers")
    return (
        getattr(change, "type", None),
        getattr(change, "key", None),
        _operation(change),
        _text(written.value),
        _text(written.old_value),
        None if headers is None else [(name, text_of(value)) for name, value in headers.items()],
    )


def _text(raw: Raw | UnsetType) -> str | None:
    return None if isinstance(raw, UnsetType) else bytes(raw).decode()


def _operation(change: StateMessage) -> str:
    match change:
        case Set(operation=operation):
            return operation
        case Remove():
            return "delete"
        case Append():
            return "append"
        case SnapshotStart():
            return "snapshot-start"
        case SnapshotEnd():
            return "snapshot-end"
        case Reset():
            return "reset"
