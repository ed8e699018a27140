"""The way from a stream to a table of it."""

from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from everbrook.client.content import kind_of
from everbrook.client.page import BEGINNING

if TYPE_CHECKING:
    from everbrook.client._async.stream import AsyncStream
    from everbrook.client.tables.forms import Columns
    from everbrook.client.tables.pieces import Piece
    from everbrook.client.tables.table import Table

_FRAMES = "frames"


async def table_of(
    stream: "AsyncStream[Any]", offset: str, until: str | None, columns: "Columns | None", *, raw: bool
) -> "Table":
    """Make a table of a range of a stream."""
    try:
        from everbrook.client.tables.forms import form_of  # noqa: PLC0415 - pyarrow, only for those who use it
        from everbrook.client.tables.table import Table  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("tables need pyarrow: pip install 'everbrook[frames]'", name=error.name) from error
    head = await stream.head()
    if offset == BEGINNING and head.earliest_offset is not None:
        offset = head.earliest_offset  # what was before it is dropped, and nobody named it
    form = form_of(kind_of(head.content_type), columns, raw=raw)
    if _FRAMES in head.extensions:
        pieces = partial(_framed, stream, head.offset if until is None else until)
        # sync only: return Table(stream.name, form, pieces, offset)
    else:
        pieces = partial(_paged, stream, until)
    held = [piece async for piece in pieces(offset)]
    return Table(stream.name, form, lambda _offset: held, offset, float("inf"))


async def _framed(stream: "AsyncStream[Any]", until: str, offset: str) -> "AsyncIterator[Piece]":
    from everbrook.client.tables.pieces import Piece  # noqa: PLC0415

    async for frames in stream.frames(offset, until=until):
        yield Piece(frames=frames)


async def _paged(stream: "AsyncStream[Any]", until: str | None, offset: str) -> "AsyncIterator[Piece]":
    """Read a server that does not know frames."""
    from everbrook.client.tables.pieces import pieces_of  # noqa: PLC0415

    async for page in stream.read(offset, until=until).pages():
        for piece in pieces_of(page):
            yield piece
