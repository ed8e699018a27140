"""The subscription resources: each method parses its request, has the engine decide, renders the outcome (§6, §7)."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.subscriptions.service import Subscriptions, WakeReport
from everbrook.protocol.errors import AlreadyClaimed, InvalidAck, InvalidRequest, ProtocolError, TokenInvalid
from everbrook.protocol.offset import Sentinel, parse_offset
from everbrook.protocol.path import decode_path
from everbrook.protocol.query import parse_parameters, require_utf8
from everbrook.protocol.read import NO_STORE
from everbrook.protocol.subscriptions.config import Config, parse_config, parse_path, parse_paths, parse_subscription_id
from everbrook.protocol.subscriptions.subscription import Subscription, format_position
from everbrook.server.deferred import Steps, answer_in_slices
from everbrook.server.exchange import Reply, Request, Response
from everbrook.server.methods import REPORTS
from everbrook.server.resources.headers import no_content
from everbrook.server.routes import Resource, Route
from everbrook.server.webhooks.guard import check_url
from everbrook.server.webhooks.worker_api import SLICE, LinkInfo, WorkerApi, status_of

Body = TypeVar("Body")
Method = Callable[[Request, bytes, Route], Reply]

JWKS_MAX_AGE_SECS = 300

MAX_LISTED = 1000


class StreamsBody(Struct):
    """The body of a request that links streams (§6.4)."""

    streams: list[str]


class ClaimBody(Struct):
    """The body of a claim (§7.2)."""

    worker: str


class AckBody(Struct):
    """An ack in the body of a report."""

    offset: str
    stream: str | None = None
    path: str | None = None


class ReportBody(Struct):
    """The body of a callback, an ack or a release (§7.1, §7.2)."""

    wake_id: str
    generation: int
    acks: list[AckBody] = []
    done: bool = False


class Summary(Struct):
    """A subscription in a list. `acked_offset` is that of the stream in the query."""

    subscription_id: str
    type: str
    pattern: str | None
    wake_stream: str | None
    status: str
    generation: int
    awake: bool
    acked_offset: str | UnsetType


class ErrorInfo(Struct, omit_defaults=True):
    """A refusal in the form of the specification (§7)."""

    code: str
    message: str
    current_holder: str | None = None
    generation: int | None = None


class ErrorBody(Struct):
    """The body of a refusal (§7)."""

    error: ErrorInfo


def refuse(error: ProtocolError, common: bytes, rests_on: int) -> Response:
    """Render a refusal of a control resource."""
    info = ErrorInfo(error.code.upper(), error.detail)
    if isinstance(error, AlreadyClaimed):
        info.current_holder, info.generation = error.holder, error.generation
    own = b"".join(b"%b: %b\r\n" % header for header in error.headers)
    return _json(error.status, common + own, ErrorBody(info), rests_on)


def _json(status: int, common: bytes, document: object, rests_on: int = 0) -> Response:
    lines = b"%bContent-Type: application/json\r\nCache-Control: %b\r\n" % (common, NO_STORE)
    return Response(status, lines, msgspec.json.encode(document), rests_on)


def _decode(body: bytes, kind: type[Body]) -> Body:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not the expected JSON: {error}") from None


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer" or not token:
        raise TokenInvalid("an Authorization header with a Bearer token is needed")
    return token.strip().decode("latin-1")


class SubscriptionResource:
    """The resources of subscriptions."""

    def __init__(
        self, engine: Engine, subscriptions: Subscriptions, workers: WorkerApi, *, allow_loopback_http: bool
    ) -> None:
        self._engine = engine
        self._subscriptions = subscriptions
        self._workers = workers
        self._allow_loopback_http = allow_loopback_http

    def handle(self, request: Request, common: bytes, route: Route, handler: str) -> Reply:
        """Handle a request by one of the methods below. Refusals have the form of the specification (§7)."""
        try:
            if route.bucket_id is not None and not _hides_bucket(request, route):
                self._engine.buckets.find(route.bucket_id)
            answer: Method = getattr(self, handler)
            return answer(request, common, route)
        except ProtocolError as error:
            return refuse(error, common, self._engine.last_change)

    def create(self, request: Request, common: bytes, route: Route) -> Reply:
        """PUT (§6.2)."""
        config = parse_config(request.body, route.root)
        if config.webhook_url is not None:
            # This check gives the client an early error. Each delivery checks again, because a name may lead elsewhere
            # by then.
            check_url(config.webhook_url, allow_loopback_http=self._allow_loopback_http)
        base_url = self._workers.base_url(request, route.root)
        return self._in_slices(common, route, self._creating(common, route, base_url, config))

    def _creating(self, common: bytes, route: Route, base_url: str, config: Config) -> Steps:
        backfill = self._subscriptions.begin_backfill(route.root, _id(route), config)
        try:
            yield from self._loading(route.root, config.streams)
            while backfill and not backfill.step():
                yield None
            if route.bucket_id is not None:
                # The backfill may have taken several turns, and the bucket may have been deleted meanwhile.
                self._engine.buckets.find(route.bucket_id)
            subscription, new = self._subscriptions.subscribe(route.root, _id(route), base_url, config, backfill)
        # If the client leaves, the generator is closed here. Without this, the backfill would follow changes for ever.
        finally:
            if backfill:
                backfill.close()
        yield from self._describing(201 if new else 200, common, subscription)

    def _loading(self, root: bytes, paths: Sequence[str]) -> Steps:
        """Load streams into memory in slices. The decision needs them all, and must not read the disk in one turn."""
        for start in range(0, len(paths), SLICE):
            for path in paths[start : start + SLICE]:
                self._engine.exists(root + path.encode())
            yield None

    def read(self, _request: Request, common: bytes, route: Route) -> Reply:
        """GET (§6.3)."""
        subscription = self._subscriptions.find(route.root, _id(route))
        return self._in_slices(common, route, self._describing(200, common, subscription))

    def _describing(self, status: int, common: bytes, subscription: Subscription) -> Steps:
        streams: dict[str, LinkInfo] = {}
        for some in self._workers.links(subscription):
            streams |= some
            yield None
        trouble = self._subscriptions.trouble(subscription)
        description = self._workers.describe(subscription, list(streams.values()), trouble)
        yield _json(status, common, description, self._engine.last_change)

    def _in_slices(self, common: bytes, route: Route, steps: Steps) -> Reply:
        engine = self._engine
        return answer_in_slices(engine, route.root, steps, lambda error: refuse(error, common, engine.last_change))

    def list_all(self, request: Request, common: bytes, route: Route) -> Response:
        """GET …/subscriptions: those of the stream root, or those that one stream wakes."""
        stream = parse_parameters(request.query, {b"stream"}).get(b"stream")
        if stream is not None:
            require_utf8(b"stream", stream)
        if stream is None:
            found = self._subscriptions.below(route.root)
        else:
            found = self._subscriptions.woken_by(route.root + stream)
        listed = [self._summary(subscription, stream) for subscription in found[:MAX_LISTED]]
        return _json(200, common, {"subscription_count": len(found), "subscriptions": listed}, self._engine.last_change)

    def _summary(self, subscription: Subscription, stream: bytes | None) -> Summary:
        link = subscription.links.get(stream.decode()) if stream is not None else None
        return Summary(
            subscription.id,
            subscription.config.type,
            subscription.config.pattern,
            subscription.config.wake_stream,
            status_of(subscription, self._subscriptions.trouble(subscription)),
            subscription.generation,
            subscription.wake is not None,
            format_position(link.acked) if link else UNSET,
        )

    def delete(self, _request: Request, common: bytes, route: Route) -> Response:
        """DELETE (§6.3)."""
        self._subscriptions.unsubscribe(route.root, _id(route))
        return no_content(common, self._engine.last_change)

    def link(self, request: Request, common: bytes, route: Route) -> Reply:
        """POST …/streams (§6.4)."""
        paths = parse_paths(_decode(request.body, StreamsBody).streams, route.root)
        return self._in_slices(common, route, self._linking(common, route, paths))

    def _linking(self, common: bytes, route: Route, paths: list[str]) -> Steps:
        yield from self._loading(route.root, paths)
        self._subscriptions.link(route.root, _id(route), tuple(paths))
        yield no_content(common, self._engine.last_change)

    def unlink(self, _request: Request, common: bytes, route: Route) -> Response:
        """DELETE …/streams/:path (§6.4)."""
        path = parse_path(decode_path(route.argument).decode(), route.root)
        self._subscriptions.unlink(route.root, _id(route), path)
        return no_content(common, self._engine.last_change)

    def claim(self, request: Request, common: bytes, route: Route) -> Reply:
        """POST …/claim (§7.2)."""
        worker = _decode(request.body, ClaimBody).worker
        if not worker:
            raise InvalidRequest("worker must not be empty")
        return self._in_slices(common, route, self._claiming(common, route, worker))

    def _claiming(self, common: bytes, route: Route, worker: str) -> Steps:
        subscription_id = _id(route)
        yield from self._loading(route.root, self._subscriptions.claimable(route.root, subscription_id))
        # Each attempt checks as many streams as a wake may name; the next slice checks others.
        while (subscription := self._subscriptions.claim(route.root, subscription_id, worker)) is None:
            yield None
        yield _json(200, common, self._workers.claimed(subscription), self._engine.last_change)

    def callback(self, request: Request, common: bytes, route: Route) -> Response:
        """POST …/callback (§7.1)."""
        return self._report(request, common, route, pull=False)

    def ack(self, request: Request, common: bytes, route: Route) -> Response:
        """POST …/ack (§7.2)."""
        return self._report(request, common, route, pull=True)

    def _report(self, request: Request, common: bytes, route: Route, *, pull: bool) -> Response:
        report = self._fenced(request, route, pull=pull)
        next_wake = self._subscriptions.report(route.root, _id(route), report)
        # The worker may forget its work when it gets this response, so its acks must be durable first.
        return _json(200, common, {"ok": True, "next_wake": next_wake}, self._engine.last_change)

    def release(self, request: Request, common: bytes, route: Route) -> Response:
        """POST …/release (§7.2)."""
        report = self._fenced(request, route, pull=True)
        self._subscriptions.report(route.root, _id(route), WakeReport(report.wake_id, report.generation, done=True))
        return no_content(common, self._engine.last_change)

    def _fenced(self, request: Request, route: Route, *, pull: bool) -> WakeReport:
        """Read the report of a worker, if its token is for the subscription and of the same generation (§7.3)."""
        token = self.require_token(request, route)
        body = _decode(request.body, ReportBody)
        subscription = self._subscriptions.find(route.root, _id(route))
        self._workers.check(token, subscription, body.generation, body.wake_id)
        _require_kind(subscription, pull=pull)
        acks = tuple(_parse_ack(ack, route.root) for ack in body.acks)
        return WakeReport(body.wake_id, body.generation, acks, body.done)

    def require_token(self, request: Request, route: Route) -> str:
        """Return the token of a report, or refuse the report.

        The policy does not protect these resources, so a client without a token must not learn which subscriptions
        exist (§12.9).
        """
        token = _bearer(request)
        self._workers.require_named(token, route.root, _id(route))
        return token

    def keys(self, _request: Request, common: bytes, _route: Route) -> Response:
        """GET …/jwks.json (§6.5)."""
        lines = b"%bContent-Type: application/jwk-set+json\r\nCache-Control: public, max-age=%d\r\n" % (
            common,
            JWKS_MAX_AGE_SECS,
        )
        return Response(200, lines, msgspec.json.encode(self._workers.jwks()), self._engine.last_change)


def _hides_bucket(request: Request, route: Route) -> bool:
    """Tell whether the refusals of a resource must not reveal which buckets exist, because no policy protects it."""
    return route.resource in REPORTS or (route.resource is Resource.JWKS and request.rights is not None)


def _require_kind(subscription: Subscription, *, pull: bool) -> None:
    if subscription.pull is not pull:
        kind = "pull-wake" if subscription.pull else "webhook"
        raise InvalidRequest(f"the reports of a {kind} subscription have another URL")


def _id(route: Route) -> str:
    return parse_subscription_id(route.name)


def _parse_ack(ack: AckBody, root: bytes) -> tuple[str, int]:
    try:
        offset = parse_offset(ack.offset.encode())
    except (ProtocolError, UnicodeEncodeError):
        raise InvalidAck(f"an ack's offset must be one that this server issued, got {ack.offset[:64]!r}") from None
    if isinstance(offset, Sentinel):
        raise InvalidAck(f"an ack's offset must be one that this server issued, got {ack.offset!r}")
    return parse_path(ack.stream or ack.path or "", root), offset
