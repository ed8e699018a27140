"""Values of Postgres as JSON, from their text to JSON text, without a number or a time in between that could differ.

Numbers keep all their digits, whatever their size; what JSON has no number for (NaN, infinities) is text. Times are
those of ISO 8601, and of UTC where they have a date and a zone. `json` is what it says, arrays are arrays, bytes are
base64. All else (uuid, enumerations, ranges, addresses, composites, times of a day …) is the text that Postgres writes
for it.

The text must have been written under the settings of `SESSION`.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec import Raw

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


class InvalidArray(ValueError):
    """Text is no array of Postgres."""


def render_text(text: bytes) -> bytes:
    """Write a JSON string."""
    return b'"%b"' % text if _SPECIAL(text) is None else _encode(text.decode())


def render_number(text: bytes) -> bytes:
    """Write a JSON number with the digits that there are."""
    return text if _NUMBER(text) else b'"%b"' % text


def _as_it_is(text: bytes) -> bytes:
    return text


def _boolean(text: bytes) -> bytes:
    return b"true" if text == b"t" else b"false"


def _time_of_utc(text: bytes) -> bytes:
    """Write a time with a zone, which is UTC. Times before Christ, and beyond all times, stay Postgres' text."""
    if text.endswith(b"+00"):
        return b'"%bZ"' % text[:-3].replace(b" ", b"T")
    return b'"%b"' % text


def _local_time(text: bytes) -> bytes:
    return b'"%b"' % (text if text.endswith(b" BC") else text.replace(b" ", b"T"))


def _plain(text: bytes) -> bytes:
    """Write text of a type that never needs an escape."""
    return b'"%b"' % text


def _json(text: bytes) -> bytes:
    """Write JSON inline. What other readers would refuse (half a surrogate pair, very deep nesting) is text."""
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

    def tell(self, bases: Mapping[int, int], elements: Mapping[int, int]) -> None:
        """Add domains by what they are of, and arrays by what is in them."""
        self._bases.update(bases)
        self._elements.update(elements)

    def render(self, oid: int) -> Render:
        """Give what writes values of a type."""
        while oid in self._bases:
            oid = self._bases[oid]
        if oid in self._elements:
            element = self.render(self._elements[oid])
            return lambda text: render_array(text, element)
        return BUILT_IN.get(oid, render_text)


def render_array(text: bytes, element: Render) -> bytes:
    """Write an array, with all its dimensions. Where it begins to count is lost."""
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
