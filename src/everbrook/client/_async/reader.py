"""Readers: the values or pages of a stream, over broken connections and restarts of the server.

    async for message in stream.follow():
        ...

A reader makes one pass; `close` ends it from elsewhere.
"""

import codecs
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

from everbrook.client._async.concurrency import resolve
from everbrook.client._async.pages import AsyncPages
from everbrook.client._async.transport import AsyncTransport
from everbrook.client.content import Codec, Kind
from everbrook.client.errors import InvalidMessage
from everbrook.client.models import Snapshot
from everbrook.client.offsets import Offsets
from everbrook.client.page import Page
from everbrook.client.read_state import ReadState

T = TypeVar("T")


class AsyncReader(Generic[T]):
    """One pass over a stream. Iterate over it for values, or over `pages()`."""

    def __init__(self, transport: AsyncTransport, url: str, reading: ReadState, codec: Codec[T]) -> None:
        """Begin where `reading` stands."""
        self._reading = reading
        self._pages = AsyncPages(transport, url, reading, codec)
        self._offsets: Offsets | None = None
        self._page: Page | None = None
        self._handed = 0
        self._saved_at = 0.0
        self._save_secs = transport.tuning.save_secs
        self._caught_up = False

    async def close(self) -> None:
        """End the loop over this reader, from any task: at once if it waits for events or the next attempt, and
        with the response if a long-poll is under way.
        """
        await self._pages.close()

    def keep(self, offsets: Offsets) -> None:
        """Begin at the offset that is saved there, if any, and save the progress there."""
        self._offsets = offsets

    def recover(self, snapshot: Callable[[], Any], on_snapshot: Callable[[Snapshot], Any]) -> None:
        """If the position is no longer retained, hand over the latest snapshot and continue after it."""
        self._pages.recover(snapshot, on_snapshot)

    @property
    def offset(self) -> str:
        """Where another read would go on: behind what was handed out.

        Within a page of JSON it is behind the last value if the server's offsets tell, and before the page otherwise.
        """
        page = self._page
        if page is None:
            return self._reading.offset
        return page.offset_after(self._handed) or page.offset

    @property
    def incarnation(self) -> str:
        """Which of the streams that had this name it reads, once that is known."""
        return self._reading.incarnation

    @property
    def up_to_date(self) -> bool:
        """Whether everything that was there when it last asked is handed out."""
        return self._page is None and self._reading.up_to_date

    @property
    def closed(self) -> bool:
        """Whether the stream has ended, and everything of it is handed out."""
        return self._page is None and self._reading.closed

    @property
    def content_type(self) -> str:
        """The stream's content type, once something was read."""
        return self._reading.content_type

    def __aiter__(self) -> AsyncGenerator[T]:
        return self._values()

    async def all(self) -> list[T]:
        """Read everything, into a list."""
        decoder = _text_decoder()
        values: list[Any] = []
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                values += _values_of(page, decoder)
        if text := decoder.decode(b"", final=True):
            values.append(text)
        return values

    async def bytes(self) -> bytes:
        """Read everything, as it came: of a JSON stream these are arrays, page by page."""
        return b"".join([page.data async for page in self.pages()])

    async def text(self) -> str:
        """Read everything, as text."""
        return (await self.bytes()).decode("utf-8", "replace")

    async def pages(self) -> AsyncGenerator[Page]:
        """Read page by page. The first that is up to date, and the last of a closed stream, come even if empty."""
        async with aclosing(self._kept()) as pages:
            async for page in pages:
                yield page
                self._handed_out()
                await self._save(page.next_offset)

    async def _values(self) -> AsyncGenerator[T]:
        decoder = _text_decoder()
        async with aclosing(self._kept()) as pages:
            try:
                async for page in pages:
                    values, misfit = _values_before_misfit(page, decoder)
                    for value in values:
                        if self._offsets is not None:
                            await self._save_now_and_then()
                        self._handed += 1
                        yield value
                    if misfit is not None:
                        raise misfit
                    self._handed_out()
                    await self._save(page.next_offset)
            finally:
                await self._save_handled()
        if text := decoder.decode(b"", final=True):
            rest: Any = text
            yield rest

    def _handed_out(self) -> None:
        self._page, self._handed = None, 0

    async def _save(self, offset: str) -> None:
        if self._offsets is not None:
            await resolve(partial(self._offsets.save, self._reading.kept(offset)))
            self._saved_at = monotonic()

    async def _save_now_and_then(self) -> None:
        """Save the progress within a page too, because a program may end before the end of the page."""
        if self._handed and monotonic() - self._saved_at >= self._save_secs:
            offset = self.offset
            if self._page is None or offset != self._page.offset:
                await self._save(offset)

    async def _save_handled(self) -> None:
        """Save the progress in a page that was left halfway. A value is handled when the next one is requested."""
        if self._page is not None and self._handed > 1:
            offset = self._page.offset_after(self._handed - 1)
            if offset is not None:
                await self._save(offset)

    async def _kept(self) -> AsyncGenerator[Page]:
        """Yield the pages with news, from the position that the last run saved, if there is one."""
        if self._offsets is not None and (kept := await resolve(self._offsets.load)):
            self._reading.resume(kept)
        async with aclosing(self._pages.each()) as pages:
            async for page in pages:
                news = not page.empty or page.closed or (page.up_to_date and not self._caught_up)
                self._caught_up |= page.up_to_date
                if news:
                    self._page, self._handed = page, 0
                    yield page
                self._page = None


def _text_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")("replace")


def _values_before_misfit(page: Page, decoder: codecs.IncrementalDecoder) -> tuple[list[Any], InvalidMessage | None]:
    """Return the values of a page before the first misfit, and its error if there is one."""
    try:
        return _values_of(page, decoder), None
    except InvalidMessage as misfit:
        return misfit.before, misfit


def _values_of(page: Page, decoder: codecs.IncrementalDecoder) -> list[Any]:
    """Return the values of a page. If the end of a page cuts a character, the decoder keeps its first bytes."""
    if page.kind is not Kind.TEXT:
        return page.values
    text = decoder.decode(page.data)
    return [text] if text else []
