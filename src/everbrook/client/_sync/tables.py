# Written by tools/mirror.py from src/everbrook/client/_async/tables.py: change that file, not this one.
"""The way from a stream to a table of it."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from everbrook.client.content import kind_of
from everbrook.client.page import BEGINNING

if TYPE_CHECKING:
    from everbrook.client._sync.stream import Stream
    from everbrook.client.tables.forms import Columns
    from everbrook.client.tables.pieces import Piece
    from everbrook.client.tables.table import Table

_FRAMES = "frames"


def table_of(stream: "Stream[Any]", offset: str, until: str | None, columns: "Columns | None", *, raw: bool) -> "Table":
    """Make a table of a range of a stream."""
    try:
        from everbrook.client.tables.forms import form_of  # noqa: PLC0415 - pyarrow, only for those who use it
        from everbrook.client.tables.table import Table  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install 'everbrook[frames]'", name=error.name) from error
    head = stream.head()
    if offset == BEGINNING and head.earliest_offset is not None:
        offset = head.earliest_offset  # what was before it is dropped, and nobody named it
    form = form_of(kind_of(head.content_type), columns, raw=raw)
    if _FRAMES in head.extensions:
        pieces = partial(_framed, stream, head.offset if until is None else until)
        return Table(stream.name, form, pieces, offset)
    pieces = partial(_paged, stream, until)
    held = list(pieces(offset))
    return Table(stream.name, form, lambda _offset: held, offset, float("inf"))


def _framed(stream: "Stream[Any]", until: str, offset: str) -> "Iterator[Piece]":
    from everbrook.client.tables.pieces import Piece  # noqa: PLC0415

    for frames in stream.frames(offset, until=until):
        yield Piece(frames=frames)


def _paged(stream: "Stream[Any]", until: str | None, offset: str) -> "Iterator[Piece]":
    """Read a server that does not know frames."""
    from everbrook.client.tables.pieces import pieces_of  # noqa: PLC0415

    for page in stream.read(offset, until=until).pages():
        yield from pieces_of(page)
