"""The listing of a surface: its streams in the order of their names, page by page, or those that changed (002 §1.4)."""

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.recent_changes import Ended
from everbrook.protocol.errors import InvalidQuery, StreamDamaged, StreamGone, StreamNotFound
from everbrook.protocol.lifetime import format_incarnation
from everbrook.protocol.path import REGISTRY, STREAM_ROOT, bucket_prefix
from everbrook.protocol.query import parse_count, parse_parameters, require_utf8
from everbrook.protocol.state import Head
from everbrook.server.auth.scopes import Verb, below
from everbrook.server.deferred import Steps, answer_in_slices
from everbrook.server.exchange import Reply, Request, Response, problem_response
from everbrook.server.resources.headers import json_response
from everbrook.server.routes import Route

MAX_LIMIT = 1000

_PARAMETERS = {b"prefix", b"after", b"limit", b"changed_since"}


SLICE = 16

Found = list[tuple[bytes, Head | None]]


class Span(Struct, frozen=True, order=True):
    """The names that begin with `start`, or only `start` itself if the span is `exact`."""

    start: bytes
    exact: bool = False

    def covers(self, name: bytes) -> bool:
        return name == self.start if self.exact else name.startswith(self.start)


def visible_spans(prefixes: Iterable[bytes], window: bytes) -> tuple[Span, ...]:
    """Return the sorted spans of names that begin with `window` and lie below a prefix, by whole segments.

    Only these are scanned, so that a client that may read few streams does not cause a scan of all of them.
    """
    known = set(prefixes)
    if any(window.startswith(b"%b/" % prefix) for prefix in known):
        return (Span(window),)
    inside = {prefix for prefix in known if prefix.startswith(window)}
    outermost = [each for each in inside if not any(below(other, each) for other in inside if other != each)]
    spans = [span for prefix in outermost for span in (Span(prefix, exact=True), Span(b"%b/" % prefix))]
    return tuple(sorted(spans))


class Collection:
    """Collects a page of streams in slices, so that other requests need not wait for all of it.

    If heads must be read from the disk, a whole page may take longer than a live reader should wait. The names are in
    `spans`, which are sorted, and follow `after`.
    """

    def __init__(
        self,
        engine: Engine,
        spans: Sequence[Span],
        after: bytes,
        limit: int,
        render: Callable[[Found], Response],
    ) -> None:
        self._engine = engine
        self._spans = list(reversed(spans))
        self._after = after
        self._limit = limit
        self._render = render
        self._found: Found = []

    def steps(self) -> Steps:
        """Find some streams in each step, and yield the response at the end."""
        while not self._take_slice():
            yield None
        yield self._render(self._found)

    def _take_slice(self) -> bool:
        """Find more streams. Return whether the page is complete, or there are no others."""
        wanted = min(SLICE, self._limit - len(self._found))
        found, go_on_after = self._take_from(self._spans[-1], wanted)
        self._found += found
        if len(self._found) == self._limit:
            return True
        if go_on_after is None:
            self._spans.pop()
            return not self._spans
        self._after = go_on_after
        return False

    def _take_from(self, span: Span, wanted: int) -> tuple[Found, bytes | None]:
        if not span.exact:
            return self._engine.listing.scan(span.start, self._after, wanted)
        if self._after >= span.start:
            return [], None
        # In the sorted order an exact name is the first of all names that begin with it.
        found, _ = self._engine.listing.scan(span.start, b"", 1)
        return [(name, head) for name, head in found if name == span.start], None


class Entry(Struct):
    """A stream in a listing. A deleted one has only its end, a damaged one only its name."""

    stream_id: str
    status: str
    content_type: str | UnsetType = UNSET
    tail_offset: int | UnsetType = UNSET
    created_at_ms: int | UnsetType = UNSET
    last_write_at_ms: int | UnsetType = UNSET
    earliest_offset: int | UnsetType = UNSET
    snapshot_offset: int | UnsetType | None = UNSET
    size_bytes: int | UnsetType = UNSET
    ttl_secs: int | UnsetType = UNSET
    expires_at_ms: int | UnsetType = UNSET
    snapshot_bytes: int | UnsetType = UNSET
    snapshot_at_ms: int | UnsetType = UNSET
    incarnation: str | UnsetType = UNSET


class Listing(Struct):
    """A page of streams."""

    bucket_id: str | UnsetType
    prefix: str
    stream_count: int = 0
    streams: list[Entry] = []
    next_cursor: str | None = None
    has_more: bool = False
    token: str = ""


class Window(Struct, frozen=True):
    """The requested part of a listing."""

    prefix: bytes
    after: bytes
    limit: int
    changed_since: bytes | None = None


def parse_window(query: bytes) -> Window:
    """Read the parameters of a listing (002 §1.4)."""
    values = parse_parameters(query, _PARAMETERS)
    limit = parse_count(b"limit", values[b"limit"]) if b"limit" in values else MAX_LIMIT
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidQuery(f"limit must be a number from 1 to {MAX_LIMIT}, got {limit}")
    changed_since = values.get(b"changed_since")
    if changed_since is not None and b"after" in values:
        raise InvalidQuery("changed_since and after can't be combined: continue with the token of the last page")
    prefix, after = (require_utf8(key, values.get(key, b"")) for key in (b"prefix", b"after"))
    return Window(prefix, after, limit, changed_since)


class ListingResource:
    """The streams of a surface, page by page, or those that changed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, request: Request, common: bytes, route: Route) -> Reply:
        window = parse_window(request.query)
        root: bytes = STREAM_ROOT
        bucket_id: str | UnsetType = UNSET
        if route.bucket_id is not None:
            self._engine.buckets.find(route.bucket_id)
            root, bucket_id = bucket_prefix(route.bucket_id), route.bucket_id.decode()
        spans = _visible(request, root + window.prefix)
        page = Listing(bucket_id, window.prefix.decode(), token=self._engine.recent_changes.token())
        if window.changed_since is not None:
            return _respond(common, self._moved(page, root, window, spans, window.changed_since))
        # One more tells whether there are more, and another one may be the registry, which is not listed.
        collection = Collection(
            self._engine,
            spans,
            root + window.after,
            window.limit + 2,
            lambda found: self._page(common, page, root, window, found),
        )
        return answer_in_slices(self._engine, root, collection.steps(), lambda error: problem_response(error, common))

    def _moved(self, page: Listing, root: bytes, window: Window, spans: tuple[Span, ...], token: bytes) -> Listing:
        # As above: one more tells whether there are more, and another one may be the registry.
        visible = spans[0].covers if len(spans) == 1 else lambda name: any(span.covers(name) for span in spans)
        moved = self._engine.recent_changes.since(token, root + window.prefix, window.limit + 2, visible)
        moved = [(change, its_token) for change, its_token in moved if change != REGISTRY]
        page.streams = [self._moved_entry(change, root) for change, _ in moved[: window.limit]]
        page.stream_count = len(page.streams)
        if len(moved) > window.limit:
            page.has_more, page.token = True, moved[window.limit - 1][1]
        return page

    def _moved_entry(self, change: bytes | Ended, root: bytes) -> Entry:
        if isinstance(change, Ended):
            return self._ended_entry(change.name, change, root)
        try:
            return self._entry(change, self._engine.readers.find(change, self._engine.clock.now()).committed, root)
        except StreamDamaged:
            return self._entry(change, None, root)
        except (StreamNotFound, StreamGone):
            return self._ended_entry(change, self._engine.find_ended(change), root)

    def _ended_entry(self, name: bytes, ended: Ended | None, root: bytes) -> Entry:
        entry = Entry(name[len(root) :].decode(), "Deleted")
        if ended:
            entry.tail_offset, entry.incarnation = ended.tail, f"{ended.incarnation ^ self._engine.epoch:x}"
        return entry

    def _page(self, common: bytes, page: Listing, root: bytes, window: Window, found: Found) -> Response:
        listed = [(name, head) for name, head in found if name != REGISTRY]
        page.streams = [self._entry(name, head, root) for name, head in listed[: window.limit]]
        page.stream_count = len(page.streams)
        if len(listed) > window.limit:
            page.has_more, page.next_cursor = True, page.streams[-1].stream_id
        return _respond(common, page)

    def _entry(self, name: bytes, head: Head | None, root: bytes) -> Entry:
        stream_id = name[len(root) :].decode()
        if head is None:
            return Entry(stream_id, "Damaged")
        identity, earliest, snapshot = head.identity, head.kept.earliest, head.kept.snapshot
        return Entry(
            stream_id,
            "Closed" if head.closed else "Open",
            identity.content_type.decode("latin-1"),
            head.tail,
            identity.created_at,
            head.written_at,
            earliest,
            snapshot.offset if snapshot else None,
            head.tail - earliest,
            UNSET if identity.ttl_secs is None else identity.ttl_secs,
            UNSET if identity.expires_at is None else identity.expires_at,
            snapshot.size if snapshot else UNSET,
            snapshot.published_at if snapshot else UNSET,
            format_incarnation(identity, self._engine.epoch).decode(),
        )


def _visible(request: Request, window: bytes) -> tuple[Span, ...]:
    """Return the spans that the request may read. Refuse the request if there are none."""
    if request.rights is None:
        return (Span(window),)
    spans = visible_spans(request.rights.readable(request), window)
    if not spans:
        raise request.rights.refusal(request, Verb.READ, window.removesuffix(b"/"))
    return spans


def _respond(common: bytes, page: Listing) -> Response:
    return json_response(200, common, msgspec.json.encode(page))
