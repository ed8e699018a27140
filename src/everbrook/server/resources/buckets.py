"""The bucket resource, the quota of a bucket, and the list of buckets (002 §1)."""

from collections.abc import Callable
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.limits import UNLIMITED
from everbrook.engine.quotas import Quota
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.protocol.commands import CreateBucket
from everbrook.protocol.errors import InvalidRequest, ProtocolError, Unavailable
from everbrook.protocol.path import BUCKET_RECORDS, BUCKET_ROOT, BUCKETS, bucket_prefix
from everbrook.protocol.retention import format_retention, parse_retention
from everbrook.protocol.state import Head
from everbrook.server.auth.scopes import below
from everbrook.server.deferred import settle
from everbrook.server.exchange import Deferred, Exchange, Reply, Request, Response, problem_response
from everbrook.server.limits.concurrency import ConcurrencyLimits
from everbrook.server.location import Locator
from everbrook.server.resources.headers import json_response, no_content
from everbrook.server.resources.listing import parse_window
from everbrook.server.routes import Route

Bound = Annotated[int, Meta(ge=0, le=2**53)]


class Bucket(Struct):
    """A bucket, as clients see it. A list of buckets omits the number of streams.

    The size is known only if it is limited.
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
    """A bucket, and the list of all buckets."""

    def __init__(
        self, engine: Engine, locator: Locator, subscriptions: Subscriptions, concurrency: ConcurrencyLimits
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._concurrency = concurrency
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
        readers = self._concurrency.readers_of(bucket_id)
        bucket.live_readers = UNSET if readers is None else readers
        return json_response(200, common, msgspec.json.encode(bucket))

    def delete(self, _request: Request, common: bytes, route: Route) -> Reply:
        """DELETE (002 §1.5). Streams whose lifetime has ended do not count, even if they have not been removed yet."""
        bucket_id = route.bucket_id or b""
        if after := self._engine.buckets.expire_some(bucket_id, b""):
            return Deletion(self._engine, common, bucket_id, after, self._delete)
        return no_content(common, self._delete(bucket_id))

    def _delete(self, bucket_id: bytes) -> int:
        """Delete an empty bucket. Return the change that the response rests on."""
        self._engine.buckets.delete(bucket_id)
        self._subscriptions.drop_root(bucket_prefix(bucket_id))
        return self._engine.last_change

    def list_all(self, request: Request, common: bytes, _route: Route) -> Response:
        """GET of all buckets."""
        window = parse_window(request.query)
        prefix, after = BUCKET_RECORDS + window.prefix, BUCKET_RECORDS + window.after
        # One more than listed, to know whether there is a next page.
        found = self._found(request, prefix, after, window.limit + 1)
        listed = found[: window.limit]
        more = len(found) > window.limit
        # The cursor is taken from the names, because nothing else is known of a damaged bucket.
        cursor = listed[-1][0][len(BUCKET_RECORDS) :].decode() if more else None
        page = Buckets([_bucket(head) for _, head in listed if head], cursor, more)
        return json_response(200, common, msgspec.json.encode(page))

    def _found(self, request: Request, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, Head | None]]:
        """Find the buckets of which the request may read every stream."""
        readable = request.rights.readable(request) if request.rights else (BUCKETS,)
        if any(below(each, BUCKETS) for each in readable):
            return self._engine.listing.living(prefix, after, limit)
        # The grants name few buckets, so each is looked up: a scan would examine all of them.
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


class QuotaRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A quota as clients send it. For bounds that it omits, the settings apply."""

    max_bytes: Bound | None = None
    max_streams: Bound | None = None


_request_decoder = msgspec.json.Decoder(QuotaRequest)


class QuotaResource:
    """The quota of a bucket, for administrators of the server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self, _request: Request, common: bytes, route: Route) -> Response:
        """GET: the quota that was set."""
        return self._tell(common, self._engine.buckets.quota(route.bucket_id or b""))

    def set(self, request: Request, common: bytes, route: Route) -> Response:
        """PUT: replaces the quota."""
        try:
            wanted = _request_decoder.decode(request.body)
        except msgspec.DecodeError as error:
            raise InvalidRequest(
                f"a quota must be a JSON object with max_bytes, max_streams or both: {error}"
            ) from None
        quota = Quota(wanted.max_bytes, wanted.max_streams)
        self._engine.buckets.set_quota(route.bucket_id or b"", quota)
        return self._tell(common, quota)

    def unset(self, _request: Request, common: bytes, route: Route) -> Response:
        """DELETE: the settings apply again. The quota of a deleted bucket can be removed too."""
        self._engine.buckets.unset_quota(route.bucket_id or b"")
        return no_content(common, self._engine.last_change)

    def _tell(self, common: bytes, quota: Quota) -> Response:
        return json_response(200, common, msgspec.json.encode(quota), self._engine.last_change)


class Deletion(Deferred):
    """The response to the deletion of a bucket in which many streams have expired: they are deleted in slices.

    Each slice becomes durable before the next one begins, so that the changes of others need not wait for all of them.
    """

    def __init__(
        self, engine: Engine, common: bytes, bucket_id: bytes, after: bytes, delete: Callable[[bytes], int]
    ) -> None:
        """Continue `after` a name of the bucket. `delete` deletes the bucket and returns the number of that change."""
        self._engine = engine
        self._common = common
        self._bucket_id = bucket_id
        self._after = after
        self._delete = delete

    def start(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._engine.when_durable(self._engine.last_change, self._continue_guarded)

    def _continue_guarded(self, failure: Unavailable | None) -> None:
        exchange = self.exchange
        # The engine calls this among the responses of others, so an exception must not leave it.
        if exchange and self._engine.faults.run(Callback.RESPONSE, self._continue, failure):
            exchange.abort()

    def _continue(self, failure: Unavailable | None) -> None:
        try:
            if failure:
                raise failure
            after = self._engine.buckets.expire_some(self._bucket_id, self._after)
            rests_on = self._engine.last_change if after else self._delete(self._bucket_id)
        except ProtocolError as error:
            settle(self, self._engine, problem_response(error, self._common, self._engine.last_change), self._refuse)
            return
        if after:
            self._after = after
            self._engine.when_durable(rests_on, self._continue_guarded)
        else:
            settle(self, self._engine, no_content(self._common, rests_on), self._refuse)

    def _refuse(self, error: ProtocolError) -> Response:
        return problem_response(error, self._common)
