"""Mappings: which part of a message goes into which column, and how a batch of messages becomes columns of texts.

A message that is not what its columns take is a misfit, by its place, with the reason; the others are not held up.
"""

from collections.abc import Mapping as Given

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from everbrook.spark.given import InvalidOption
from everbrook.spark.postgres import texts
from everbrook.spark.postgres.copying import column_of
from everbrook.spark.postgres.extraction import Extracted, Extraction
from everbrook.spark.postgres.paths import OPERATION, TOLD, WHOLE, Field, Path, Told, parse_path
from everbrook.spark.postgres.tables import Table

VALUE = "value"
_OPERATIONS = ((OPERATION,), ("headers", OPERATION), ("headers", "control"))
"""Where the dialects write what an event does."""

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


class Place(Struct, frozen=True):
    """A column, what it takes, and where that is found."""

    column: str
    kind: str
    path: Path


class Mapping(Struct, frozen=True):
    """The columns of a table that are written."""

    places: tuple[Place, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(place.column for place in self.places)

    def column_at(self, path: Path) -> str | None:
        """Give the column that takes what is found at a path."""
        return next((place.column for place in self.places if place.path == path), None)


def parse_columns(columns: Given[str, str]) -> dict[str, Path]:
    """Read the mapping that a user gave."""
    if not columns:
        raise InvalidOption("columns must name one column at least, such as {'payload': '$'}")
    parsed: dict[str, Path] = {}
    for name, text in columns.items():
        try:
            parsed[name] = parse_path(text)
        except ValueError as error:
            raise InvalidOption(f"the path of the column {name!r} {error}") from None
    return parsed


def mapping_of(table: Table, paths: Given[str, Path]) -> Mapping:
    """Join a mapping with what the table's columns take."""
    return Mapping(tuple(Place(name, table.columns[name].kind, path) for name, path in paths.items()))


class Mapped(Struct, frozen=True):
    """Messages as columns of texts, and those of them that do not fit."""

    columns: list[pa.Array]
    misfits: dict[int, str]


class Mapper:
    """Makes columns of messages. It is made where it is used: what it decodes with can't be sent."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping
        fields = {place.path.names for place in mapping.places if isinstance(place.path, Field) and place.path.names}
        if any(place.path == Told(OPERATION) for place in mapping.places):
            fields |= set(_OPERATIONS)
        # A whole message is checked to be JSON only where it has to be.
        of_json = any(place.path == WHOLE and place.kind in {texts.JSON, texts.JSONB} for place in mapping.places)
        self._extraction = Extraction(fields) if fields or of_json else None

    def read(self, batch: pa.RecordBatch) -> Mapped:
        """Make the columns of a batch."""
        misfits: dict[int, str] = {}
        payloads = batch.column(VALUE)
        extracted = Extracted({}, {})
        if self._extraction is not None:
            extracted = self._extraction.read(payloads.cast(pa.binary()).to_pylist())
            misfits |= extracted.invalid
        columns = [self._column(place, batch, extracted, misfits) for place in self._mapping.places]
        return Mapped(columns, misfits)

    def _column(self, place: Place, batch: pa.RecordBatch, extracted: Extracted, misfits: dict[int, str]) -> pa.Array:
        match place.path:
            case Told(name=name) if name in TOLD:
                return batch.column(name).cast(pa.string())
            case Field(names=()):
                return _whole(place, batch.column(VALUE), misfits)
            case path:
                return texts.as_text(place.kind, place.column, _values(path, extracted), misfits)


def _values(path: Path, extracted: Extracted) -> pa.Array:
    """Give what was found at a path. An operation is in the first of the places where it may be."""
    if isinstance(path, Field):
        return extracted.fields[path.names]
    return pc.coalesce(*(extracted.fields[names] for names in _OPERATIONS))


def _whole(place: Place, payloads: pa.Array, misfits: dict[int, str]) -> pa.Array:
    """Give the messages themselves."""
    if place.kind == texts.BYTES:
        return column_of([b"\\x" + payload.hex().encode() for payload in payloads.cast(pa.binary()).to_pylist()])
    _note_nuls(place, payloads, misfits)
    try:
        return payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return column_of([_text(number, value, misfits) for number, value in enumerate(payloads.to_pylist())])


def _note_nuls(place: Place, payloads: pa.Array, misfits: dict[int, str]) -> None:
    """Note messages with the character that Postgres can't keep. In JSON it is only found where it is escaped."""
    in_json = place.kind == texts.JSONB
    suspects = pc.match_substring(payloads, "\\u0000" if in_json else "\0")
    if not pc.any(suspects).as_py():
        return
    for number in pc.indices_nonzero(suspects).to_pylist():
        payload = payloads.slice(number, 1).cast(pa.binary())[0].as_py()
        if not in_json or texts.has_nul(payload):
            misfits[number] = f"the column {place.column} {texts.NUL}"


def _text(number: int, value: bytes, misfits: dict[int, str]) -> bytes | None:
    try:
        value.decode()
    except UnicodeDecodeError as error:
        misfits[number] = f"is no text in UTF-8: {error}"
        return None
    return value
