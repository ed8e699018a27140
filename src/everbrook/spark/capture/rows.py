"""Rows as messages of the State protocol: the key, the value and the headers of one table of one shape.

What is the same for all rows of a table or of a transaction is written once; a row adds the rest. Keys are texts, as
in the value. A key of several columns is the text of a JSON array of them. A key that is an empty text, or begins with
a quotation mark, is written as JSON: so no two keys are the same, and none is empty.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from everbrook.spark.capture.errors import CaptureRefused
from everbrook.spark.capture.pgoutput import UNCHANGED, Tuple
from everbrook.spark.capture.positions import Shape, format_lsn
from everbrook.spark.capture.rendering import Render, Types, render_text

SCHEMA: Final = "postgres.schema"
"""The type of the messages that tell the columns of a table."""

_EPOCH_OF_POSTGRES = datetime(2000, 1, 1, tzinfo=UTC)
_EPOCH_OF_POSTGRES_US = int(_EPOCH_OF_POSTGRES.timestamp()) * 1_000_000
_QUOTE = ord('"')


class Headers:
    """The headers of all messages of a transaction, by operation. Those of the initial copy have `snapshot`."""

    def __init__(self, lsn: int, xid: int | None = None, committed_at_us: int | None = None) -> None:
        told: dict[str, object] = {"lsn": format_lsn(lsn)}
        if xid is not None and committed_at_us is not None:
            told = {"txid": str(xid), "timestamp": _format_time(committed_at_us)} | told
        else:
            told["snapshot"] = True
        self.time_us = None if committed_at_us is None else committed_at_us + _EPOCH_OF_POSTGRES_US
        self.insert, self.update, self.delete, self.upsert = (
            b',"headers":%b}' % msgspec.json.encode({"operation": operation} | told)
            for operation in ("insert", "update", "delete", "upsert")
        )
        self.reset = msgspec.json.encode({"headers": {"control": "reset"} | told})


def _format_time(committed_at_us: int) -> str:
    moment = _EPOCH_OF_POSTGRES + timedelta(microseconds=committed_at_us)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


class RowWriter:
    """Writes the rows of a table as long as it has one shape."""

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
        """Write a row as a JSON object without the columns that an update has not sent."""
        written = [
            name[1:] + (b"null" if value is None else render(value))
            for (name, render), value in zip(self._fields, values, strict=True)
            if value is not UNCHANGED
        ]
        return b"{%b}" % b",".join(written)

    def set(self, key: bytes, value: bytes, headers: bytes) -> bytes:
        """Write a message that sets a row."""
        return b'%b%b,"value":%b%b' % (self._prefix, key, value, headers)

    def set_over(self, key: bytes, value: bytes, old: bytes, headers: bytes) -> bytes:
        """Write a message that sets a row, and tells what it was."""
        return b'%b%b,"value":%b,"old_value":%b%b' % (self._prefix, key, value, old, headers)

    def remove(self, key: bytes, old: bytes | None, headers: bytes) -> bytes:
        """Write a message that removes a row, and tells what it was if that is known."""
        told = b"" if old is None else b',"old_value":%b' % old
        return b"%b%b%b%b" % (self._prefix, key, told, headers)


def _single_key(rendered: bytes) -> bytes:
    """Write a value as a key: the text it is in JSON, or a text of it."""
    if rendered[0] != _QUOTE or rendered == b'""' or rendered.startswith(b'"\\"'):
        return render_text(rendered)
    return rendered


def unchanged_header(headers: bytes, names: list[str]) -> bytes:
    """Add the columns that an update has not sent to the headers of its message."""
    return b'%b,"unchanged":%b}}' % (headers[:-2], msgspec.json.encode(names))


class Row(Struct, frozen=True, gc=False, array_like=True):
    """A message with the stream that it goes to, and what Spark is told beside it."""

    stream: str
    offset: str
    value: bytes
    time_us: int | None
    table: str | None
    operation: str
    key: bytes | None
