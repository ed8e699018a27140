"""Reads of a stream: catch-up reads, as pages or frames, and the beginning of live reads (§5.6 to §5.8).

The size, entity tag and next offset of a page are known before it is read, because bytes at an offset never change. So
a long page is not held in memory: it is read from the storage in parts, no faster than the client takes them. Its bytes
may be removed meanwhile, with the stream or by its retention, which a slow reader does not delay. Then the response is
aborted, so that the client sees that it is incomplete.
"""

import asyncio
from functools import partial

from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.stream import Stream
from everbrook.protocol import frames
from everbrook.protocol.lifetime import (
    deadline,
)
from everbrook.protocol.messages import unpack, unpack_part, unpacked_bytes
from everbrook.protocol.offset import Sentinel, next_cursor, parse_offset
from everbrook.protocol.query import Live, ReadQuery, parse_read_query
from everbrook.protocol.read import NO_STORE, Page, cache_control, format_etag, matches
from everbrook.server.deferred import Streamed
from everbrook.server.exchange import Exchange, Reply, Request, Response
from everbrook.server.resources.compression import CODERS, Coder, Compressor, choose_coding, encoded_lines
from everbrook.server.resources.headers import (
    page_lines,
    with_incarnation,
)
from everbrook.server.resources.live import CachePolicy, EventStream, LongPoll
from everbrook.settings import Settings

LONG_POLL, SSE = "long_poll", "sse"


class Reads:
    """Handles the reads of streams."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._readers = engine.readers
        self._settings = settings.server
        self._identity_header = settings.auth.identity_header.lower().encode()
        self._max_page_bytes = engine.limits.max_page_bytes
        self._compressor = Compressor(settings.http.compression_min_bytes, engine.faults)

    def read(self, request: Request, common: bytes, name: bytes) -> Reply:
        """Read a stream in the mode that the query asks for (§5.6 to §5.8)."""
        now = self._engine.clock.now()
        stream = self._readers.open(name, now)
        common = with_incarnation(request, common, stream.committed.identity, self._engine.epoch)
        query = parse_read_query(request.query)
        if not query.plain:
            return self._read_bounded(request, common, stream, query)
        if query.live is Live.SSE:
            return self._follow(request, common, stream, query)
        if query.live is Live.LONG_POLL:
            return self._poll(request, common, stream, query, self._readers.page(stream, query.offset))
        page = self._readers.page(stream, query.offset, max_bytes=self._max_page_bytes)
        return self._catch_up(request, common, stream, query, page, now)

    def _read_bounded(self, request: Request, common: bytes, stream: Stream, query: ReadQuery) -> Reply:
        """Read between the bounds of the query, in the form that it asks for."""
        if query.seeks:
            start = self._readers.begin(stream, query)
            common += b"Stream-Offset: %016d\r\n" % start
            query = replace(query, offset=start, at=None, last=None, skip=None, cached=False)
        if query.live is Live.SSE:
            return self._follow(request, common, stream, query)
        # Frames and the response of a long-poll need a whole page in memory, so that page has the smaller limit.
        held = query.frames or query.live is not None
        bound = self._readers.batch_bytes if held else self._max_page_bytes
        page = self._readers.page(stream, query.offset, query.until, min(bound, query.max_bytes or bound))
        if query.live is Live.LONG_POLL:
            return self._poll(request, common, stream, query, page)
        return self._catch_up(request, common, stream, query, page, self._engine.clock.now())

    def _catch_up(
        self, request: Request, common: bytes, stream: Stream, query: ReadQuery, page: Page, now: int
    ) -> Reply:
        kind = frames.CONTENT_TYPE if query.frames else page.head.identity.content_type
        content_type = b"Content-Type: %b\r\n" % kind
        if query.offset is Sentinel.NOW or not query.cached:
            lines = b"%b%b%bCache-Control: %b\r\n" % (common, content_type, page_lines(page), NO_STORE)
            if self._is_long(page, query):
                return LongPage(self._engine, stream, page, lines, None)
            return Response(200, lines, self._body(stream, page, query))
        etag = format_etag(page, epoch=self._engine.epoch, frames=query.frames)
        lines = b"%b%b%bCache-Control: %b\r\nETag: %b\r\n" % (
            common,
            content_type,
            page_lines(page),
            cache_control(
                page,
                deadline(page.head.identity, stream.touched_at),
                now,
                private=self.is_private(request),
            ),
            etag,
        )
        worth_compressing = self._compressor.worthwhile(page)
        if worth_compressing:
            lines += b"Vary: Accept-Encoding\r\n"
        if_none_match = request.headers.get(b"if-none-match")
        # The tag follows from the offsets, so the bytes of an unchanged page are not read.
        if if_none_match is not None and matches(if_none_match, etag):
            return Response(304, lines)
        accepted = request.headers.get(b"accept-encoding", b"") if worth_compressing else b""
        if self._is_long(page, query):
            return LongPage(self._engine, stream, page, lines, choose_coding(accepted))
        response = Response(200, lines, self._body(stream, page, query))
        return self._compressor.reply(response, accepted) if worth_compressing else response

    def _is_long(self, page: Page, query: ReadQuery) -> bool:
        """Tell whether a page is sent in pieces. Frames are not: they begin with the ends of all messages."""
        return page.end - page.start > self._readers.batch_bytes and not query.frames

    def _body(self, stream: Stream, page: Page, query: ReadQuery) -> bytes:
        stored, identity = self._readers.read(stream, page), page.head.identity
        if not query.frames:
            return unpack(identity, stored)
        messages = self._readers.messages(stream, page)
        return frames.encode_frames(frames.frames_of(identity, page.start, messages.ends, messages.times, stored))

    def is_private(self, request: Request) -> bool:
        """Tell whether a response is private to the client, because its request has credentials of any kind.

        That holds without a policy too: a proxy in front of the server may check the credentials.
        """
        headers = request.headers
        return request.private or b"authorization" in headers or self._identity_header in headers

    def _cursor(self, query: ReadQuery) -> int:
        return next_cursor(self._engine.clock.now(), query.cursor, self._engine.clock.chance())

    def _poll(self, request: Request, common: bytes, stream: Stream, query: ReadQuery, page: Page) -> Reply:
        request.operation = LONG_POLL
        poll = LongPoll(
            self._engine,
            stream,
            request,
            common,
            self._cursor(query),
            self._settings.long_poll_timeout_secs,
            _cache_policy(query, page, private=self.is_private(request)),
        )
        if page.start < page.end:
            if_none_match = request.headers.get(b"if-none-match")
            if if_none_match is not None and (unmodified := poll.unmodified(page, if_none_match)):
                return unmodified
            return poll.found(page, unpack(page.head.identity, self._readers.read(stream, page)))
        return poll.nothing(page) if page.final else poll

    def _follow(self, request: Request, common: bytes, stream: Stream, query: ReadQuery) -> EventStream:
        """Begin an event stream, for a browser that reconnects at its `Last-Event-ID` (§5.8)."""
        request.operation = SSE
        last_event_id = request.headers.get(b"last-event-id")
        offset = parse_offset(last_event_id) if last_event_id else query.offset
        start = self._readers.page(stream, offset).start
        return EventStream(self._engine, stream, request, common, self._cursor(query), start, self._settings)


def _cache_policy(query: ReadQuery, page: Page, *, private: bool) -> CachePolicy:
    """Choose which caches may keep a page: none if its URL does not fix where the page begins."""
    if not query.cached or query.offset not in {page.start, Sentinel.BEGINNING}:
        return CachePolicy.NONE
    return CachePolicy.PRIVATE if private else CachePolicy.PUBLIC


class LongPage(Streamed):
    """A response whose body is a page that is too long to be held in memory."""

    def __init__(self, engine: Engine, stream: Stream, page: Page, headers: bytes, coding: bytes | None) -> None:
        """Compress the page by `coding` if that makes it smaller. Raise `StreamDamaged` if its start can't be read."""
        super().__init__(engine.faults)
        self._engine = engine
        self._stream = stream
        self._page = page
        self._headers = headers
        self._coder = CODERS[coding]() if coding else None
        self._coding = coding
        self._offset = page.start
        self._began = False
        # Damage that is found now, before the head is sent, can still be refused, or end the page before it.
        self._first = self.next_piece()

    def next_piece(self) -> bytes:
        page, start = self._page, self._offset
        self._offset = min(start + self._engine.tuning.feed.part_bytes, page.end)
        stored = self._engine.readers.read_part(self._stream, start, self._offset)
        identity = page.head.identity
        return unpack_part(identity, stored, first=start == page.start, last=self._offset == page.end)

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.send(self._first)
        self._first = b""

    def send(self, piece: bytes) -> None:
        """Send a piece. Compression runs in a thread, because it would hold up the event loop."""
        if self._coder is None:
            self._write(piece)
            return
        self.under_way = True
        compressing = asyncio.get_running_loop().run_in_executor(None, self._compress, self._coder, piece)
        take = partial(self._take, piece)
        compressing.add_done_callback(self._engine.faults.guarded(Callback.RESPONSE, take, self.abort))

    def _compress(self, coder: Coder, piece: bytes) -> bytes:
        compressed = coder.part(piece)
        return compressed + coder.end() if self._offset == self._page.end else compressed

    def _take(self, piece: bytes, compressing: asyncio.Future[bytes]) -> None:
        """Send a compressed piece. If the first one did not get smaller, all are sent uncompressed."""
        self.under_way = False
        if self.exchange is None:
            return
        compressed = compressing.result()
        # The head says whether the body is compressed, so this is decided with the first piece.
        if not self._began and len(compressed) >= len(piece):
            self._coder, compressed = None, piece
        self._write(compressed)

    def _write(self, piece: bytes) -> None:
        exchange = self.exchange
        if exchange is None:
            return
        if not self._began:
            self._began = True
            exchange.begin(self._head())
        exchange.write(exchange.frame(piece))
        if self._offset < self._page.end:
            self.resume()
        else:
            self.cancel()
            exchange.finish()

    def _head(self) -> Response:
        page = self._page
        if self._coder is not None and self._coding is not None:
            return Response(200, encoded_lines(self._headers, self._coding))
        length = unpacked_bytes(page.head.identity, page.end - page.start)
        return Response(200, self._headers, length=length)
