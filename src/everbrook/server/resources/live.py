"""Live reads: long-poll and Server-Sent Events (§5.7, §5.8)."""

from collections.abc import Callable
from enum import Enum, auto

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.feed import UNREADABLE, Batch
from everbrook.engine.stream import Stream
from everbrook.protocol.content_type import carried_as_text
from everbrook.protocol.errors import ProtocolError, StreamDamaged
from everbrook.protocol.events import encode_page
from everbrook.protocol.lifetime import deadline
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import current_cursor
from everbrook.protocol.read import NO_CACHE, NO_STORE, PRIVATE_NO_CACHE, Page, cache_control, format_etag, matches
from everbrook.protocol.sse import KEEP_ALIVE
from everbrook.server.auth.policy import RightsCheck, check_rights
from everbrook.server.exchange import Deferred, Exchange, Request, Response, problem_response
from everbrook.server.resources.headers import page_lines
from everbrook.settings import ServerSettings


class CachePolicy(Enum):
    """Which caches may keep a response."""

    NONE = auto()
    PRIVATE = auto()
    PUBLIC = auto()


class LiveRead(Deferred):
    """The common part of live reads. The end of the read cancels its `_timers`."""

    brief = False

    def __init__(self, engine: Engine, stream: Stream, request: Request, common: bytes, cursor: int) -> None:
        self._engine = engine
        self._readers = engine.readers
        self._stream = stream
        self._request = request
        self._common = common
        self._cursor = cursor
        self._timers: list[Timer | RightsCheck | None] = []

    def _end_after(self, secs: float | None) -> None:
        """End the read after `secs`, if there is a limit, or as soon as the client has lost the right to it."""
        faults = self._engine.faults
        if secs is not None:
            self._timers.append(faults.later(Callback.LIVE, secs, self.shut_down, failed=self._fail_unreadable))
        self._timers.append(check_rights(faults, self._request, self.shut_down))

    def deliver(self, batch: Batch) -> None:
        """Send newly appended data."""
        raise NotImplementedError

    def lag(self) -> None:
        """Leave the feed, and read on when the bucket of the stream has its turn."""
        raise NotImplementedError

    def fail(self, error: ProtocolError) -> None:
        """End the read, because the stream has ended or can't be read."""
        raise NotImplementedError

    def _wait_for_turn(self, call: Callable[[], None]) -> None:
        """Read on in a turn of the loop that other buckets share: many readers may be behind at the same time."""
        name = self._stream.committed.identity.name
        self._engine.turns.wait(name, call, self._fail_unreadable, Callback.LIVE)

    def _fail_unreadable(self) -> None:
        self.fail(ProtocolError(UNREADABLE))

    def cancel(self) -> None:
        super().cancel()
        self._readers.leave(self._stream, self)
        for timer in self._timers:
            if timer:
                timer.cancel()


class LongPoll(LiveRead):
    """A read at the tail that waits for the next data, once."""

    def __init__(
        self,
        engine: Engine,
        stream: Stream,
        request: Request,
        common: bytes,
        cursor: int,
        timeout_secs: float,
        policy: CachePolicy,
    ) -> None:
        super().__init__(engine, stream, request, common, cursor)
        self._timeout_secs = timeout_secs
        self._policy = policy
        self._offset = stream.committed.tail

    def found(self, page: Page, body: bytes) -> Response:
        """Return the response with data. Caches may keep it if the URL fixes the offset at which it begins."""
        lines = b"%bContent-Type: %b\r\n" % (self._lines(page), page.head.identity.content_type)
        if self._policy is CachePolicy.NONE:
            return Response(200, b"%bCache-Control: %b\r\n" % (lines, NO_STORE), body)
        life = deadline(page.head.identity, self._stream.touched_at)
        private = self._policy is CachePolicy.PRIVATE
        kept = cache_control(page, life, self._engine.clock.now(), private=private)
        etag = format_etag(page, epoch=self._engine.epoch)
        return Response(200, b"%bCache-Control: %b\r\nETag: %b\r\n" % (lines, kept, etag), body)

    def unmodified(self, page: Page, if_none_match: bytes) -> Response | None:
        """Return the 304 response if the client already has the page, else None (§10.1)."""
        if self._policy is CachePolicy.NONE or not matches(if_none_match, format_etag(page, epoch=self._engine.epoch)):
            return None
        return Response(304, self.found(page, b"").headers)

    def nothing(self, page: Page) -> Response:
        """Return the 204 response: no data was appended, or the stream is closed and none will be."""
        return Response(204, b"%bCache-Control: %b\r\n" % (self._lines(page), NO_STORE))

    def _lines(self, page: Page) -> bytes:
        cursor = b"" if page.final else b"Stream-Cursor: %d\r\n" % self._cursor
        return b"%b%b%b" % (self._common, page_lines(page), cursor)

    def start(self, exchange: Exchange) -> None:
        """Join the feed, unless data was appended since the request was handled.

        An earlier request on the same connection may have delayed the start, so the stream may have changed or ended.
        """
        self.exchange = exchange
        try:
            self._stream = self._readers.current(self._stream)
        except ProtocolError as error:
            self.fail(error)
            return
        if self._stream.ended or self._stream.committed.closed or self._offset < self._stream.committed.tail:
            self.shut_down()
            return
        self._readers.join(self._stream, self)
        self._end_after(self._timeout_secs)

    def shut_down(self) -> None:
        """Respond at once, with data if any was appended meanwhile."""
        if self.exchange is None:
            return
        try:
            batch = self._readers.batch(self._stream, self._readers.live_page(self._stream, self._offset))
        except ProtocolError as error:
            self.fail(error)
        else:
            self.deliver(batch)

    def deliver(self, batch: Batch) -> None:
        """Respond with newly appended data."""
        page = batch.page
        if page.start == page.end:
            self.respond(self.nothing(page))
            return
        body = batch.encoded(unpack, lambda: unpack(page.head.identity, batch.stored))
        self.respond(self.found(page, body))

    def lag(self) -> None:
        self._readers.leave(self._stream, self)
        self._wait_for_turn(self.shut_down)

    def fail(self, error: ProtocolError) -> None:
        self.respond(problem_response(error, self._common))

    def respond(self, response: Response) -> None:
        exchange = self.exchange
        self.cancel()
        if exchange is not None:
            exchange.respond(response)


class EventStream(LiveRead):
    """A continuous read: pages up to the tail, then all new data, until the stream or the reconnect interval ends.

    A reader that falls behind is a reader that catches up again: if its client is congested, it leaves the feed, and
    reads pages when the client has read what was sent. So a slow client costs no memory for data in between.
    """

    def __init__(
        self,
        engine: Engine,
        stream: Stream,
        request: Request,
        common: bytes,
        cursor: int,
        offset: int,
        settings: ServerSettings,
    ) -> None:
        super().__init__(engine, stream, request, common, cursor)
        self._offset = offset
        self._settings = settings
        self._began = False
        self._following = False
        self._scheduled = False
        self._silent = True

    @property
    def behind_bytes(self) -> int:
        """The size of the durable data that was not sent yet."""
        return 0 if self._following else max(0, self._stream.committed.tail - self._offset)

    def start(self, exchange: Exchange) -> None:
        """Send the head and the first events. If the stream can't be read, refuse the request as for a catch-up."""
        try:
            try:
                page, batch = self._next()
            except StreamDamaged:
                # The first attempt found the damage. The second one reads what is stored before it.
                page, batch = self._next()
        except ProtocolError as error:
            exchange.respond(problem_response(error, self._common))
            return
        self.exchange = exchange
        text = carried_as_text(self._stream.committed.identity.media_type)
        lines = b"%bContent-Type: text/event-stream\r\nCache-Control: %b\r\nX-Accel-Buffering: no\r\n%b" % (
            self._common,
            PRIVATE_NO_CACHE if self._request.private else NO_CACHE,
            b"" if text else b"Stream-SSE-Data-Encoding: base64\r\n",
        )
        exchange.begin(Response(200, lines))
        self._end_after(self._settings.sse_reconnect_interval_secs or None)
        if keepalive_secs := self._settings.sse_keepalive_secs:
            self._timers.append(self._engine.faults.every(Callback.LIVE, keepalive_secs, self._check_silence))
        self._advance(page, batch)

    def _catch_up(self) -> None:
        self._scheduled = False
        if self.exchange is None:
            return
        known_damage = self._stream.damage
        try:
            page, batch = self._next()
        except ProtocolError as error:
            if isinstance(error, StreamDamaged) and self._stream.damage != known_damage:
                # This attempt found the damage. The next one reads what is stored before it.
                self.resume()
            else:
                self.fail(error)
        else:
            self._advance(page, batch)

    def _next(self) -> tuple[Page, Batch | None]:
        """Return the next page, with its bytes if there is something to send."""
        self._stream = self._readers.current(self._stream)
        page = self._readers.live_page(self._stream, self._offset)
        sent = page.start < page.end or page.final or not self._began
        return page, self._readers.batch(self._stream, page) if sent else None

    def _advance(self, page: Page, batch: Batch | None) -> None:
        """Send a page. Then join the feed at the tail, or read the next page in another turn of the loop."""
        if batch is not None:
            self._send(batch)
        if not page.up_to_date:
            self.resume()
        elif not page.final:
            self._following = True
            self._readers.join(self._stream, self)

    def deliver(self, batch: Batch) -> None:
        """Send newly appended data. If the client is congested then, leave the feed."""
        self._send(batch)
        if self.exchange is not None and self.exchange.congested:
            self._following = False
            self._readers.leave(self._stream, self)

    def lag(self) -> None:
        self._following = False
        self._readers.leave(self._stream, self)
        self.resume()

    def _send(self, batch: Batch) -> None:
        exchange = self.exchange
        if exchange is None:
            return
        page, frame = batch.page, exchange.frame
        cursor = max(self._cursor, current_cursor(batch.now))
        # Only the first of many readers encodes the batch. The lookup is inline, because it runs for each reader.
        exchange.write(batch.encodings.get((cursor, frame)) or _encoded(batch, frame, cursor))
        self._offset = page.end
        self._began = True
        self._silent = False
        if page.final:
            self.shut_down()

    def _check_silence(self) -> None:
        """Send a comment if nothing was sent since the last check, so that proxies keep the connection open."""
        exchange = self.exchange
        # A congested client has data to read, so it needs no sign of life.
        if exchange is not None and self._silent and not exchange.congested:
            exchange.write(exchange.frame(KEEP_ALIVE))
        self._silent = True

    def resume(self) -> None:
        """Read on from where the reader fell behind, unless the client is congested."""
        exchange = self.exchange
        if exchange is None or exchange.congested or self._following or self._scheduled:
            return
        self._scheduled = True
        self._wait_for_turn(self._catch_up)

    def fail(self, _error: ProtocolError) -> None:
        """End the event stream. The error is the response to the client's next request, when it reconnects."""
        self.shut_down()

    def shut_down(self) -> None:
        """End the event stream after a complete event."""
        exchange = self.exchange
        self.cancel()
        if exchange is not None:
            exchange.finish()


def _encoded(batch: Batch, frame: Callable[[bytes], bytes], cursor: int) -> bytes:
    """Encode a batch once for all readers with the same cursor and framing."""
    return batch.encoded((cursor, frame), lambda: frame(encode_page(batch.page, batch.stored, cursor, batch.ends)))
