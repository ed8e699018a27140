"""Extraction: finds fields in many JSON messages, and keeps their text as it is.

Messages are decoded into structs that have only the wanted fields, so that the rest is skipped without being built.
Each field becomes a column of JSON text. A field that is missing, or below something that is no object, is null.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct, defstruct

from everbrook.spark.postgres.copy_text import column_of

Names = tuple[str, ...]
Tree = dict[str, "Tree"]

_NULL = "null"
_object = msgspec.json.Decoder(dict[str, Raw])


class Extracted(Struct, frozen=True):
    """The fields of messages, by their names, and the errors of messages that are no JSON, by their places."""

    fields: dict[Names, pa.Array]
    invalid: dict[int, str]


class Extraction:
    """Finds the wanted fields."""

    def __init__(self, wanted: Iterable[Names]) -> None:
        """Take the names of fields. Without any, it only finds messages that are no JSON."""
        self._layers = [_Layer(group) for group in _apart(sorted(set(wanted)))] or [_Layer([])]

    def read(self, payloads: Sequence[bytes]) -> Extracted:
        invalid: dict[int, str] = {}
        fields: dict[Names, pa.Array] = {}
        for layer in self._layers:
            fields |= layer.read(payloads, invalid)
        return Extracted(fields, invalid)


def _apart(wanted: list[Names]) -> list[list[Names]]:
    """Divide fields into groups, so that none lies within another of its group: a field is read whole, or decoded."""
    groups: list[list[Names]] = []
    for names in wanted:
        free = (group for group in groups if not any(_within(names, other) for other in group))
        group = next(free, None)
        if group is None:
            groups.append([names])
        else:
            group.append(names)
    return groups


def _within(one: Names, other: Names) -> bool:
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


class _Layer:
    """Fields that are found by decoding each message once."""

    def __init__(self, wanted: list[Names]) -> None:
        tree: Tree = {}
        for names in wanted:
            place = tree
            for name in names:
                place = place.setdefault(name, {})
        self._decoder = msgspec.json.Decoder(_struct(tree))
        self._steps = {names: _steps(tree, names) for names in wanted}

    def read(self, payloads: Sequence[bytes], invalid: dict[int, str]) -> dict[Names, pa.Array]:
        decode = self._decoder.decode
        try:
            rows: list[Any] = [decode(payload) for payload in payloads]
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return self._read_slowly(payloads, invalid)
        return {names: _column(rows, steps) for names, steps in self._steps.items()}

    def _read_slowly(self, payloads: Sequence[bytes], invalid: dict[int, str]) -> dict[Names, pa.Array]:
        """Read messages one by one, because some are no JSON, or have another value where an object was expected."""
        found: dict[Names, list[bytes | None]] = {names: [] for names in self._steps}
        for place, payload in enumerate(payloads):
            try:
                msgspec.json.decode(payload, type=Raw)
                walked = [_walk(payload, names) for names in found]
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                invalid[place] = f"is no JSON: {error}"
                walked = [None] * len(found)
            for column, value in zip(found.values(), walked, strict=True):
                column.append(value)
        return {names: _without_null(column_of(column)) for names, column in found.items()}


def _struct(tree: Tree) -> type[Struct]:
    """Make the struct of some fields. It numbers them, because their names need not be identifiers."""
    numbered = [
        (f"f{number}", name, _struct(below) if below else None) for number, (name, below) in enumerate(tree.items())
    ]
    fields = [(field, Raw, None) if below is None else (field, below | None, None) for field, _, below in numbered]
    return defstruct("Fields", fields, rename={field: name for field, name, _ in numbered})


def _steps(tree: Tree, names: Names) -> tuple[str, ...]:
    steps = []
    for name in names:
        steps.append(f"f{list(tree).index(name)}")
        tree = tree[name]
    return tuple(steps)


def _column(rows: list[Any], steps: tuple[str, ...]) -> pa.Array:
    for step in steps:
        get = attrgetter(step)
        rows = [None if row is None else get(row) for row in rows] if None in rows else list(map(get, rows))
    return _without_null(column_of(rows))


def _without_null(column: pa.Array) -> pa.Array:
    nulls = pc.equal(column, _NULL)
    return pc.if_else(nulls, None, column) if pc.any(nulls).as_py() else column


def _walk(payload: bytes, names: Names) -> bytes | None:
    raw: bytes | Raw | None = payload
    for name in names:
        try:
            raw = _object.decode(raw).get(name) if raw is not None else None
        except msgspec.MsgspecError:
            return None
    return None if raw is None else bytes(raw)
