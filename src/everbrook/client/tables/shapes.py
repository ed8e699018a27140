"""Shapes: the kinds of values in JSON messages, and the Arrow type that holds all of them unchanged.

A shape only grows: the shape of two pages is the sum of both, in any order. Where no type holds all values unchanged,
they become text: numbers beside strings, integers beyond 64 bits, large integers beside fractions.
"""

from collections.abc import Sequence
from enum import IntFlag
from itertools import chain
from typing import Any

import pyarrow as pa
from msgspec import Struct, field

MAX_FIELDS = 1000
"""An object with more keys counts as a map, not as a record."""
MAX_DEPTH = 32

_LARGEST_EXACT = 2**53
_LARGEST = 2**63 - 1


class ValueKind(IntFlag):
    """The kinds of values of a shape. `null` is not among them: every column may have it."""

    BOOLEAN = 1
    INTEGER = 2
    LARGE = 4
    """An integer that a float can't hold exactly."""
    HUGE = 8
    """An integer of more than 64 bits."""
    FLOAT = 16
    STRING = 32
    LIST = 64
    OBJECT = 128
    UNBOUNDED = 256
    """An object with too many keys, or one nested too deeply."""


_KINDS: dict[type, ValueKind] = {
    type(None): ValueKind(0),
    bool: ValueKind.BOOLEAN,
    int: ValueKind.INTEGER,
    float: ValueKind.FLOAT,
    str: ValueKind.STRING,
    list: ValueKind.LIST,
    dict: ValueKind.OBJECT,
}
_TYPES = {
    ValueKind(0): pa.null(),
    ValueKind.BOOLEAN: pa.bool_(),
    ValueKind.INTEGER: pa.int64(),
    ValueKind.INTEGER | ValueKind.LARGE: pa.int64(),
    ValueKind.FLOAT: pa.float64(),
    ValueKind.FLOAT | ValueKind.INTEGER: pa.float64(),
    ValueKind.STRING: pa.string(),
}
TEXT = pa.string()


class Shape(Struct):
    """The kinds of values; the shapes of the fields of objects, and the shape of the items of lists."""

    kinds: ValueKind = ValueKind(0)
    fields: dict[str, "Shape"] = field(default_factory=dict)
    items: "Shape | None" = None

    @property
    def record(self) -> bool:
        """Whether all values are objects whose fields can be columns."""
        return self.kinds == ValueKind.OBJECT and bool(self.fields)

    @property
    def text(self) -> bool:
        """Whether the values are written as text, although not all of them are strings."""
        plain = self.kinds in _TYPES or self.kinds == ValueKind.LIST or self.record
        return not plain

    @property
    def mixed(self) -> bool:
        """Whether the values, or values within them, are written as text."""
        if self.text:
            return True
        return any(child.mixed for child in self.fields.values()) or (self.items is not None and self.items.mixed)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type that holds all values."""
        if self.record:
            return pa.struct([(name, child.type) for name, child in self.fields.items()])
        if self.kinds == ValueKind.LIST:
            return pa.list_((self.items or Shape()).type)
        return _TYPES.get(self.kinds, TEXT)


def merge(one: Shape, other: Shape) -> Shape:
    """Return the shape of the values of both shapes."""
    fields = dict(one.fields)
    for name, shape in other.fields.items():
        fields[name] = merge(fields[name], shape) if name in fields else shape
    items = merge(one.items, other.items) if one.items and other.items else one.items or other.items
    kinds = one.kinds | other.kinds | (ValueKind.UNBOUNDED if len(fields) > MAX_FIELDS else ValueKind(0))
    return Shape(kinds, fields, items)


def shape_of(values: Sequence[Any], depth: int = 0) -> Shape:
    """Find the shape of decoded JSON values."""
    kinds = ValueKind(0)
    for type_ in set(map(type, values)):
        kinds |= _KINDS[type_]
    if depth == MAX_DEPTH and kinds & (ValueKind.LIST | ValueKind.OBJECT):
        return Shape(kinds | ValueKind.UNBOUNDED)
    if kinds & ValueKind.INTEGER:
        kinds |= _size_of([value for value in values if type(value) is int])
    items = None
    if kinds & ValueKind.LIST:
        items = shape_of(list(chain.from_iterable(value for value in values if type(value) is list)), depth + 1)
    if not kinds & ValueKind.OBJECT:
        return Shape(kinds, items=items)
    objects = [value for value in values if type(value) is dict]
    names = dict.fromkeys(chain.from_iterable(objects))
    if len(names) > MAX_FIELDS:
        return Shape(kinds | ValueKind.UNBOUNDED, items=items)
    fields = {name: shape_of([each[name] for each in objects if name in each], depth + 1) for name in names}
    return Shape(kinds, fields, items)


def _size_of(integers: list[int]) -> ValueKind:
    return size_between(min(integers), max(integers))


def size_between(lowest: int, highest: int) -> ValueKind:
    """Return the size flags of integers with these extremes."""
    magnitude = max(-lowest, highest)
    if lowest < -_LARGEST - 1 or highest > _LARGEST:
        return ValueKind.LARGE | ValueKind.HUGE
    return ValueKind.LARGE if magnitude > _LARGEST_EXACT else ValueKind(0)
