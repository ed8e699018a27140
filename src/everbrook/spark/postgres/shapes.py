"""Shapes: what a table has to have, so that each entity can be a row of it.

A row says of which message it is, in two columns, which keep it from going back. Its primary key says which entity it
is of: by the key alone, or by type and stream too where these are to be told apart.
"""

from msgspec import Struct

from everbrook.spark.given import InvalidOption
from everbrook.spark.postgres import texts
from everbrook.spark.postgres.mapping import Mapping, Place
from everbrook.spark.postgres.paths import KEY, OFFSET, STREAM, TYPE, VALUE, Path
from everbrook.spark.postgres.tables import Table

_ENTITY: tuple[Path, ...] = (STREAM, TYPE, KEY)


class Shape(Struct, frozen=True):
    """What of a table says which entity a row is of, and which message made it."""

    table: Table
    mapping: Mapping
    key: tuple[tuple[str, int], ...]
    """The columns of its key, and which part of an entity each is."""
    stream: str
    offset: str
    value: Place | None
    """The column that has the whole value, without which nothing can be appended to it."""
    entity_type: str | None


def shape_of(table: Table, mapping: Mapping, entity_type: str | None) -> Shape:
    """See whether a table can hold states, or say what is missing."""
    stream, offset = mapping.column_at(STREAM), mapping.column_at(OFFSET)
    if stream is None or offset is None:
        raise InvalidOption(
            "mode='state' needs a column for '@stream' and one for '@offset', which keep a row from going back: "
            f"ALTER TABLE {table.name} ADD COLUMN _stream text, ADD COLUMN _offset text"
        )
    paths = {place.column: place.path for place in mapping.places}
    primary = table.primary
    if primary is None or not all(paths.get(column) in _ENTITY for column in primary.columns):
        raise InvalidOption(
            f"mode='state' needs a primary key of {table.name!r} whose columns are filled from 'key', and from 'type' "
            f"or '@stream' too if these are to be told apart, got {', '.join(primary.columns) if primary else 'none'}"
        )
    key = tuple((column, _ENTITY.index(paths[column])) for column in primary.columns)
    parts = {part for _, part in key}
    if _ENTITY.index(KEY) not in parts or (_ENTITY.index(TYPE) not in parts and entity_type is None):
        raise InvalidOption(
            f"entities of several types would meet in the rows of {table.name!r}: take 'key' and 'type' into its "
            "primary key, or choose one type with entity_type"
        )
    value = next((place for place in mapping.places if place.path == VALUE and place.kind not in texts.ARRAYS), None)
    return Shape(table, mapping, key, stream, offset, value, entity_type)
