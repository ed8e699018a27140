"""The shape of a table in mid-stream: which of its columns are the key, when columns are added, dropped or renamed.

Changes tell the columns as they were at the time, and not which of them are the key; the catalogue tells the key, as it
is now. A column keeps its number there when it is renamed. A key of other columns is refused: the messages before it
would have keys that nobody removes.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from everbrook.spark.capture.errors import START_OVER, CaptureRefused
from everbrook.spark.capture.pgoutput import Column, Relation
from everbrook.spark.capture.positions import Shape
from everbrook.spark.capture.rendering import Types

_WRITTEN_ALIKE = ((20, 21, 23), (25, 1043))
"""The types int8, int2 and int4; text and varchar."""


class Inspector(Protocol):
    """What looks into the catalogue."""

    def key_of(self, relation_id: int) -> Mapping[int, str] | None:
        """Give the primary key of a table by the numbers of its columns. None if there is no such table any more."""
        ...

    def types_of(self, shape: Shape) -> Types:
        """Give how values of the columns are written."""
        ...

    def describe(self, shape: Shape) -> list[dict[str, Any]]:
        """Give the columns for people and programs: their names and types."""
        ...


def shape_of(table: str, relation: Relation, before: Shape, inspector: Inspector) -> Shape:
    """Decide which columns are the key of a table that has these columns."""
    if relation.columns == before.columns and not before.attributes:
        return before
    now = inspector.key_of(relation.id) if before.attributes else None
    if now is not None and tuple(now) != before.attributes:
        raise CaptureRefused(
            f"the primary key of {table} was {_listed(before.key)}, and is {_listed(tuple(now.values()))} now: its "
            f"messages would have other keys than before. {START_OVER}"
        )
    names = {column.name for column in relation.columns}
    for key in (before.key, tuple(now.values()) if now else ()):
        if key and names.issuperset(key):
            _require_same_texts(table, before, relation, key)
            return Shape(relation.columns, key, before.attributes)
    raise CaptureRefused(
        f"the key of {table} was {_listed(before.key)}, and its columns are {_listed(tuple(names))} now. {START_OVER}"
    )


def _require_same_texts(table: str, before: Shape, relation: Relation, key: tuple[str, ...]) -> None:
    """Refuse another type of a key, whose values are other texts than before."""
    old = {column.name: column for column in before.columns}
    new = {column.name: column for column in relation.columns}
    for was, is_now in zip(before.key, key, strict=True):
        if _written(old[was]) != _written(new[is_now]):
            raise CaptureRefused(
                f"the column {is_now!r} of the key of {table} has another type than before: its messages would have "
                f"other keys. {START_OVER}"
            )


def _written(column: Column) -> tuple[int, int]:
    """Give what the text of a value depends on. Integers are written alike, and texts, however long they may be."""
    alike = next((kind for kind in _WRITTEN_ALIKE if column.type_oid in kind), None)
    return (alike[0], -1) if alike else (column.type_oid, column.modifier)


def _listed(names: tuple[str, ...]) -> str:
    return f"({', '.join(names)})"
