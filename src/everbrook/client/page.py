"""A page: the part of a stream that one response holds, and the offset after it."""

from collections.abc import Mapping
from functools import cached_property
from itertools import accumulate
from typing import Any

from msgspec import Struct

from everbrook.client.content import Codec, Kind, kind_of
from everbrook.client.errors import InvalidMessage, NotAStream
from everbrook.protocol.json_text import split_array

_ANY: Codec[Any] = Codec()
BEGINNING, NOW = "-1", "now"
_EXACT = "bounded-reads"


class Page(Struct, frozen=True, dict=True):
    """The content of a stream from `offset` up to `next_offset`. `up_to_date` and `closed` are true at its end."""

    offset: str
    next_offset: str
    data: bytes
    content_type: str
    up_to_date: bool = False
    closed: bool = False
    cursor: str | None = None
    exact: bool = False
    """Whether offsets count the bytes of the stream, so that the offset of each message is known."""
    codec: Codec[Any] = _ANY
    told_altered: bool = False
    incarnation: str = ""
    """The incarnation of its stream, or an empty string if the server does not return it."""

    @property
    def kind(self) -> Kind:
        """The kind of the stream: JSON, text or binary."""
        return kind_of(self.content_type)

    @property
    def values(self) -> list[Any]:
        """The messages of a JSON stream; of another stream one value, the page as text or as bytes."""
        if self.kind is Kind.JSON:
            return self._messages()
        if not self.data:
            return []
        return [self.text if self.kind is Kind.TEXT else self.data]

    def _messages(self) -> list[Any]:
        try:
            return self.codec.decode_all(self.data)
        except InvalidMessage as error:
            place = len(error.before)
            where = self.offset_after(place) or f"{place} messages after {self.offset}"
            raise InvalidMessage(
                f"the message at offset {where}: {error}", error.before, self.offset_after(place + 1)
            ) from error.__cause__

    @property
    def text(self) -> str:
        """The page as text."""
        return self.data.decode("utf-8", "replace")

    @property
    def empty(self) -> bool:
        """Whether it has no messages."""
        return not self.data or (len(self.data) == len(b"[]") and self.kind is Kind.JSON)

    def offset_after(self, count: int) -> str | None:
        """Return the offset after the first `count` messages of a JSON page; None if it is unknown."""
        if count == 0:
            return self.offset
        return self._ends[count - 1] if count <= len(self._ends) else None

    @cached_property
    def _ends(self) -> list[str]:
        """The offset after each message, counted back from the end of the page; empty if offsets do not count bytes."""
        if not (self.exact and self.kind is Kind.JSON and self.next_offset.isdecimal()):
            return []
        sizes = [len(message) + 1 for message in split_array(self.data)]
        end = int(self.next_offset)
        # Event streams turn CRLF into LF, so the received text may be shorter than the stored one.
        if self.offset.isdecimal() and end - int(self.offset) != sum(sizes):
            return []
        begin = end - sum(sizes)
        return [str(begin + read).zfill(len(self.next_offset)) for read in accumulate(sizes)]

    @property
    def altered(self) -> bool:
        """Whether it certainly differs from the stored bytes: event streams turn CR and CRLF into LF."""
        if self.told_altered:
            return True
        if not (self.exact and self.kind is Kind.TEXT and self.offset.isdecimal() and self.next_offset.isdecimal()):
            return False
        return int(self.next_offset) - int(self.offset) != len(self.data)


def page_of(asked: str, status: int, headers: Mapping[str, str], body: bytes, codec: Codec[Any] = _ANY) -> Page:
    """Read the response to a catch-up read or a long-poll (§5.6, §5.7)."""
    next_offset = headers.get("Stream-Next-Offset")
    if next_offset is None:
        raise NotAStream(
            f"the response to a read has no Stream-Next-Offset (status {status}): is this the URL of a stream?"
        )
    return Page(
        offset=headers.get("Stream-Offset", next_offset if asked == NOW else asked),
        next_offset=next_offset,
        data=body,
        content_type=headers.get("Content-Type", ""),
        up_to_date="Stream-Up-To-Date" in headers,
        closed="Stream-Closed" in headers,
        cursor=headers.get("Stream-Cursor"),
        exact=is_exact(headers),
        codec=codec,
        incarnation=headers.get("Stream-Incarnation", ""),
    )


def is_exact(headers: Mapping[str, str]) -> bool:
    """Return whether a server's offsets count the bytes of the stream."""
    return _EXACT in headers.get("Stream-Extensions", "")
