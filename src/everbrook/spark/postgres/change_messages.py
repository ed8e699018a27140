"""Writes rows of Postgres as messages of the State protocol: from the text that Postgres sends to JSON.

No value is parsed into a number or a time on the way, so none can change. Numbers keep all their digits; what JSON has
no number for (NaN, infinities) is text. Times are those of ISO 8601, and of UTC where they have a date and a zone.
`json` is inlined, arrays are arrays, bytes are base64. Everything else (uuid, enumerations, ranges, addresses,
composites, times of a day …) is the text that Postgres writes for it. The text must have been written under the
settings in `SESSION`.

Keys are texts, as in the value. A key of several columns is the text of a JSON array of them. A key that is an empty
text, or begins with a quotation mark, is written as JSON: so no two keys are the same, and none is empty.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Raw, Struct

from everbrook.spark.postgres.capture_position import Shape, format_lsn
from everbrook.spark.postgres.errors import CaptureRefused
from everbrook.spark.postgres.pgoutput import UNCHANGED, Tuple
from everbrook.spark.postgres.routing import Order

Render = Callable[[bytes], bytes]

SESSION = {
    "client_encoding": "UTF8",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "iso_8601",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
"""Settings of a connection under which the text of a value is always the same."""

_SPECIAL = re.compile(rb'[\x00-\x1f"\\]').search
_NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][+-]?\d+)?").fullmatch
_ELEMENT = re.compile(rb'\s*(?:"((?:[^"\\]|\\.)*)"|([{}])|([^{},"]+))\s*(,?)', re.DOTALL)
_BOUNDS = re.compile(rb"(\[-?\d+:-?\d+\])+=")
_encode = msgspec.json.encode
SCHEMA: Final = "postgres.schema"
"""The type of the messages that describe the columns of a table."""

_EPOCH_OF_POSTGRES = datetime(2000, 1, 1, tzinfo=UTC)
_EPOCH_OF_POSTGRES_US = int(_EPOCH_OF_POSTGRES.timestamp()) * 1_000_000
_QUOTE = ord('"')


class InvalidArray(ValueError):
    """The text is no array of Postgres."""


def render_text(text: bytes) -> bytes:
    return b'"%b"' % text if _SPECIAL(text) is None else _encode(text.decode())


def render_number(text: bytes) -> bytes:
    """Write a JSON number with the same digits."""
    return text if _NUMBER(text) else b'"%b"' % text


def _as_it_is(text: bytes) -> bytes:
    return text


def _boolean(text: bytes) -> bytes:
    return b"true" if text == b"t" else b"false"


def _time_of_utc(text: bytes) -> bytes:
    """Write a time in UTC. Times before Christ and infinities stay Postgres' text."""
    if text.endswith(b"+00"):
        return b'"%bZ"' % text[:-3].replace(b" ", b"T")
    return b'"%b"' % text


def _local_time(text: bytes) -> bytes:
    return b'"%b"' % (text if text.endswith(b" BC") else text.replace(b" ", b"T"))


def _plain(text: bytes) -> bytes:
    """Write text of a type that never needs an escape."""
    return b'"%b"' % text


def _json(text: bytes) -> bytes:
    """Write JSON inline. JSON that other readers would refuse (half a surrogate pair, deep nesting) is a string."""
    try:
        msgspec.json.decode(text, type=Raw)
    except (ValueError, RecursionError):
        return render_text(text)
    return text


def _bytes(text: bytes) -> bytes:
    return b'"%b"' % b64encode(bytes.fromhex(text[2:].decode()))


BUILT_IN: dict[int, Render] = {
    16: _boolean,
    17: _bytes,
    **dict.fromkeys((20, 21, 23, 26, 28), _as_it_is),  # int8, int2, int4, oid, xid
    **dict.fromkeys((700, 701, 1700), render_number),  # float4, float8, numeric
    **dict.fromkeys((114, 3802), _json),  # json, jsonb
    **dict.fromkeys((1082, 1083, 1266, 1186, 2950), _plain),  # date, time, timetz, interval, uuid
    1114: _local_time,
    1184: _time_of_utc,
    **dict.fromkeys((19, 25, 1042, 1043), render_text),  # name, text, char, varchar
}
"""Built-in types by OID, which is the same in every Postgres. The catalogue describes all other types."""


class Types:
    """How the values of each type are written. Domains and arrays have to be added first."""

    def __init__(self) -> None:
        self._bases: dict[int, int] = {}
        self._elements: dict[int, int] = {}

    def add(self, bases: Mapping[int, int], elements: Mapping[int, int]) -> None:
        """Add domains by their base types, and arrays by the types of their elements."""
        self._bases.update(bases)
        self._elements.update(elements)

    def render(self, oid: int) -> Render:
        """Return the function that writes values of a type."""
        while oid in self._bases:
            oid = self._bases[oid]
        if oid in self._elements:
            element = self.render(self._elements[oid])
            return lambda text: render_array(text, element)
        return BUILT_IN.get(oid, render_text)


def render_array(text: bytes, element: Render) -> bytes:
    """Write an array, with all its dimensions. The lower bounds of its indexes are lost."""
    bounds = _BOUNDS.match(text)
    body = text[bounds.end() :] if bounds else text
    written = b"".join(_tokens(body, element))
    if not (written.startswith(b"[") and written.endswith(b"]")):
        raise InvalidArray(f"an array must be written in braces, got {text[:64]!r}")
    return written


def _tokens(text: bytes, element: Render) -> Iterator[bytes]:
    at = 0
    while at < len(text):
        match = _ELEMENT.match(text, at)
        if match is None:
            raise InvalidArray(f"an array that can't be read at byte {at}: {text[:64]!r}")
        quoted, brace, bare, comma = match.groups()
        if brace is not None:
            yield b"[" if brace == b"{" else b"]"
        elif quoted is not None:
            yield element(re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL))
        else:
            yield b"null" if bare.strip().upper() == b"NULL" else element(bare.strip())
        yield comma
        at = match.end()


class Headers:
    """The headers of all messages of a transaction, by operation. Those of the initial copy have `snapshot`."""

    def __init__(self, lsn: int, xid: int | None = None, committed_at_us: int | None = None) -> None:
        common: dict[str, object] = {"lsn": format_lsn(lsn)}
        if xid is not None and committed_at_us is not None:
            common = {"txid": str(xid), "timestamp": _format_time(committed_at_us)} | common
        else:
            common["snapshot"] = True
        self.time_us = None if committed_at_us is None else committed_at_us + _EPOCH_OF_POSTGRES_US
        self.insert, self.update, self.delete, self.upsert = (
            b',"headers":%b}' % msgspec.json.encode({"operation": operation} | common)
            for operation in ("insert", "update", "delete", "upsert")
        )
        self.reset = msgspec.json.encode({"headers": {"control": "reset"} | common})


def _format_time(committed_at_us: int) -> str:
    moment = _EPOCH_OF_POSTGRES + timedelta(microseconds=committed_at_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class RowWriter:
    """Writes the rows of a table of one shape."""

    def __init__(self, type_: str, shape: Shape, types: Types) -> None:
        self.shape = shape
        names = [column.name for column in shape.columns]
        renders = [types.render(column.type_oid) for column in shape.columns]
        self._prefix = b'{"type":%b,"key":' % msgspec.json.encode(type_)
        self._fields = [
            ((b"," if place else b"{") + msgspec.json.encode(name) + b":", render)
            for place, (name, render) in enumerate(zip(names, renders, strict=True))
        ]
        places = [names.index(name) for name in shape.key]
        self._type = type_
        self.key: Callable[[Tuple], bytes] = self._key_writer(places, [renders[place] for place in places])
        self.key_places = frozenset(places)

    def _key_writer(self, places: list[int], renders: list[Render]) -> Callable[[Tuple], bytes]:
        if len(places) == 1:
            place, render = places[0], renders[0]
            return lambda values: _single_key(render(self._present(values, place)))
        both = list(zip(places, renders, strict=True))
        return lambda values: render_text(
            b"[%b]" % b",".join(render(self._present(values, place)) for place, render in both)
        )

    def _present(self, values: Tuple, place: int) -> bytes:
        value = values[place]
        if value is None or value is UNCHANGED:
            name = self.shape.columns[place].name
            raise CaptureRefused(f"a row of {self._type} has no {name}, which is of its key: make the column NOT NULL")
        return value

    def value(self, values: Tuple) -> bytes:
        """Write a row as a JSON object."""
        written = [
            name + (b"null" if value is None else render(value))
            for (name, render), value in zip(self._fields, values, strict=True)
        ]
        return b"".join(written) + b"}" if written else b"{}"

    def known_value(self, values: Tuple) -> bytes:
        """Write a row as a JSON object, without columns whose values Postgres has not sent."""
        written = [
            name[1:] + (b"null" if value is None else render(value))
            for (name, render), value in zip(self._fields, values, strict=True)
            if value is not UNCHANGED
        ]
        return b"{%b}" % b",".join(written)

    def set(self, key: bytes, value: bytes, headers: bytes) -> bytes:
        return b'%b%b,"value":%b%b' % (self._prefix, key, value, headers)

    def set_over(self, key: bytes, value: bytes, old: bytes, headers: bytes) -> bytes:
        """Write a message that sets a row, with the value before."""
        return b'%b%b,"value":%b,"old_value":%b%b' % (self._prefix, key, value, old, headers)

    def remove(self, key: bytes, old: bytes | None, headers: bytes) -> bytes:
        """Write a message that removes a row, with the value before if that is known."""
        old_value = b"" if old is None else b',"old_value":%b' % old
        return b"%b%b%b%b" % (self._prefix, key, old_value, headers)


def _single_key(rendered: bytes) -> bytes:
    """Write a value as a key: a JSON string as it is, any other value as a string of its JSON."""
    if rendered[0] != _QUOTE or rendered == b'""' or rendered.startswith(b'"\\"'):
        return render_text(rendered)
    return rendered


def unchanged_header(headers: bytes, names: list[str]) -> bytes:
    """Add the columns whose values Postgres has not sent to the headers of a message."""
    return b'%b,"unchanged":%b}}' % (headers[:-2], msgspec.json.encode(names))


class Row(Struct, frozen=True, gc=False, array_like=True):
    """A message with its stream and its metadata for Spark."""

    stream: str
    offset: str
    value: bytes
    time_us: int | None
    table: str | None
    operation: str
    key: bytes | None


class Captured(Struct, frozen=True):
    """A table that is captured, under the name that its messages have as their type."""

    name: str
    shape: Shape
    partitioned: bool = False


class Event(Struct, frozen=True):
    """The messages of one change. Without messages, it only reports how far everything has been received."""

    order: Order
    rows: list[Row]
    shapes: dict[str, Shape]
    size_bytes: int = 0
