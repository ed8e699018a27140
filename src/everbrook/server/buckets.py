"""The bucket resource, and the list of buckets (002 §1)."""

from itertools import islice

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.limits import UNLIMITED
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.commands import CreateBucket
from everbrook.protocol.path import BUCKET_RECORDS, BUCKET_ROOT, BUCKETS, bucket_prefix
from everbrook.protocol.retaining import format_retention, parse_retention
from everbrook.protocol.state import Head
from everbrook.server.auth.grants import below
from everbrook.server.deletion import Deletion
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.limits.holdings import Holdings
from everbrook.server.listing import parse_window
from everbrook.server.location import Locator
from everbrook.server.render import json_response, no_content
from everbrook.server.routes import Route


class Bucket(Struct):
    """A bucket as it is told of. How many streams are in it is not counted for a list of buckets.

    How much it holds is counted, and told, where that is bounded.
    """

    bucket_id: str
    created_at_ms: int
    streams: int | UnsetType = UNSET
    retention: str | UnsetType = UNSET
    bytes: int | UnsetType = UNSET
    max_bytes: int | UnsetType = UNSET
    max_streams: int | UnsetType = UNSET
    subscriptions: int | UnsetType = UNSET
    live_readers: int | UnsetType = UNSET


class Buckets(Struct):
    """A page of buckets."""

    buckets: list[Bucket]
    next_cursor: str | None
    has_more: bool


class BucketResource:
    """What can be done to a bucket's URL."""

    def __init__(self, engine: Engine, locator: Locator, subscriptions: Subscriptions, holdings: Holdings) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._holdings = holdings
        self._locator = locator

    def create(self, request: Request, common: bytes, route: Route) -> Response:
        """PUT (002 §1.2)."""
        command = CreateBucket(
            route.bucket_id or b"",
            self._engine.clock.now(),
            self._engine.new_incarnation(),
            parse_retention(request.headers.get(b"stream-retention")),
        )
        bucket = _bucket(self._engine.execute(command).head, 0)
        bucket.subscriptions = 0
        lines = b"%bLocation: %b\r\n" % (common, self._locator.url(request, request.path))
        return json_response(201, lines, msgspec.json.encode(bucket), self._engine.last_change)

    def describe(self, _request: Request, common: bytes, route: Route) -> Response:
        """GET (002 §1.3)."""
        bucket_id = route.bucket_id or b""
        head = self._engine.buckets.find(bucket_id)
        bucket = _bucket(head, self._engine.listing.count(bucket_prefix(bucket_id)))
        if usage := self._engine.buckets.usage(bucket_id):
            held, (max_bytes, max_streams) = usage
            bucket.bytes = held.size
            bucket.max_bytes = max_bytes if max_bytes < UNLIMITED else UNSET
            bucket.max_streams = max_streams if max_streams < UNLIMITED else UNSET
        bucket.subscriptions = self._subscriptions.count(bucket_prefix(bucket_id))
        readers = self._holdings.readers_of(bucket_id)
        bucket.live_readers = UNSET if readers is None else readers
        return json_response(200, common, msgspec.json.encode(bucket))

    def delete(self, _request: Request, common: bytes, route: Route) -> Reply:
        """DELETE (002 §1.5). Streams in it whose time has run out are none, even if nobody has noticed yet."""
        bucket_id = route.bucket_id or b""
        if after := self._engine.buckets.expire_some(bucket_id, b""):
            return Deletion(self._engine, common, bucket_id, after, self._delete)
        return no_content(common, self._delete(bucket_id))

    def _delete(self, bucket_id: bytes) -> int:
        """Delete a bucket that is empty. Gives the change that an answer rests on."""
        self._engine.buckets.delete(bucket_id)
        self._subscriptions.drop_root(bucket_prefix(bucket_id))
        return self._engine.last_change

    def list_all(self, request: Request, common: bytes, _route: Route) -> Response:
        """GET of all buckets."""
        window = parse_window(request.query)
        prefix, after = BUCKET_RECORDS + window.prefix, BUCKET_RECORDS + window.after
        found = self._found(request, prefix, after, window.limit + 1)
        told = found[: window.limit]
        more = len(found) > window.limit
        # The cursor follows the names: of a bucket that is damaged nothing else is known.
        cursor = told[-1][0][len(BUCKET_RECORDS) :].decode() if more else None
        page = Buckets([_bucket(head) for _, head in told if head], cursor, more)
        return json_response(200, common, msgspec.json.encode(page))

    def _found(self, request: Request, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Find buckets, but only those of which all may be read."""
        readable = request.rights.readable(request) if request.rights else (BUCKETS,)
        if any(below(each, BUCKETS) for each in readable):
            return self._engine.listing.living(prefix, after, limit)
        ids = {each[len(BUCKET_ROOT) :] for each in readable if each.startswith(BUCKET_ROOT)}
        records = sorted(BUCKET_RECORDS + each for each in ids if b"/" not in each)
        wanted = (record for record in records if record.startswith(prefix) and record > after)
        there = (
            entry for record in wanted for entry in self._engine.listing.living(record, b"", 1) if entry[0] == record
        )
        return list(islice(there, limit))


def _bucket(head: Head, streams: int | UnsetType = UNSET) -> Bucket:
    identity = head.identity
    retention = format_retention(identity.retention).decode() if identity.retention else UNSET
    bucket_id = identity.name[len(BUCKET_RECORDS) :].decode()
    return Bucket(bucket_id, identity.created_at, streams, retention)
