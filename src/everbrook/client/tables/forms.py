"""Forms: the columns of a table, and their construction from messages.

Raw:       offset, next_offset, time, value: each message unchanged, of any stream
Typed:     _offset, _time, and the requested fields in the requested types
Inferred:  _offset, _time, and every field of the messages, in a type that holds each of its values
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self

import pyarrow as pa

from everbrook.client.content import Kind
from everbrook.client.tables.json_columns import build, conform, decode, parse, read_columns
from everbrook.client.tables.shapes import MAX_FIELDS, Shape, merge, shape_of
from everbrook.client.tables.table_page import OFFSET, TIME, TablePage

Columns = Sequence[str] | Mapping[str, Any]
"""Names of columns, or names with types: a `pyarrow.Schema`, or a mapping to types or names of types."""

_PLACE = [pa.field("_offset", OFFSET), pa.field("_time", TIME)]
_TAKEN = {field.name for field in _PLACE}
VALUE = "value"
"""The one column of messages that are not all objects."""


class ColumnMismatch(ValueError):
    """A message has a value that the requested type can't hold."""


class Form(Protocol):
    """Converts pages to record batches. If it `surveys`, it must see all pages before it knows its columns."""

    surveys: bool

    @property
    def schema(self) -> pa.Schema: ...
    def survey(self, page: TablePage) -> pa.Array | None: ...
    def batch(self, page: TablePage, parsed: pa.Array | None = None) -> pa.RecordBatch: ...
    def alone(self) -> "Form":
        """Return a new form, for the columns of a part of the messages."""


def form_of(kind: Kind, columns: Columns | None, *, raw: bool) -> Form:
    """Choose the form of a table of a stream."""
    if raw or kind is not Kind.JSON:
        if columns is not None:
            raise ValueError("`columns` is for JSON streams without `raw`: leave out `columns`, or `raw`")
        return Raw(kind)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, or names with types, got {columns!r}")
    if columns is None:
        return Inferred()
    if isinstance(columns, pa.Schema):
        return Typed(pa.schema(_once(columns.names) and list(columns)))
    if isinstance(columns, Mapping):
        return Typed(pa.schema([_field(name, type_) for name, type_ in columns.items()]))
    if len(columns) > MAX_FIELDS:
        raise ValueError(f"more than {MAX_FIELDS} columns need their types, got {len(columns)} names")
    return Inferred(_once(columns))


def _once(names: Sequence[str]) -> list[str]:
    """Refuse a name that occurs twice."""
    twice = next((name for name, times in Counter(names).items() if times > 1), None)
    if twice is not None:
        raise ValueError(f"columns must name each column once, got {twice!r} twice")
    return list(names)


def _field(name: str, type_: Any) -> pa.Field:
    try:
        return pa.field(name, pa.type_for_alias(type_) if isinstance(type_, str) else type_)
    except (ValueError, TypeError) as error:
        raise ValueError(f"column {name!r} must have a type of pyarrow, or its name, got {type_!r}") from error


class _Fixed:
    """A form whose columns are known before the first message."""

    surveys = False
    schema: pa.Schema

    def survey(self, page: TablePage) -> pa.Array | None:
        raise NotImplementedError

    def batch(self, page: TablePage, parsed: pa.Array | None = None) -> pa.RecordBatch:
        del parsed  # no survey has parsed anything
        return pa.RecordBatch.from_arrays(self._arrays(page), schema=self.schema)

    def _arrays(self, page: TablePage) -> list[pa.Array]:
        raise NotImplementedError

    def alone(self) -> Self:
        return self


class Raw(_Fixed):
    """Messages unchanged: text, or bytes if the stream is binary."""

    def __init__(self, kind: Kind) -> None:
        self._value = pa.binary() if kind is Kind.BINARY else pa.string()
        self.schema = pa.schema([("offset", OFFSET), ("next_offset", OFFSET), ("time", TIME), (VALUE, self._value)])

    def _arrays(self, page: TablePage) -> list[pa.Array]:
        return [page.offsets(), page.next_offsets(), page.times(), page.values(self._value)]


class Typed(_Fixed):
    """Fields in types of the user's choice."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self.schema = _placed(list(columns))

    def _arrays(self, page: TablePage) -> list[pa.Array]:
        try:
            found = read_columns(page.messages, self._columns).flatten()
        except pa.ArrowInvalid:
            values = decode(page.messages)
            found = [_column(values, field, page) for field in self._columns]
        return [page.offsets(), page.times(), *found]


def _column(values: list[Any], field: pa.Field, page: TablePage) -> pa.Array:
    """Convert one column value by value, and name the first message that does not fit."""
    picked = [value.get(field.name) if isinstance(value, dict) else None for value in values]
    try:
        return _cast(picked, field.type)
    except (pa.ArrowException, OverflowError):
        place = next(place for place, value in enumerate(picked) if not _fits(value, field.type))
        where = f" at offset {page.offsets()[place]}" if page.exact else ""
        raise ColumnMismatch(
            f"column {field.name!r} must be {field.type}, but the message{where} has {picked[place]!r:.80}"
        ) from None


def _cast(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_nested(type_):
        return pa.array(values, type_)
    shape = shape_of(values)
    return build(values, shape).cast(type_)


def _fits(value: object, type_: pa.DataType) -> bool:
    try:
        _cast([value], type_)
    except (pa.ArrowException, OverflowError):
        return False
    return True


class Inferred:
    """All fields of the messages, or some of them, in inferred types."""

    surveys = True

    def __init__(self, names: Sequence[str] | None = None) -> None:
        self._names = names
        self._shape = Shape()
        self._seen = False
        self._picks = False
        """Whether the requested fields are picked value by value, because not all messages can be read as records."""

    def alone(self) -> "Inferred":
        return Inferred(self._names)

    def survey(self, page: TablePage) -> pa.Array | None:
        """Add the shape of a page. If this returns an array, passing it to `batch` saves parsing the page again."""
        self._seen = True
        array, shape = parse(page.messages, self._shape)
        if self._names is not None and not shape.record:
            self._picks = True
            before = {name: child for name, child in self._shape.fields.items() if name in self._names}
            array = None
            shape = merge(Shape(self._shape.kinds, before), shape_of(_picked(page, self._names)))
        self._shape = shape
        return array

    @property
    def _fields(self) -> list[pa.Field]:
        if self._names is None and not self._shape.record:
            return [pa.field(VALUE, self._shape.type)] if self._seen else []
        fields = {field.name: field for field in self._shape.type} if self._shape.record else {}
        names = fields if self._names is None else self._names
        return [fields.get(name, pa.field(name, pa.null())) for name in names]

    @property
    def schema(self) -> pa.Schema:
        return _placed(self._fields)

    def batch(self, page: TablePage, parsed: pa.Array | None = None) -> pa.RecordBatch:
        if self._picks and self._names is not None and parsed is None:
            array = build(_picked(page, self._names), self._shape)
        else:
            array = conform(parsed, page.messages, self._shape)
        return _batch(page, self._found(array), self.schema)

    def _found(self, array: pa.Array) -> list[pa.Array]:
        if self._names is None and not self._shape.record:
            return [array]
        # pyarrow miscounts a column without any value where a row itself is null.
        columns = {
            name: column
            for name, column in zip(self._shape.fields, array.flatten() if self._shape.record else [], strict=False)
            if not pa.types.is_null(column.type)
        }
        names = list(self._shape.fields) if self._names is None else self._names
        return [columns[name] if name in columns else pa.nulls(len(array)) for name in names]


def _picked(page: TablePage, names: Sequence[str]) -> list[dict[str, Any] | None]:
    """Decode messages, and pick the named fields of each. The result is None for a message without any of them."""
    return [
        {name: value[name] for name in names if name in value} or None if isinstance(value, dict) else None
        for value in decode(page.messages)
    ]


def _placed(fields: list[pa.Field]) -> pa.Schema:
    """Put the columns after `_offset` and `_time`. A field with one of these names is renamed."""
    taken = _TAKEN | {field.name for field in fields}
    return pa.schema(
        [*_PLACE, *(field.with_name(_free(field.name, taken)) if field.name in _TAKEN else field for field in fields)]
    )


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _batch(page: TablePage, found: list[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([page.offsets(), page.times(), *found], schema=schema)
