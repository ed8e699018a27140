"""Columns of a table: the place of each message, and its fields.

A field has the column of its name. A field with the name of one of the table's own columns, or such a name and
underscores, gets one underscore more, so that the name of the field follows from that of the column. A name that no
table can have, or that differs from another only in its case, has no column: such fields are kept in `_rescued`.
"""

import re
from collections.abc import Iterable, Sequence

import pyarrow as pa
from msgspec import Struct

GROUP, DATE = "stream_group", "date"
STREAM, OFFSET, NEXT_OFFSET, APPENDED_AT = "stream", "offset", "next_offset", "appended_at"
INCARNATION = "stream_incarnation"
RESCUED = "_rescued"
PARTITION = (GROUP, DATE)
_PLACE = (STREAM, OFFSET, NEXT_OFFSET)
_OWN = {*PARTITION, *_PLACE, APPENDED_AT, INCARNATION, RESCUED}
_TAKEN = re.compile(rf"(?:{'|'.join(sorted(_OWN))})_*", re.IGNORECASE)
_IMPOSSIBLE = re.compile(r"[ ,;{}()\n\t=\x00]")
_LONGEST = 200
_KIND = b"everbrook.kind"

_OF_STREAM = {_KIND: b"incarnation"}

JSON, ANY = "json", "any"
"""Kinds of text columns: JSON of any value; and the STRING of a schema, which takes any value as text."""


class Column(Struct, frozen=True):
    """A column of a field."""

    name: str
    type: pa.DataType
    kind: str = ""

    @property
    def field(self) -> str:
        """The field whose values it has."""
        return self.name[:-1] if self.name.endswith("_") and _TAKEN.fullmatch(self.name) else self.name

    def arrow(self) -> pa.Field:
        """Return the field of Arrow, with the kind as metadata."""
        return pa.field(self.name, self.type, metadata={_KIND: self.kind} if self.kind else None)


Columns = tuple[Column, ...]


def own_fields() -> list[pa.Field]:
    """Return the columns that every table has, without those of its partitions."""
    return [
        *(pa.field(name, pa.string()) for name in _PLACE),
        pa.field(APPENDED_AT, pa.timestamp("us", "UTC")),
        pa.field(INCARNATION, pa.string(), metadata=_OF_STREAM),
    ]


def partition_fields() -> list[pa.Field]:
    return [pa.field(GROUP, pa.string()), pa.field(DATE, pa.date32())]


def file_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([*own_fields(), *(column.arrow() for column in columns)])


def table_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([*partition_fields(), *file_schema(columns)])


def columns_in(schema: pa.Schema) -> Columns:
    """Find the columns of fields in the schema of a table."""
    own = {field.name for field in (*partition_fields(), *own_fields())}
    own -= {INCARNATION} if lacks_incarnations(schema) else set()
    return tuple(
        Column(field.name, field.type, (field.metadata or {}).get(_KIND, b"").decode())
        for field in schema
        if field.name not in own
    )


def lacks_incarnations(schema: pa.Schema) -> bool:
    """Return whether a table is of an earlier version. Its column of that name, if it has one, is that of a field."""
    return INCARNATION not in schema.names or (schema.field(INCARNATION).metadata or {}).get(_KIND) != _OF_STREAM[_KIND]


def rescued_column() -> Column:
    """Return the column for values that fit in no other."""
    return Column(RESCUED, pa.string(), JSON)


def column_name(field: str) -> str | None:
    """Name the column of a field. None if no table can have it."""
    if not field or len(field) > _LONGEST or _IMPOSSIBLE.search(field):
        return None
    return f"{field}_" if _TAKEN.fullmatch(field) else field


def is_own(name: str) -> bool:
    """Return whether every table has a column of this name."""
    return name.lower() in _OWN


def settle(known: Columns, found: Sequence[Columns], most: int) -> Columns:
    """Merge columns that several tasks found. Where they disagree, the type is JSON, or DOUBLE for numbers."""
    settled = {column.name: column for column in known}
    lower = {name.lower() for name in settled}
    for column in (column for columns in found for column in columns if column.name not in {c.name for c in known}):
        before = settled.get(column.name)
        if before is not None:
            settled[column.name] = agreed(before, column)
        elif column.name.lower() not in lower and len(settled) < most:
            settled[column.name] = column
            lower.add(column.name.lower())
    return tuple(settled.values())


def agreed(one: Column, other: Column) -> Column:
    """Return the column that takes the values of both."""
    if one == other:
        return one
    if {one.type, other.type} == {pa.int64(), pa.float64()}:
        return Column(one.name, pa.float64())
    return Column(one.name, pa.string(), JSON)
