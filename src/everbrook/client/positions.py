"""Positions in a stream that a reader of single messages can come back with, whichever server holds the stream.

An offset stands between pages, and only some servers let it stand between messages. So a position is an offset and how
many messages behind it are done with: `0000000000000042`, or `0000000000000042~3` in the middle of a page. Behind the
end of a closed stream it is `0000000000000042~end`: who comes back with that has heard that nothing more will come.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from everbrook.client.content import Kind
from everbrook.client.page import Page
from everbrook.protocol.errors import InvalidOffset
from everbrook.protocol.json_text import split_array
from everbrook.protocol.sse import encode_base64

_POSITION = re.compile(r"([^~,/\s]{1,256})(?:~(\d{1,9}|end))?")
_END = "end"


class Position(Struct, frozen=True):
    """Behind an offset, and behind so many messages that follow it, or behind the end."""

    offset: str = "-1"
    passed: int = 0
    ended: bool = False

    def __str__(self) -> str:
        """Write it as `parse_position` reads it."""
        behind = _END if self.ended else self.passed
        return f"{self.offset}~{behind}" if behind else self.offset


def parse_position(text: str) -> Position:
    """Read a position, as a reader sent it back."""
    found = _POSITION.fullmatch(text)
    if found is None:
        raise InvalidOffset(f"a position is an offset, which '~' and a number of messages may follow, got {text!r:.80}")
    ended = found[2] == _END
    return Position(found[1], 0 if ended else int(found[2] or 0), ended)


def messages_of(page: Page) -> list[bytes]:
    """Give the messages of a JSON page byte for byte; of another, its one piece, as an event can carry it."""
    if not page.data:
        return []
    if page.kind is Kind.JSON:
        return [bytes(message) for message in split_array(page.data)]
    return [page.data if page.kind is Kind.TEXT else encode_base64(page.data)]


class Resumed:
    """Leaves out what a reader has had already, and says of each message where to come back to behind it."""

    def __init__(self, position: Position) -> None:
        self.position = position
        self._to_pass = position.passed

    def take(self, page: Page) -> Iterator[tuple[Position, bytes]]:
        """Give what is new in the next page."""
        messages = messages_of(page)
        for count, message in enumerate(messages, 1):
            last = count == len(messages)
            self.position = Position(page.next_offset) if last else Position(page.offset, count)
            if self._to_pass:
                self._to_pass -= 1
            else:
                yield self.position, message
