"""Messages as the server would store them, in table_pages as it would give them."""

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

from everbrook.client.tables.table_page import TablePage
from everbrook.protocol import Frames

FIRST_TIME = 1_700_000_000_000


def joined(values: Iterable[Any]) -> bytes:
    """Messages with commas between them."""
    return ",".join(json.dumps(value, ensure_ascii=False) for value in values).encode()


def table_page(messages: Sequence[bytes], first: int = 0, trailer: bytes = b",") -> TablePage:
    """A page of frames."""
    ends = accumulate((len(message) + len(trailer) for message in messages), initial=first)
    times = array("Q", range(FIRST_TIME, FIRST_TIME + len(messages)))
    data = b"".join(message + trailer for message in messages)
    return TablePage(frames=Frames(first, len(trailer), array("Q", list(ends)[1:]), times, data))


def table_pages(values: Sequence[Any], size: int) -> Callable[[str], list[TablePage]]:
    """A stream of JSON in pages of so many messages, to be read from an offset."""
    pages: list[TablePage] = []
    for place in range(0, len(values), size):
        first = pages[-1].frames.ends[-1] if pages else 0
        pages.append(table_page([joined([value]) for value in values[place : place + size]], first))
    return lambda offset: [page for page in pages if page.frames.first >= int(offset)]
