"""The stream resource: each method parses its request, lets the engine decide, and renders the outcome (§5)."""

from collections.abc import Callable, Mapping
from functools import partial

from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.engine.registry import Registry, require_writable
from everbrook.engine.stream import Stream
from everbrook.protocol import frames
from everbrook.protocol.append import parse_expected_tail, parse_stream_seq
from everbrook.protocol.commands import Append, Appended, Create, Delete, Existing, ForkFrom
from everbrook.protocol.create import parse_sub_offset
from everbrook.protocol.errors import InvalidHeader, StreamDamaged
from everbrook.protocol.json_mode import LARGE_BYTES, Split, Unplaced, is_large_batch, split_in_pieces
from everbrook.protocol.lifetime import (
    deadline,
    format_expires_at,
    format_incarnation,
    parse_expires_at,
    parse_ttl,
    told_ttl_secs,
)
from everbrook.protocol.messages import unpack
from everbrook.protocol.offset import Sentinel, next_cursor, parse_fork_offset, parse_offset
from everbrook.protocol.path import REGISTRY, parse_stream_path
from everbrook.protocol.producer import parse_claim, parse_position, parse_resumed
from everbrook.protocol.query import Live, ReadQuery, parse_lookup, parse_read_query
from everbrook.protocol.read import NO_STORE, Page, cache_control, format_etag, matches
from everbrook.protocol.retention import parse_retention
from everbrook.server.exchange import Reply, Request, Response, problem_response
from everbrook.server.limits.large_changes import LargeChanges
from everbrook.server.location import Locator, StreamRoots
from everbrook.server.pending import Awaited, Steps, answer_in_slices
from everbrook.server.resources.compression import Compressor, choose_coding
from everbrook.server.resources.headers import (
    CLOSED,
    NO_STORE_LINE,
    kept_lines,
    no_content,
    page_lines,
    producer_lines,
    with_incarnation,
)
from everbrook.server.resources.live import CachePolicy, EventStream, LongPoll
from everbrook.server.resources.long_page import LongPage
from everbrook.server.routes import require_unpacked
from everbrook.settings import Settings, TtlRule

Method = Callable[[Request, bytes], Reply]

UNSPLIT = Split()
"""The result for a large body that is not a large batch."""
MAX_PLACES = 3
"""How often the ends of a large batch are computed in slices: small appends may move the tail meanwhile."""

LONG_POLL, SSE = "long_poll", "sse"

_CREATED = b"%b" + NO_STORE_LINE + b"Content-Type: %b\r\nStream-Next-Offset: %016d\r\nStream-Incarnation: %b\r\n%b"
_APPENDED = b"%b" + NO_STORE_LINE + b"Stream-Next-Offset: %016d\r\nStream-Incarnation: %b\r\n"


class StreamResource:
    """The methods of a stream's URL."""

    def __init__(self, engine: Engine, settings: Settings, locator: Locator, roots: StreamRoots) -> None:
        self._engine = engine
        self._readers = engine.readers
        self._settings = settings.server
        self._fixed_ttl = settings.server.ttl is TtlRule.FIXED
        self._identity_header = settings.auth.identity_header.lower().encode()
        self._locator = locator
        self._roots = roots
        self._registry = Registry(engine)
        self._large_changes = LargeChanges(engine)
        self._max_page_bytes = engine.limits.max_page_bytes
        self._compressor = Compressor(settings.http.compression_min_bytes, engine.faults)
        self.methods: dict[bytes, Method] = {
            b"POST": self.append,
            b"GET": self.read,
            b"HEAD": self.describe,
            b"PUT": self.create,
            b"DELETE": self.delete,
        }

    def _answer_large(self, request: Request, common: bytes, method: Callable[[Request, bytes, Split], Reply]) -> Reply:
        """If the body is a large batch, split it, and call a method with it when its bucket has capacity."""
        name, body = _writable(request), request.body

        def steps() -> Steps:
            split, size = UNSPLIT, len(body)
            if is_large_batch(request.headers, body):
                split = yield from split_in_pieces(body)
                split.patience = MAX_PLACES
                size += split.lengths.itemsize * len(split.lengths)
            while wait := self._large_changes.wait(name, size):
                yield wait
            with self._large_changes.deciding(name):
                reply: Reply | None = None
                while reply is None:
                    try:
                        reply = method(request, common, split)
                    except Unplaced as unplaced:
                        yield from split.place(unplaced.tail)
                assert isinstance(reply, Response)  # noqa: S101 - what was prepared is answered at once
                self._large_changes.note(name, size)
            yield reply

        engine = self._engine
        return answer_in_slices(
            engine, name, steps(), lambda error: problem_response(error, common, engine.last_change)
        )

    def create(self, request: Request, common: bytes, split: Split | None = None) -> Reply:
        """PUT (§5.1)."""
        if len(request.body) >= LARGE_BYTES and split is None:
            return self._answer_large(request, common, self.create)
        headers, now = request.headers, self._engine.clock.now()
        ttl, expires_at = headers.get(b"stream-ttl"), headers.get(b"stream-expires-at")
        command = Create(
            name=_writable(request),
            now=now,
            incarnation=self._engine.new_incarnation(),
            content_type=headers.get(b"content-type") or None,
            body=request.body,
            closed=_closes(headers),
            ttl_secs=None if ttl is None else parse_ttl(ttl, now),
            expires_at=None if expires_at is None else parse_expires_at(expires_at),
            fork=_parse_fork(request, self._roots),
            retention=parse_retention(headers.get(b"stream-retention")),
            split=None if split is UNSPLIT else split,
            fixed_ttl=self._fixed_ttl,
        )
        outcome = self._engine.execute(command)
        head = outcome.head
        lines = _CREATED % (
            common,
            head.identity.content_type,
            head.tail,
            format_incarnation(head.identity, self._engine.epoch),
            CLOSED if head.closed else b"",
        )
        if isinstance(outcome, Existing):
            return Response(200, lines, b"", self._engine.last_change)
        location = self._locator.url(request, request.path)
        return Response(201, b"%bLocation: %b\r\n" % (lines, location), b"", self._engine.last_change)

    def append(self, request: Request, common: bytes, split: Split | None = None) -> Reply:
        """POST (§5.2, §5.3)."""
        if len(request.body) >= LARGE_BYTES and split is None:
            return self._answer_large(request, common, self.append)
        headers = request.headers
        stream_seq, expected = headers.get(b"stream-seq"), headers.get(b"if-match")
        command = Append(
            _writable(request),
            self._engine.clock.now(),
            headers.get(b"content-type") or None,
            request.body,
            _closes(headers),
            parse_claim(headers.get(b"producer-id"), headers.get(b"producer-epoch"), headers.get(b"producer-seq")),
            None if stream_seq is None else parse_stream_seq(stream_seq),
            None if expected is None else parse_expected_tail(expected),
            None if split is UNSPLIT else split,
        )
        if b"stream-incarnation" in headers:
            self._engine.require_incarnation(command.name, headers[b"stream-incarnation"])
        if b"producer-position" in headers or b"producer-resumes-from" in headers:
            command = _positioned(command, headers)
        outcome = self._engine.execute(command)
        head, producer = outcome.head, outcome.producer
        lines = _APPENDED % (common, head.tail, format_incarnation(head.identity, self._engine.epoch))
        if head.closed:
            lines += CLOSED
        if producer:
            lines += producer_lines(producer)
        status = 200 if producer and isinstance(outcome, Appended) else 204
        return Response(status, lines, b"", self._engine.last_change)

    def delete(self, request: Request, common: bytes) -> Response:
        """DELETE (§5.4)."""
        name = _writable(request)
        if b"stream-incarnation" in request.headers:
            self._engine.require_incarnation(name, request.headers[b"stream-incarnation"])
        self._engine.execute(Delete(name, self._engine.clock.now()))
        return no_content(common, self._engine.last_change)

    def describe(self, request: Request, common: bytes) -> Reply:
        """HEAD (§5.5)."""
        name = parse_stream_path(request.path)
        if name == REGISTRY and not self._registry.wake():
            return Awaited(self._engine, common, self._registry.wait, partial(self._describe, request, common, name))
        return self._describe(request, common, name)

    def _describe(self, request: Request, common: bytes, name: bytes) -> Response:
        now = self._engine.clock.now()
        stream = self._readers.find(name, now)
        head = stream.committed
        identity = head.identity
        common = with_incarnation(request, common, identity, self._engine.epoch)
        lines = [
            b"%bContent-Type: %b\r\nStream-Next-Offset: %016d\r\nCache-Control: %b\r\n"
            % (common, identity.content_type, head.tail, NO_STORE),
            kept_lines(head),
        ]
        lookup = parse_lookup(request.query) if request.query else None
        if lookup:
            lines.append(b"Stream-Offset: %016d\r\n" % self._readers.look_up(stream, lookup))
        ttl_secs = told_ttl_secs(identity, now)
        if ttl_secs is not None:
            lines.append(b"Stream-TTL: %d\r\n" % ttl_secs)
        elif identity.expires_at is not None:
            lines.append(b"Stream-Expires-At: %b\r\n" % format_expires_at(identity.expires_at))
        if head.closed:
            lines.append(CLOSED)
        if (producer_id := request.headers.get(b"producer-id")) is None:
            return Response(200, b"".join(lines))
        if producer := stream.producer(producer_id):
            lines.append(producer_lines(producer))
        # A producer must not resume from a position that a crash could revoke, so wait until it is durable.
        return Response(200, b"".join(lines), rests_on=self._engine.last_change)

    def read(self, request: Request, common: bytes) -> Reply:
        """GET, in its three modes (§5.6 to §5.8)."""
        name = parse_stream_path(request.path)
        if name == REGISTRY and not self._registry.wake():
            brief = parse_read_query(request.query).live is None
            find = partial(self._read, request, common, name)
            return Awaited(self._engine, common, self._registry.wait, find, brief=brief)
        try:
            return self._read(request, common, name)
        except StreamDamaged:
            # The damage is recorded now. The messages before it are readable.
            return self._read(request, common, name)

    def _read(self, request: Request, common: bytes, name: bytes) -> Reply:
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
        """Read the range that the query selects, in the format that it requests."""
        if query.seeks:
            start = self._readers.begin(stream, query)
            common += b"Stream-Offset: %016d\r\n" % start
            query = replace(query, offset=start, at=None, last=None, skip=None, cached=False)
        if query.live is Live.SSE:
            return self._follow(request, common, stream, query)
        # Frames, and the response to a long-poll, need a whole page in memory.
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
                private=self._is_private(request),
            ),
            etag,
        )
        worth_compressing = self._compressor.worthwhile(page)
        if worth_compressing:
            lines += b"Vary: Accept-Encoding\r\n"
        if_none_match = request.headers.get(b"if-none-match")
        if if_none_match is not None and matches(if_none_match, etag):
            return Response(304, lines)
        accepted = request.headers.get(b"accept-encoding", b"") if worth_compressing else b""
        if self._is_long(page, query):
            return LongPage(self._engine, stream, page, lines, choose_coding(accepted))
        response = Response(200, lines, self._body(stream, page, query))
        return self._compressor.reply(response, accepted) if worth_compressing else response

    def _is_long(self, page: Page, query: ReadQuery) -> bool:
        """Tell whether a page is sent in parts. Frames are not, because their head lists the ends of all messages."""
        return page.end - page.start > self._readers.batch_bytes and not query.frames

    def _body(self, stream: Stream, page: Page, query: ReadQuery) -> bytes:
        """Return a page in the requested format."""
        stored, identity = self._readers.read(stream, page), page.head.identity
        if not query.frames:
            return unpack(identity, stored)
        messages = self._readers.messages(stream, page)
        return frames.encode_frames(frames.frames_of(identity, page.start, messages.ends, messages.times, stored))

    def _is_private(self, request: Request) -> bool:
        """Tell whether a response is private, because its request had credentials of any kind.

        A server without authentication checks too, because a proxy in front of it may have verified the credentials.
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
            _cache_policy(query, page, private=self._is_private(request)),
        )
        if page.start < page.end:
            if_none_match = request.headers.get(b"if-none-match")
            if if_none_match is not None and (unmodified := poll.unmodified(page, if_none_match)):
                return unmodified
            return poll.found(page, unpack(page.head.identity, self._readers.read(stream, page)))
        return poll.nothing(page) if page.final else poll

    def _follow(self, request: Request, common: bytes, stream: Stream, query: ReadQuery) -> EventStream:
        """Begin an event stream, for a reconnecting browser at its `Last-Event-ID` (§5.8)."""
        request.operation = SSE
        last_event_id = request.headers.get(b"last-event-id")
        offset = parse_offset(last_event_id) if last_event_id else query.offset
        start = self._readers.page(stream, offset).start
        return EventStream(self._engine, stream, request, common, self._cursor(query), start, self._settings)


def _writable(request: Request) -> bytes:
    name = parse_stream_path(request.path)
    if name == REGISTRY:
        require_writable(name)
    if b"content-encoding" in request.headers and request.body:
        require_unpacked(request.headers)
    return name


def _positioned(command: Append, headers: Mapping[bytes, bytes]) -> Append:
    """Return the append with its producer's position and the position from which the producer resumes."""
    if command.claim is None:
        raise InvalidHeader("Producer-Position and Producer-Resumes-From need Producer-Id, -Epoch and -Seq")
    position = parse_position(headers.get(b"producer-position"))
    resumes_from = parse_resumed(headers.get(b"producer-resumes-from"))
    return replace(command, position=position, resumes_from=resumes_from)


def _cache_policy(query: ReadQuery, page: Page, *, private: bool) -> CachePolicy:
    """Choose the cache policy. A page whose start is not in the URL must not be cached under this URL."""
    if not query.cached or query.offset not in {page.start, Sentinel.BEGINNING}:
        return CachePolicy.NONE
    return CachePolicy.PRIVATE if private else CachePolicy.PUBLIC


def _closes(headers: dict[bytes, bytes]) -> bool:
    """Tell whether `Stream-Closed` is `true`, in any case; any other value counts as absent (§4.1)."""
    value = headers.get(b"stream-closed")
    return value is not None and value.lower() == b"true"


def _parse_fork(request: Request, roots: StreamRoots) -> ForkFrom | None:
    headers = request.headers
    name, offset = roots.source_of(request), headers.get(b"stream-fork-offset")
    sub_offset = headers.get(b"stream-fork-sub-offset")
    if name is None:
        if offset is not None or sub_offset is not None:
            raise InvalidHeader("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        return None
    skipped = 0 if sub_offset is None else parse_sub_offset(sub_offset)
    if skipped and offset is None:
        raise InvalidHeader("Stream-Fork-Sub-Offset needs Stream-Fork-Offset, the anchor from which it counts")
    if name == REGISTRY:
        raise InvalidHeader("the server replaces the registry now and then, so it can't be forked")
    return ForkFrom(
        name,
        None if offset is None else parse_fork_offset(offset),
        skipped,
    )
