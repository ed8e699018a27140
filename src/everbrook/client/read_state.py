"""The state of a read: it decides what to request next, and moves with each response.

The rule: the position moves only when a page is complete, so that a broken connection loses and repeats no message.
Data from SSE is a page only when its control event has given the offset after it (§5.8).
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Literal

import msgspec
from msgspec import Struct

from everbrook.client.content import Codec, Kind, kind_of
from everbrook.client.errors import InvalidAnswer, StreamRewound, Unsupported
from everbrook.client.page import BEGINNING, NOW, Page, is_exact
from everbrook.client.parameters import begin_query
from everbrook.client.timeouts import DEFAULT_TUNING, ClientTuning
from everbrook.protocol.sse import Control, Decoder, Event, decode_base64

Mode = Literal["auto", "sse", "long-poll"]

_SENTINELS = {BEGINNING, NOW}
_OF = "@"


class Live(Enum):
    """How a read waits for new messages."""

    SSE = "sse"
    LONG_POLL = "long-poll"


class Ask(Struct, frozen=True):
    """The next request. `live` is None while the read catches up."""

    query: dict[str, str]
    live: Live | None
    timeout_secs: float | None = None
    headers: dict[str, str] = {}


class ReadState:
    """A position in a stream. It moves to the tail, and in a live `mode` follows the tail."""

    def __init__(
        self,
        offset: str,
        *,
        start: Mapping[str, str],
        until: str | None,
        mode: Mode | None,
        codec: Codec[Any],
        tuning: ClientTuning = DEFAULT_TUNING,
    ) -> None:
        """Begin at an offset, which may be a saved one, or as the parameters `start` say (`last`, `at`, `skip`)."""
        self.offset, _, self.incarnation = offset.partition(_OF)
        """The incarnation of the stream, once it is known."""
        self.content_type = ""
        self.up_to_date = False
        self.closed = False
        self._start = dict(start)
        self._until = until
        self._mode = mode
        self._codec = codec
        self._tuning = tuning
        self._cursor: str | None = None
        self._answered = False
        self.events_seen = False
        self._fruitless = 0
        self.hasty = 0
        """How many live responses in a row came at once and without news."""

    @property
    def live(self) -> bool:
        """Whether the read waits for new messages."""
        return self._mode is not None

    @property
    def over(self) -> bool:
        """Whether the read is complete."""
        if self.closed or (self._until is not None and self._answered and self.offset >= self._until):
            return True
        return self._mode is None and self.up_to_date

    def kept(self, offset: str) -> str:
        """Format an offset to save for the next run: with the incarnation, if that is known."""
        return f"{offset}{_OF}{self.incarnation}" if self.incarnation else offset

    def resume(self, kept: str) -> None:
        """Continue at an offset that an earlier run has saved."""
        offset, _, self.incarnation = kept.partition(_OF)
        self.move(offset)

    def move(self, offset: str) -> None:
        """Continue at another offset of the same stream."""
        self.offset, self._start, self._cursor = offset, {}, None
        self.up_to_date = False

    def ask(self) -> Ask:
        query = begin_query(self.offset, self._start)
        headers = {"Stream-Incarnation": self.incarnation} if self.incarnation else {}
        if self._until is not None:
            query["until"] = self._until
        if self._mode is None or not self.up_to_date:
            return Ask(query, None, None, headers)
        query |= {"cursor": self._cursor} if self._cursor else {}
        if self._mode == "long-poll":
            return Ask(query | {"live": "long-poll"}, Live.LONG_POLL, self._tuning.long_poll_secs, headers)
        timeout_secs = self._tuning.silence_secs if self.events_seen else self._tuning.first_event_secs
        return Ask(query | {"live": "sse"}, Live.SSE, timeout_secs, headers)

    def took(self, page: Page) -> None:
        """Move to the end of a page."""
        if (self._start or self._until is not None) and not page.exact:
            raise Unsupported("the server ignored `until`, `last`, `at` or `skip`: it does not have these extensions")
        if self.offset not in _SENTINELS and not self._start and page.next_offset < self.offset:
            raise StreamRewound(
                f"the stream ends at offset {page.next_offset}, before {self.offset}, which this read has reached: "
                "it was deleted and created again, or its server lost data"
            )
        if page.incarnation and self.incarnation and page.incarnation != self.incarnation:
            raise self.replaced(page.incarnation)
        if page.next_offset == self.offset and not (page.empty or page.up_to_date or page.closed or self._start):
            raise InvalidAnswer(f"a page with messages of the stream ends at {page.next_offset}, where it began")
        # An empty page that does not move the offset is at the tail, even if the server does not say so.
        stands = page.next_offset == self.offset and page.empty
        self.offset, self._start, self._answered = page.next_offset, {}, True
        self.incarnation = page.incarnation or self.incarnation
        self.content_type = page.content_type or self.content_type
        self.up_to_date, self.closed = page.up_to_date or page.closed or stands, page.closed
        self._cursor = page.cursor or self._cursor

    def replaced(self, incarnation: str | None) -> StreamRewound:
        """Make the error for a stream that has another incarnation."""
        return StreamRewound(
            f"the stream that was read up to offset {self.offset} had incarnation {self.incarnation}, "
            f"and has incarnation {incarnation} now: it was created again, cut by a repair, or its server was restored"
        )

    def events(self, headers: Mapping[str, str]) -> "EventPages":
        """Make a decoder of the events of a response."""
        return EventPages(self.offset, self.content_type, headers, self._codec)

    def waited(self, ask: Ask, secs: float, *, news: bool) -> None:
        """Record how long a response took and whether it had news: requests after hasty responses are delayed."""
        hasty = ask.live is not None and not news and secs < self._tuning.hasty_secs
        self.hasty = self.hasty + 1 if hasty else 0
        if ask.live is Live.SSE and self.hasty >= self._tuning.max_fruitless:
            self.fall_back()

    def ended(self, events: int) -> None:
        """Record the end of an event stream. After several without events, the read falls back to long-polls."""
        self.events_seen |= events > 0
        self._fruitless = 0 if events else self._fruitless + 1
        if self._fruitless >= self._tuning.max_fruitless:
            self.fall_back()

    def fall_back(self) -> bool:
        """Use long-polls from now on, unless the mode is `sse`."""
        if self._mode == "auto":
            self._mode = "long-poll"
            return True
        return False


class EventPages:
    """Assembles pages from the events of one connection."""

    def __init__(self, offset: str, content_type: str, headers: Mapping[str, str], codec: Codec[Any]) -> None:
        self._offset = offset
        self._content_type = content_type
        self._base64 = headers.get("Stream-SSE-Data-Encoding", "").lower() == "base64"
        self._exact = is_exact(headers)
        self._incarnation = headers.get("Stream-Incarnation", "")
        self._codec = codec
        self._decoder = Decoder()
        self._data: list[bytes] = []
        self.count = 0

    def feed(self, received: bytes) -> list[Page]:
        """Take received bytes, and return the pages that they complete."""
        return [page for event in self._decoder.feed(received) if (page := self._take(event))]

    def _take(self, event: Event) -> Page | None:
        if event.type == b"data":
            self._data.append(self._decode(event.data))
        if event.type != b"control":
            return None
        control = _control(event.data)
        page = Page(
            offset=self._offset,
            next_offset=control.stream_next_offset,
            data=self._joined(),
            content_type=self._content_type,
            up_to_date=control.up_to_date or control.stream_closed,
            closed=control.stream_closed,
            told_altered=control.data_altered,
            cursor=control.stream_cursor,
            exact=self._exact,
            codec=self._codec,
            incarnation=self._incarnation,
        )
        self._offset, self._data = page.next_offset, []
        self.count += 1
        return page

    def _decode(self, data: bytes) -> bytes:
        try:
            return decode_base64(data) if self._base64 else data
        except ValueError as error:
            raise InvalidAnswer(f"an event of the stream is not base64: {error}") from error

    def _joined(self) -> bytes:
        if len(self._data) <= 1:
            return self._data[0] if self._data else b""
        if kind_of(self._content_type) is not Kind.JSON:
            return b"".join(self._data)
        # Several arrays before one control event are one array.
        inner = (piece.strip()[1:-1] for piece in self._data)
        return b"[%b]" % b",".join(piece for piece in inner if piece.strip())


def _control(data: bytes) -> Control:
    try:
        return msgspec.json.decode(data, type=Control)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidAnswer(f"a control event of the stream is not the expected JSON document: {error}") from error
