"""The stream resource: each method parses its request, lets the engine decide, and renders the outcome (§5)."""

from collections.abc import Callable

from everbrook.engine.engine import Engine
from everbrook.engine.stream import Stream
from everbrook.protocol.appending import parse_stream_seq
from everbrook.protocol.caching import NO_STORE, cache_control, format_etag, matches
from everbrook.protocol.commands import Append, Create, Delete, ForkFrom
from everbrook.protocol.cursor import next_cursor
from everbrook.protocol.errors import InvalidHeader
from everbrook.protocol.forking import parse_sub_offset
from everbrook.protocol.lifetime import deadline, format_expires_at, parse_expires_at, parse_ttl
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import Sentinel, parse_fork_offset, parse_offset
from everbrook.protocol.outcomes import Appended, Existing
from everbrook.protocol.path import parse_source_path, parse_stream_path
from everbrook.protocol.producer import parse_claim
from everbrook.protocol.query import Live, ReadQuery, parse_read_query
from everbrook.protocol.reading import Page
from everbrook.server.compression import Compressor
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.live import CachePolicy, EventStream, LongPoll
from everbrook.server.render import CLOSED, page_lines
from everbrook.settings import Settings

Method = Callable[[Request, bytes], Reply]


class StreamResource:
    """What can be done to a stream's URL."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings.server
        self._public_url = settings.server.public_url.encode()
        self._compressor = Compressor(settings.http.compression_min_bytes)
        self.methods: dict[bytes, Method] = {
            b"POST": self.append,
            b"GET": self.read,
            b"HEAD": self.describe,
            b"PUT": self.create,
            b"DELETE": self.delete,
        }

    def create(self, request: Request, common: bytes) -> Response:
        """PUT (§5.1)."""
        headers, now = request.headers, self._engine.clock.now()
        ttl, expires_at = headers.get(b"stream-ttl"), headers.get(b"stream-expires-at")
        command = Create(
            name=parse_stream_path(request.path),
            now=now,
            incarnation=self._engine.new_incarnation(),
            content_type=headers.get(b"content-type") or None,
            body=request.body,
            closed=_closes(headers),
            ttl_secs=None if ttl is None else parse_ttl(ttl, now),
            expires_at=None if expires_at is None else parse_expires_at(expires_at),
            fork=_parse_fork(request),
        )
        outcome = self._engine.execute(command)
        head = outcome.head
        lines = b"%bContent-Type: %b\r\nStream-Next-Offset: %016d\r\n%b" % (
            common,
            head.identity.content_type,
            head.tail,
            CLOSED if head.closed else b"",
        )
        if isinstance(outcome, Existing):
            return Response(200, lines, b"", self._engine.last_change)
        return Response(201, b"%bLocation: %b\r\n" % (lines, self._location(request)), b"", self._engine.last_change)

    def _location(self, request: Request) -> bytes:
        origin = self._public_url or b"%b://%b%b" % (
            request.scheme,
            request.headers.get(b"host", b"localhost"),
            request.root,
        )
        return origin + request.path

    def append(self, request: Request, common: bytes) -> Response:
        """POST (§5.2, §5.3)."""
        headers = request.headers
        command = Append(
            parse_stream_path(request.path),
            self._engine.clock.now(),
            headers.get(b"content-type") or None,
            request.body,
            _closes(headers),
            parse_claim(headers.get(b"producer-id"), headers.get(b"producer-epoch"), headers.get(b"producer-seq")),
            parse_stream_seq(headers.get(b"stream-seq")),
        )
        outcome = self._engine.execute(command)
        head, producer = outcome.head, outcome.producer
        lines = b"%bStream-Next-Offset: %016d\r\n" % (common, head.tail)
        if head.closed:
            lines += CLOSED
        if producer:
            lines += b"Producer-Epoch: %d\r\nProducer-Seq: %d\r\n" % (producer.epoch, producer.seq)
        status = 200 if producer and isinstance(outcome, Appended) else 204
        return Response(status, lines, b"", self._engine.last_change)

    def delete(self, request: Request, common: bytes) -> Response:
        """DELETE (§5.4)."""
        self._engine.execute(Delete(parse_stream_path(request.path), self._engine.clock.now()))
        return Response(204, common, b"", self._engine.last_change)

    def describe(self, request: Request, common: bytes) -> Response:
        """HEAD (§5.5)."""
        head = self._engine.find(parse_stream_path(request.path), self._engine.clock.now()).committed
        identity = head.identity
        lines = [
            b"%bContent-Type: %b\r\nStream-Next-Offset: %016d\r\nCache-Control: %b\r\n"
            % (common, identity.content_type, head.tail, NO_STORE)
        ]
        if identity.ttl_secs is not None:
            lines.append(b"Stream-TTL: %d\r\n" % identity.ttl_secs)
        if identity.expires_at is not None:
            lines.append(b"Stream-Expires-At: %b\r\n" % format_expires_at(identity.expires_at))
        if head.closed:
            lines.append(CLOSED)
        return Response(200, b"".join(lines))

    def read(self, request: Request, common: bytes) -> Reply:
        """GET, in its three modes (§5.6 to §5.8)."""
        now = self._engine.clock.now()
        stream = self._engine.open(parse_stream_path(request.path), now)
        query = parse_read_query(request.query)
        if query.live is Live.SSE:
            return self._follow(request, common, stream, query)
        page = self._engine.page(stream, query.offset)
        if query.live is Live.LONG_POLL:
            return self._poll(request, common, stream, query, page)
        return self._catch_up(request, common, stream, query, page, now)

    def _catch_up(
        self, request: Request, common: bytes, stream: Stream, query: ReadQuery, page: Page, now: int
    ) -> Reply:
        content_type = b"Content-Type: %b\r\n" % page.head.identity.content_type
        if query.offset is Sentinel.NOW:
            lines = b"%b%b%bCache-Control: %b\r\n" % (common, content_type, page_lines(page), NO_STORE)
            return Response(200, lines, unpack(page.head.identity, b""))
        etag = format_etag(page)
        lines = b"%b%b%bCache-Control: %b\r\nETag: %b\r\n" % (
            common,
            content_type,
            page_lines(page),
            cache_control(
                page,
                deadline(page.head.identity, stream.touched_at),
                now,
                private=b"authorization" in request.headers,
            ),
            etag,
        )
        worth_compressing = self._compressor.worthwhile(page)
        if worth_compressing:
            lines += b"Vary: Accept-Encoding\r\n"
        if_none_match = request.headers.get(b"if-none-match")
        if if_none_match is not None and matches(if_none_match, etag):
            return Response(304, lines)
        response = Response(200, lines, unpack(page.head.identity, self._engine.read(stream, page)))
        if not worth_compressing:
            return response
        return self._compressor.reply(response, request.headers.get(b"accept-encoding", b""))

    def _cursor(self, query: ReadQuery) -> int:
        return next_cursor(self._engine.clock.now(), query.cursor, self._engine.clock.chance())

    def _poll(self, request: Request, common: bytes, stream: Stream, query: ReadQuery, page: Page) -> Reply:
        poll = LongPoll(
            self._engine,
            stream,
            common,
            self._cursor(query),
            self._settings.long_poll_timeout_secs,
            _cache_policy(request, query, page),
        )
        if page.start < page.end:
            return poll.found(page, unpack(page.head.identity, self._engine.read(stream, page)))
        return poll.nothing(page) if page.final else poll

    def _follow(self, request: Request, common: bytes, stream: Stream, query: ReadQuery) -> EventStream:
        """Begin an event stream, where a reconnecting browser left off if it says so (§5.8)."""
        last_event_id = request.headers.get(b"last-event-id")
        offset = parse_offset(last_event_id) if last_event_id else query.offset
        start = self._engine.page(stream, offset).start
        return EventStream(self._engine, stream, common, self._cursor(query), start, self._settings)


def _cache_policy(request: Request, query: ReadQuery, page: Page) -> CachePolicy:
    """An answer that begins where its URL does not say must not be given to others who send the same URL."""
    if query.offset not in {page.start, Sentinel.BEGINNING}:
        return CachePolicy.NONE
    return CachePolicy.PRIVATE if b"authorization" in request.headers else CachePolicy.PUBLIC


def _closes(headers: dict[bytes, bytes]) -> bool:
    """Only `true`, in any case, closes; anything else is as if the header were absent (§4.1)."""
    value = headers.get(b"stream-closed")
    return value is not None and value.lower() == b"true"


def _parse_fork(request: Request) -> ForkFrom | None:
    headers = request.headers
    source, offset = headers.get(b"stream-forked-from"), headers.get(b"stream-fork-offset")
    sub_offset = headers.get(b"stream-fork-sub-offset")
    if source is None:
        if offset is not None or sub_offset is not None:
            raise InvalidHeader("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        return None
    skipped = 0 if sub_offset is None else parse_sub_offset(sub_offset)
    if skipped and offset is None:
        raise InvalidHeader("Stream-Fork-Sub-Offset needs Stream-Fork-Offset, the anchor from which it counts")
    return ForkFrom(
        parse_source_path(source.removeprefix(request.root)),
        None if offset is None else parse_fork_offset(offset),
        skipped,
    )
