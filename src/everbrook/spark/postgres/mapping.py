"""Mappings: which part of a message goes into which column. A batch of messages becomes columns of text.

The path of a column says where its value is:

    value.user.id          a field of the message, within objects
    value."first name"     fields whose names have dots, spaces or quotes are quoted
    $                      the whole message
    @stream                metadata of the message: @stream, @offset, @next_offset, @content_type, @time, @operation

`@operation` is what an event does, in whichever dialect it is written. A message that does not fit its columns is a
misfit, by its index, with the reason; the other messages are written.

Tables that do not exist are created for their mapping. `session_events` gets a unique key of stream and offset, also if
it was created without one.
"""

import re
from collections.abc import Mapping as Given

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from psycopg.sql import SQL, Composed, Identifier

from everbrook.spark.options import InvalidOption
from everbrook.spark.postgres.copy_text import BYTES, JSON, JSONB, NUL, as_text, column_of, has_nul
from everbrook.spark.postgres.database import Cursor
from everbrook.spark.postgres.extraction import Extracted, Extraction
from everbrook.spark.postgres.table import TargetTable, create, exists, identifier_of, look_up, names

STREAM, OFFSET, NEXT_OFFSET, VALUE = "stream", "offset", "next_offset", "value"
"""Columns of the source."""
METADATA = ("stream", "offset", "next_offset", "content_type", "time")
"""The metadata of each message, in columns of the source with these names."""
OPERATION = "operation"

_SEGMENT = re.compile(r'"((?:[^"\\]|\\.)+)"|([^\s."$@][^."]*)')
_ESCAPED = re.compile(r"\\(.)")


class Metadata(Struct, frozen=True):
    """Metadata of a message."""

    name: str

    def __str__(self) -> str:
        return f"@{self.name}"


class Field(Struct, frozen=True):
    """A field of the message, by the path of names. The empty path is the whole message."""

    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ".".join(_quoted(name) for name in self.names) or "$"


Path = Metadata | Field
STREAM_PATH, OFFSET_PATH = Metadata("stream"), Metadata("offset")
WHOLE, KEY_PATH, TYPE_PATH, VALUE_PATH = Field(), Field(("key",)), Field(("type",)), Field(("value",))


def parse_path(text: str) -> Path:
    """Parse a path. Raise ValueError if it is invalid."""
    if text == "$":
        return WHOLE
    if text.startswith("@"):
        if text[1:] not in (*METADATA, OPERATION):
            raise ValueError(f"must be one of {', '.join(f'@{name}' for name in (*METADATA, OPERATION))}, got {text!r}")
        return Metadata(text[1:])
    return Field(_names(text))


def _names(text: str) -> tuple[str, ...]:
    names: list[str] = []
    place = 0
    while found := _SEGMENT.match(text, place):
        names.append(_ESCAPED.sub(r"\1", found[1]) if found[1] is not None else found[2])
        place = found.end()
        if place == len(text):
            return tuple(names)
        if text[place] != ".":
            break
        place += 1
    raise ValueError(f"must be $, a name that begins with @, or fields such as value.user.id, got {text!r}")


def _quoted(name: str) -> str:
    found = _SEGMENT.fullmatch(name)
    if found is not None and found[2] is not None:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


_OPERATIONS = ((OPERATION,), ("headers", OPERATION), ("headers", "control"))
"""The fields where the dialects have the operation of an event."""

SESSION_EVENTS = {
    "stream_name": "@stream",
    "event_key": "key",
    "event_type": "type",
    "operation": "@operation",
    "payload": "$",
    "ds_offset": "@offset",
}
"""The columns of `session_events`, where each event is a row."""
SESSION_STATE = {
    "stream_name": "@stream",
    "event_type": "type",
    "event_key": "key",
    "value": "value",
    "ds_offset": "@offset",
}
"""The columns of a table of states, where each entity is a row."""


class MappedColumn(Struct, frozen=True):
    """A column, its kind, and the path of its value."""

    column: str
    kind: str
    path: Path


class Mapping(Struct, frozen=True):
    """The columns of a table that are written."""

    places: tuple[MappedColumn, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(place.column for place in self.places)

    def column_at(self, path: Path) -> str | None:
        """Return the column of a path."""
        return next((place.column for place in self.places if place.path == path), None)


def parse_columns(columns: Given[str, str]) -> dict[str, Path]:
    """Parse the mapping of a user."""
    if not columns:
        raise InvalidOption("columns must name one column at least, such as {'payload': '$'}")
    parsed: dict[str, Path] = {}
    for name, text in columns.items():
        try:
            parsed[name] = parse_path(text)
        except ValueError as error:
            raise InvalidOption(f"the path of the column {name!r} {error}") from None
    return parsed


def mapping_of(table: TargetTable, paths: Given[str, Path]) -> Mapping:
    """Combine a mapping with the kinds of the table's columns."""
    return Mapping(tuple(MappedColumn(name, table.columns[name].kind, path) for name, path in paths.items()))


class Mapped(Struct, frozen=True):
    """Messages as columns of text, and the reasons of those that do not fit."""

    columns: list[pa.Array]
    misfits: dict[int, str]


class Mapper:
    """Makes columns of messages. Each process makes its own, because decoders can't be pickled."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        fields = {place.path.names for place in mapping.places if isinstance(place.path, Field) and place.path.names}
        if any(place.path == Metadata(OPERATION) for place in mapping.places):
            fields |= set(_OPERATIONS)
        # A whole message is only checked to be JSON if its column requires that.
        of_json = any(place.path == WHOLE and place.kind in {JSON, JSONB} for place in mapping.places)
        self._extraction = Extraction(fields) if fields or of_json else None

    def read(self, batch: pa.RecordBatch) -> Mapped:
        misfits: dict[int, str] = {}
        payloads = batch.column(VALUE)
        extracted = Extracted({}, {})
        if self._extraction is not None:
            extracted = self._extraction.read(payloads.cast(pa.binary()).to_pylist())
            misfits |= extracted.invalid
        columns = [self._column(place, batch, extracted, misfits) for place in self._mapping.places]
        return Mapped(columns, misfits)

    def _column(
        self, place: MappedColumn, batch: pa.RecordBatch, extracted: Extracted, misfits: dict[int, str]
    ) -> pa.Array:
        match place.path:
            case Metadata(name=name) if name in METADATA:
                return batch.column(name).cast(pa.string())
            case Field(names=()):
                return _whole(place, batch.column(VALUE), misfits)
            case path:
                return as_text(place.kind, place.column, _values(path, extracted), misfits)


def _values(path: Path, extracted: Extracted) -> pa.Array:
    """Return the values at a path. An operation is the first value of its possible fields."""
    if isinstance(path, Field):
        return extracted.fields[path.names]
    return pc.coalesce(*(extracted.fields[names] for names in _OPERATIONS))


def _whole(place: MappedColumn, payloads: pa.Array, misfits: dict[int, str]) -> pa.Array:
    """Return the messages themselves."""
    if place.kind == BYTES:
        return column_of([b"\\x" + payload.hex().encode() for payload in payloads.cast(pa.binary()).to_pylist()])
    _note_nuls(place, payloads, misfits)
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return column_of([_text(number, value, misfits) for number, value in enumerate(payloads.to_pylist())])


def _note_nuls(place: MappedColumn, payloads: pa.Array, misfits: dict[int, str]) -> None:
    """Note messages with U+0000, which Postgres can't store. JSON only has it escaped."""
    in_json = place.kind == JSONB
    suspects = pc.match_substring(payloads, "\\u0000" if in_json else "\0")
    if not pc.any(suspects).as_py():
        return
    for number in pc.indices_nonzero(suspects).to_pylist():
        payload = payloads.slice(number, 1).cast(pa.binary())[0].as_py()
        if not in_json or has_nul(payload):
            misfits[number] = f"the column {place.column} {NUL}"


def _text(number: int, value: bytes, misfits: dict[int, str]) -> bytes | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        misfits[number] = f"is not UTF-8: {error}"
        return None
    return value


EVENTS = """
    CREATE TABLE IF NOT EXISTS {table} (
        id SERIAL PRIMARY KEY,
        stream_name TEXT NOT NULL,
        event_key TEXT,
        event_type TEXT,
        operation TEXT,
        payload JSONB NOT NULL,
        ds_offset TEXT,
        received_at TIMESTAMPTZ DEFAULT NOW(),
        UNIQUE (stream_name, ds_offset)
    )
"""
_GUARD = ("stream_name", "ds_offset")
_STATE_KEY: tuple[Path, ...] = (STREAM_PATH, TYPE_PATH, KEY_PATH)


def create_events(cursor: Cursor, name: str) -> None:
    """Create a table of events, or add the key that an existing one lacks."""
    if not exists(cursor, name):
        create(cursor, name, EVENTS)
        return
    table = look_up(cursor, name)
    if not set(SESSION_EVENTS) <= set(table.columns) or table.key_on(_GUARD) is not None:
        return
    try:
        with cursor.connection.transaction():
            cursor.execute(SQL("ALTER TABLE {} ADD UNIQUE ({})").format(table.identifier, names(_GUARD)))
    except (psycopg.errors.UniqueViolation, psycopg.errors.InsufficientPrivilege) as error:
        raise InvalidOption(
            f"{name!r} has no unique key of stream_name and ds_offset, and can't be given one "
            f"({error.diag.message_primary}). Do it yourself: ALTER TABLE {name} ADD UNIQUE (stream_name, ds_offset)"
        ) from error


def create_mapped(cursor: Cursor, name: str, paths: dict[str, Path], mode: str) -> None:
    """Create a table for a mapping: JSON for whole messages and values, text for fields."""
    if exists(cursor, name):
        return
    columns = [SQL("{} {}").format(Identifier(column), SQL(_type(path))) for column, path in paths.items()]
    key = [
        column
        for column, path in paths.items()
        if path in (_STATE_KEY if mode == "state" else (STREAM_PATH, OFFSET_PATH))
    ]
    statement = SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(
        identifier_of(name), SQL(", ").join([*columns, *_keys(key, mode)])
    )
    cursor.execute(statement)


def _keys(key: list[str], mode: str) -> list[Composed]:
    if mode == "state":
        return [SQL("PRIMARY KEY ({})").format(names(key))] if key else []
    return [SQL("UNIQUE ({})").format(names(key))] if len(key) == len((STREAM_PATH, OFFSET_PATH)) else []


def _type(path: Path) -> str:
    if path in {WHOLE, VALUE_PATH}:
        return "jsonb"
    return "timestamptz" if path == Metadata("time") else "text"
