"""The stream resource: each method parses its request, has the engine decide, and renders the outcome (§5)."""

from collections.abc import Callable
from functools import partial

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.protocol.commands import Create, Delete, Existing, ForkFrom
from everbrook.protocol.create import parse_sub_offset
from everbrook.protocol.errors import InvalidHeader, StreamDamaged
from everbrook.protocol.json_mode import LARGE_BYTES, Split, Unplaced, is_large_batch, split_in_pieces
from everbrook.protocol.lifetime import (
    format_expires_at,
    format_incarnation,
    parse_expires_at,
    parse_ttl,
    told_ttl_secs,
)
from everbrook.protocol.offset import parse_fork_offset
from everbrook.protocol.path import REGISTRY, parse_stream_path
from everbrook.protocol.query import parse_lookup, parse_read_query
from everbrook.protocol.read import NO_STORE
from everbrook.protocol.retention import parse_retention
from everbrook.protocol.state import Producer
from everbrook.server.deferred import Awaited, Steps, answer_in_slices
from everbrook.server.exchange import Prepared, Reply, Request, Response, problem_response
from everbrook.server.limits.large_changes import LargeChanges
from everbrook.server.location import Locator, StreamRoots
from everbrook.server.resources.appends import (
    PreparedAppend,
    append_lines,
    append_response,
    can_be_prepared,
    closes,
    parse_append,
    writable_name,
)
from everbrook.server.resources.headers import (
    CLOSED,
    NO_STORE_LINE,
    json_response,
    kept_lines,
    no_content,
    producer_lines,
    with_incarnation,
)
from everbrook.server.resources.reads import Reads
from everbrook.server.resources.registry import Registry
from everbrook.server.resources.response_cache import PreparedRead, ResponseCache, can_be_cached
from everbrook.server.routes import Route
from everbrook.server.tuning import ServerTuning
from everbrook.settings import Settings, TtlRule

UNSPLIT = Split()
"""Null object for a large body that is not a large batch."""
MAX_PLACES = 3
"""How often the ends of a large batch are computed in slices. Small appends may move the tail meanwhile, so that they
must be computed again; after the last attempt they are computed in one turn."""

_CREATED = b"%b" + NO_STORE_LINE + b"Content-Type: %b\r\nStream-Next-Offset: %016d\r\nStream-Incarnation: %b\r\n%b"


MAX_LISTED_PRODUCERS = 1000


class StreamResource:
    """A stream: its changes and its metadata. `Reads` handles its reads."""

    def __init__(
        self, engine: Engine, settings: Settings, locator: Locator, roots: StreamRoots, tuning: ServerTuning
    ) -> None:
        self._engine = engine
        self._readers = engine.readers
        self._fixed_ttl = settings.server.ttl is TtlRule.FIXED
        self._locator = locator
        self._roots = roots
        self._registry = Registry(engine, tuning.registry)
        self._large_changes = LargeChanges(engine)
        self._reads = Reads(engine, settings)
        self._response_cache = ResponseCache(tuning.response_cache)

    def prepare(self, request: Request) -> Prepared | None:
        """Find the short way of handling requests with the head of this one."""
        if request.method == b"POST" and can_be_prepared(request.headers):
            return PreparedAppend(self._engine, writable_name(request), request.headers)
        handle = {b"GET": self.read, b"HEAD": self.describe}.get(request.method)
        if handle and parse_stream_path(request.path) != REGISTRY and can_be_cached(request):
            return PreparedRead(
                self._engine, self._response_cache, request, handle, private=self._reads.is_private(request)
            )
        return None

    def _answer_large(self, request: Request, common: bytes, method: Callable[[Request, bytes, Split], Reply]) -> Reply:
        """Split a large batch in slices, and call `method` when its bucket has room for another large change."""
        name, body = writable_name(request), request.body

        def steps() -> Steps:
            split, size = UNSPLIT, len(body)
            if is_large_batch(request.headers, body):
                split = yield from split_in_pieces(body)
                split.patience = MAX_PLACES
                size += split.lengths.itemsize * len(split.lengths)
            # Another large change may have taken the room since the wait ended, so the check is repeated.
            while wait := self._large_changes.wait(name, size):
                yield wait
            with self._large_changes.deciding(name):
                reply: Reply | None = None
                while reply is None:
                    try:
                        reply = method(request, common, split)
                    except Unplaced as unplaced:
                        yield from split.place(unplaced.tail)
                assert isinstance(reply, Response)  # noqa: S101 - a request that is split is answered at once
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
            name=writable_name(request),
            now=now,
            incarnation=self._engine.new_incarnation(),
            content_type=headers.get(b"content-type") or None,
            body=request.body,
            closed=closes(headers),
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
        engine, headers, name = self._engine, request.headers, writable_name(request)
        command = parse_append(name, engine.clock.now(), request.body, headers)
        if split is not None and split is not UNSPLIT:
            command = replace(command, split=split)
        if b"stream-incarnation" in headers:
            engine.require_incarnation(name, headers[b"stream-incarnation"])
        outcome = engine.append(command)
        return append_response(outcome, append_lines(common, outcome.head.identity, engine.epoch), engine.last_change)

    def delete(self, request: Request, common: bytes) -> Response:
        """DELETE (§5.4)."""
        name = writable_name(request)
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
        # A producer must not resume from a position that a crash may still undo, so the newest change must be durable.
        return Response(200, b"".join(lines), rests_on=self._engine.last_change)

    def read(self, request: Request, common: bytes) -> Reply:
        """GET, in its three modes (§5.6 to §5.8)."""
        name = parse_stream_path(request.path)
        if name == REGISTRY and not self._registry.wake():
            brief = parse_read_query(request.query).live is None
            find = partial(self._reads.read, request, common, name)
            return Awaited(self._engine, common, self._registry.wait, find, brief=brief)
        try:
            return self._reads.read(request, common, name)
        except StreamDamaged:
            # The first attempt found the damage. The second one reads what is stored before it.
            return self._reads.read(request, common, name)


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
        raise InvalidHeader("the registry can't be forked, because the server replaces it from time to time")
    return ForkFrom(
        name,
        None if offset is None else parse_fork_offset(offset),
        skipped,
    )


class ProducerEntry(Struct):
    """A producer in a list."""

    producer_id: str
    epoch: int
    seq: int
    last_append_at_ms: int
    position: str | UnsetType = UNSET


class Producers(Struct):
    """The producers that appended last, the most recent one first, and the number of all producers."""

    producer_count: int
    producers: list[ProducerEntry]


class ProducerResource:
    """The producers of a stream, with the last epoch, sequence number and position of each (§5.2.1)."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, request: Request, common: bytes, route: Route) -> Response:
        stream = self._engine.readers.find(route.name, self._engine.clock.now())
        common = with_incarnation(request, common, stream.committed.identity, self._engine.epoch)
        known = stream.producers
        last = list(known.items())[: -MAX_LISTED_PRODUCERS - 1 : -1]
        listed = Producers(len(known), [_producer_entry(producer_id, producer) for producer_id, producer in last])
        response = json_response(200, common, msgspec.json.encode(listed))
        response.rests_on = self._engine.last_change
        return response


def _producer_entry(producer_id: bytes, producer: Producer) -> ProducerEntry:
    position = UNSET if producer.position is None else producer.position.decode("utf-8", "backslashreplace")
    shown_id = producer_id.decode("utf-8", "backslashreplace")
    return ProducerEntry(shown_id, producer.epoch, producer.seq, producer.seen_at, position)
