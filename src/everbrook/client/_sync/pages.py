# Written by tools/mirror.py from src/everbrook/client/_async/pages.py: change that file, not this one.
"""Pages of a stream one after the other, over broken connections and restarts of the server.

A `ReadState` decides what to request. This module sends the requests, waits between them, and ends when it is closed.
"""

import logging
import random
import threading
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from time import monotonic
from typing import Any

from everbrook.client._sync.concurrency import Condition, resolve
from everbrook.client._sync.transport import Transport
from everbrook.client._sync.wire import Response
from everbrook.client.content import Codec
from everbrook.client.errors import InvalidAnswer, NotAStream
from everbrook.client.models import Snapshot
from everbrook.client.page import BEGINNING, Page, page_of
from everbrook.client.read_state import Ask, Live, ReadState
from everbrook.client.refusals import header_of
from everbrook.client.wire.request import ConnectionBroken, ResponseLate
from everbrook.protocol.errors import BadRequest, IncarnationMismatch, OffsetGone, ProtocolError

logger = logging.getLogger(__name__)

_EVENTS = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}


class Pages:
    """All pages from the position of a `ReadState` on."""

    def __init__(self, transport: Transport, url: str, reading: ReadState, codec: Codec[Any]) -> None:
        self._transport = transport
        self._url = url
        self._reading = reading
        self._codec = codec
        self._on_snapshot: Callable[[Snapshot], Any] | None = None
        self._snapshot: Callable[[], Any] | None = None
        self._changed = Condition()
        self._stopped = False
        self._guard = threading.Lock()
        self._response: Response | None = None
        """The open event stream. It is interrupted under the guard only: later its connection serves other requests."""

    def recover(self, snapshot: Callable[[], Any], on_snapshot: Callable[[Snapshot], Any]) -> None:
        """If the position is no longer retained, hand over the latest snapshot and continue after it."""
        self._snapshot, self._on_snapshot = snapshot, on_snapshot

    def close(self) -> None:
        """End the pages. A reader that waits for the next page is woken."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        # A thread that waits for an event is not woken by the flag, only by the end of its connection.
        with self._guard:
            if self._response is not None:
                self._response.interrupt()

    def each(self) -> Generator[Page]:
        """Yield all pages. Broken connections and temporary refusals are retried."""
        reading = self._reading
        attempts = self._transport.attempts(f"GET {self._url}")
        while not (reading.over or self._given_up()):
            ask, began, news = reading.ask(), monotonic(), False
            try:
                with closing(self._answers(ask)) as pages:
                    for page in pages:
                        reading.took(page)
                        # A follower that has been connected once outlives restarts of the server, and a laptop's sleep.
                        attempts.succeeded(patient=reading.live)
                        news |= not page.empty or page.closed
                        yield page
                reading.waited(ask, monotonic() - began, news=news)
                self._slow_down()
            except IncarnationMismatch as other:
                raise reading.replaced(header_of(other, "Stream-Incarnation")) from other
            except OffsetGone as gone:
                self._behind_snapshot(gone)
            except (ConnectionBroken, ProtocolError, NotAStream) as failure:
                if not (self._given_up() or self._without_events(ask, failure)):
                    self._pause(attempts.delay_after(failure), failure)

    def _given_up(self) -> bool:
        return self._stopped

    def _slow_down(self) -> None:
        if hasty := self._reading.hasty:
            self._pause(self._transport.retry.delay_secs(hasty, random.random()), "the server does not wait")  # noqa: S311

    def _pause(self, delay_secs: float, cause: object) -> None:
        logger.info("trying again in %.1f s: %s", delay_secs, str(cause) or type(cause).__name__)
        with self._changed:
            self._changed.wait_until(self._given_up, delay_secs)

    def _answers(self, ask: Ask) -> Generator[Page]:
        """Send one request. A plain read returns one page, an event stream any number."""
        if ask.live is Live.SSE:
            with closing(self._events(ask)) as pages:
                yield from pages
            return
        bound = {} if ask.live else {"max_bytes": str(self._transport.tuning.page_bytes)}
        response = self._transport.ask(
            "GET", self._url, query=ask.query | bound, headers=ask.headers, timeout_secs=ask.timeout_secs
        )
        yield page_of(
            ask.query.get("offset", self._reading.offset),
            response.status_code,
            response.headers,
            response.content,
            self._codec,
        )

    def _events(self, ask: Ask) -> Generator[Page]:
        count = 0
        try:
            with self._transport.open(
                "GET", self._url, query=ask.query, headers=_EVENTS | ask.headers, timeout_secs=ask.timeout_secs
            ) as response:
                if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                    if self._reading.fall_back():
                        return
                    # A stream server without events will have none later; anything else may recover, and is retried.
                    kind = InvalidAnswer if "Stream-Next-Offset" in response.headers else NotAStream
                    raise kind(f"GET {self._url} with live=sse was not answered with events")
                with closing(self._event_pages(response)) as pages:
                    for page in pages:
                        if page.altered and self._reading.fall_back():
                            return
                        count += 1
                        yield page
        finally:
            self._reading.ended(count)
        if not count:
            raise ConnectionBroken("the event stream ended before its first event")

    def _event_pages(self, response: Response) -> Generator[Page]:
        events = self._reading.events(response.headers)
        with self._guard:
            self._response = response
        try:
            # `close` sets the flag before it looks for the response, so one of the two sees the other.
            if not self._given_up():
                began = monotonic()
                for received in response.iter_bytes():
                    yield from events.feed(received)
                    if not events.count and monotonic() - began > self._transport.tuning.first_event_secs:
                        raise ResponseLate("the event stream has sent only comments: a proxy may hold its events back")
        finally:
            with self._guard:
                self._response = None

    def _without_events(self, ask: Ask, failure: Exception) -> bool:
        """Return whether to fall back to long-polls: the server refuses events, or a proxy holds them back."""
        if ask.live is not Live.SSE:
            return False
        held_back = isinstance(failure, ResponseLate) and not self._reading.events_seen
        return (held_back or isinstance(failure, BadRequest)) and self._reading.fall_back()

    def _behind_snapshot(self, gone: OffsetGone) -> None:
        if self._on_snapshot is None or self._snapshot is None:
            raise gone
        snapshot = self._snapshot()
        # A snapshot at or before the position does not stand for the missing messages.
        if snapshot is None or (self._reading.offset != BEGINNING and snapshot.offset <= self._reading.offset):
            raise gone
        resolve(partial(self._on_snapshot, snapshot))
        self._reading.move(snapshot.offset)
