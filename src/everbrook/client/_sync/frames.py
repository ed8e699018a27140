# Written by tools/mirror.py from src/everbrook/client/_async/frames.py: change that file, not this one.
"""Frames of a stream, and tables of them.

Frames are pages of messages with the offset and the time of each. If the server lacks them, a table reads plain pages.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from everbrook.client._sync import parts
from everbrook.client._sync.transport import Transport
from everbrook.client.content import kind_of
from everbrook.client.errors import StreamRewound, Unsupported
from everbrook.client.page import BEGINNING
from everbrook.client.parameters import begin_query
from everbrook.client.refusals import header_of
from everbrook.protocol.errors import IncarnationMismatch
from everbrook.protocol.frames import CONTENT_TYPE, Frames, decode_frames

if TYPE_CHECKING:
    from everbrook.client._sync.stream import Stream
    from everbrook.client.tables.forms import Columns
    from everbrook.client.tables.table import Table
    from everbrook.client.tables.table_page import TablePage


def read_frames(
    transport: Transport, url: str, offset: str, start: Mapping[str, str], until: str | None, incarnation: str
) -> Iterator[Frames]:
    """Read the stored messages of one incarnation of a stream, page by page; by default that of the first page."""
    bounds = {"format": "frames"} | ({} if until is None else {"until": until})
    query = begin_query(offset, start)
    while True:
        headers = {"Stream-Incarnation": incarnation} if incarnation else {}
        try:
            response = transport.request("GET", url, query=bounds | query, headers=headers)
        except IncarnationMismatch as other:
            raise _replaced(offset, incarnation, header_of(other, "Stream-Incarnation")) from other
        current = response.headers.get("Stream-Incarnation", incarnation)
        if incarnation and current != incarnation:
            raise _replaced(offset, incarnation, current)
        incarnation = current
        if response.headers.get("Content-Type", "") != CONTENT_TYPE.decode():
            raise Unsupported("the server does not have the extension frames")
        page = decode_frames(response.content)
        if len(page):
            yield page
        offset = response.headers["Stream-Next-Offset"]
        if "Stream-Up-To-Date" in response.headers or offset == until:
            return
        query = {"offset": offset}


def _replaced(offset: str, incarnation: str, current: str | None) -> StreamRewound:
    return StreamRewound(
        f"the stream, which is read from offset {offset} on, had incarnation {incarnation} and has {current} now: "
        "it was created again"
    )


_FRAMES = "frames"


def table_of(stream: "Stream[Any]", offset: str, until: str | None, columns: "Columns | None", *, raw: bool) -> "Table":
    """Make a table of a range of a stream."""
    head = stream.head()
    if offset == BEGINNING and head.earliest_offset is not None:
        offset = head.earliest_offset  # the default beginning may be cut: only an explicit offset is refused for that
    form = parts.form_of(kind_of(head.content_type), columns, raw=raw)
    if _FRAMES in head.extensions:
        read_pages = partial(_framed, stream, head.offset if until is None else until)
        return parts.Table(stream.name, form, read_pages, offset)
    read_pages = partial(_paged, stream, until)
    held = list(read_pages(offset))
    return parts.Table(stream.name, form, lambda _offset: held, offset, float("inf"))


def _framed(stream: "Stream[Any]", until: str, offset: str) -> "Iterator[TablePage]":
    for frames in stream.frames(offset, until=until):
        yield parts.TablePage(frames=frames)


def _paged(stream: "Stream[Any]", until: str | None, offset: str) -> "Iterator[TablePage]":
    """Read a server that does not know frames."""
    for page in stream.read(offset, until=until).pages():
        yield from parts.table_pages_of(page)
