"""The interface to workers: bodies of webhooks, claims and descriptions, with tokens and signatures (§6.3, §7)."""

import asyncio
import logging
import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, UnsetType

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.subscriptions.index import Trouble
from everbrook.engine.subscriptions.service import Subscriptions
from everbrook.engine.subscriptions.wakes import Delivery
from everbrook.protocol.errors import Fenced, ProtocolError, TokenInvalid
from everbrook.protocol.lifetime import format_expires_at
from everbrook.protocol.state import Head
from everbrook.protocol.subscriptions.pattern import literal_prefix
from everbrook.protocol.subscriptions.rules import matched_by_pattern
from everbrook.protocol.subscriptions.subscription import Subscription, Wake, format_position
from everbrook.server.exchange import OnDelivery, Request
from everbrook.server.location import Locator
from everbrook.server.webhooks.delivery import STOPPED, DeliveryLimits, WebhookClient
from everbrook.server.webhooks.secrets import JwkSet, Secrets
from everbrook.settings import WebhookSettings

logger = logging.getLogger(__name__)

# How many streams a description examines for its pattern, and how many of them in one step.
MAX_DESCRIBED_STREAMS = 10_000
SLICE = 16
# A token is valid for longer than its lease, because acks extend the lease. It limits the time for the work of a wake.
TOKEN_SECS = 7 * 24 * 3600
MAX_IDLE_CONNECTIONS = 20
IDLE_SECS = 15.0
MAX_RESPONSE_BYTES = 64 * 1024


class LinkInfo(Struct):
    """A stream of a subscription, as clients see it."""

    path: str
    link_type: str
    acked_offset: str
    tail_offset: str | UnsetType = UNSET
    has_pending: bool | UnsetType = UNSET


class Signing(Struct):
    """The key that signs webhooks, and the URL where it is published (§6.5)."""

    kid: str
    jwks_url: str
    alg: str = "ed25519"


class ProblemInfo(Struct):
    """The reason why a subscription can't wake its worker at present."""

    code: str
    message: str


class WebhookInfo(Struct):
    """The receiver of wakes."""

    url: str
    signing: Signing


class Description(Struct):
    """A subscription, as clients see it (§6.3)."""

    id: str
    subscription_id: str
    type: str
    pattern: str | None
    streams: list[LinkInfo]
    webhook: WebhookInfo | UnsetType
    wake_stream: str | None
    lease_ttl_ms: int
    created_at: str
    status: str
    description: str | None
    problem: ProblemInfo | UnsetType = UNSET


class WakeInfo(Struct):
    """A wake, as its worker sees it (§7.1, §7.2)."""

    wake_id: str
    generation: int
    streams: list[LinkInfo]
    subscription_id: str | UnsetType = UNSET
    callback_url: str | UnsetType = UNSET
    callback_token: str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    lease_ttl_ms: int | UnsetType = UNSET


class WorkerApi:
    """Describes wakes to workers, delivers webhooks, and checks the tokens of reports."""

    def __init__(
        self,
        engine: Engine,
        secrets: Secrets,
        client: WebhookClient,
        locator: Locator,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        self._engine = engine
        self._secrets = secrets
        self._client = client
        self._locator = locator
        self._on_delivery = on_delivery
        self._deliveries: set[asyncio.Task[None]] = set()

    def base_url(self, request: Request, root: bytes) -> str:
        """Return the URL of a stream root, as the client addresses it."""
        return self._locator.url(request, root.rstrip(b"/")).decode("latin-1")

    def _url(self, subscription: Subscription, below: str) -> str:
        """Return a control URL below the public URL, or below the URL that the subscription was created with."""
        public = self._locator.public(subscription.root.rstrip("/").encode())
        return f"{subscription.base_url if public is None else public.decode()}/__ds/{below}"

    # Descriptions

    def describe(
        self, subscription: Subscription, streams: list[LinkInfo], trouble: Trouble | None = None
    ) -> Description:
        """Describe a subscription (§6.3). `streams` come from `links`; `trouble` is the reason why it can't wake."""
        config = subscription.config
        webhook: WebhookInfo | UnsetType = UNSET
        if config.webhook_url is not None:
            jwks_url = self._url(subscription, "jwks.json")
            webhook = WebhookInfo(config.webhook_url, Signing(self._secrets.ring.active.kid, jwks_url))
        return Description(
            subscription.id,
            subscription.id,
            config.type,
            config.pattern,
            streams,
            webhook,
            config.wake_stream,
            config.lease_ttl_ms,
            format_expires_at(subscription.created_at).decode(),
            status_of(subscription, trouble),
            config.description,
            ProblemInfo(trouble.code.upper(), trouble.detail) if trouble else UNSET,
        )

    def links(self, subscription: Subscription) -> Iterator[dict[str, LinkInfo]]:
        """Yield the streams of a subscription in slices, including linked ones that do not exist yet."""
        root = subscription.root.encode()
        explicit = sorted(subscription.explicit)
        for start in range(0, len(explicit), SLICE):
            paths = explicit[start : start + SLICE]
            yield {path: self._link(subscription, path, self._head(root + path.encode())) for path in paths}
        if not subscription.config.pattern:
            return
        prefix = root + literal_prefix(subscription.config.pattern).encode()
        go_on_after: bytes | None = b""
        for _ in range(0, MAX_DESCRIBED_STREAMS, SLICE):
            if go_on_after is None:
                return
            found, go_on_after = self._engine.listing.scan(prefix, go_on_after, SLICE)
            named = ((name[len(root) :].decode(), head) for name, head in found)
            yield {
                path: self._link(subscription, path, head)
                for path, head in named
                if matched_by_pattern(subscription, path)
            }

    def _head(self, name: bytes) -> Head | None:
        try:
            return self._engine.readers.find(name, self._engine.clock.now()).committed
        except ProtocolError:
            return None

    def _link(self, subscription: Subscription, path: str, head: Head | None) -> LinkInfo:
        acked = subscription.acked(path, head.identity.incarnation if head else 0)
        kind = "explicit" if path in subscription.explicit else "glob"
        return LinkInfo(path, kind, format_position(acked))

    # Wakes

    def _streams(self, subscription: Subscription, wake: Wake) -> list[LinkInfo]:
        """List the streams of a wake. If it is sent again, workers may have acknowledged some of them."""
        infos: list[LinkInfo] = []
        for path, link in wake.tails.items():
            acked = subscription.acked(path, link.incarnation)
            tail = max(acked, link.acked)
            kind = "explicit" if path in subscription.explicit else "glob"
            infos.append(LinkInfo(path, kind, format_position(acked), format_position(tail), has_pending=tail > acked))
        return infos

    def claimed(self, subscription: Subscription) -> WakeInfo:
        """Describe a wake to the worker that has claimed it (§7.2)."""
        wake = subscription.wake
        assert wake is not None  # noqa: S101 - it was just claimed
        return WakeInfo(
            wake.wake_id,
            subscription.generation,
            self._streams(subscription, wake),
            token=self._token(subscription, wake),
            lease_ttl_ms=subscription.config.lease_ttl_ms,
        )

    def _token(self, subscription: Subscription, wake: Wake) -> str:
        expires_at = self._engine.clock.now() // 1000 + TOKEN_SECS
        return self._secrets.tokens.issue(_subject(subscription), subscription.generation, wake.wake_id, expires_at)

    def require_named(self, token: str, root: bytes, subscription_id: str) -> None:
        """Refuse a token that was not issued for a subscription of this name, whether or not it exists."""
        name, _, _created_at = self._secrets.tokens.read(token).subscription.rpartition("@")
        if name != f"{root.decode()}{subscription_id}":
            raise TokenInvalid("the token is for another subscription")

    def check(self, token: str, subscription: Subscription, generation: int, wake_id: str) -> None:
        """Refuse a token of another subscription, or of another wake than the request names (§7.3)."""
        grant = self._secrets.tokens.check(token, _subject(subscription), self._engine.clock.now() // 1000)
        if (grant.generation, grant.wake_id) != (generation, wake_id):
            raise Fenced("the token is of another wake")

    def jwks(self) -> JwkSet:
        """Return the public keys for receivers (§6.5)."""
        return self._secrets.ring.jwks(self._engine.clock.now() // 1000)

    # Webhooks

    def deliver(self, subscriptions: Subscriptions, subscription: Subscription, wake: Wake) -> None:
        """Send a wake to its webhook, and report the outcome to the engine (§7.1)."""
        info = WakeInfo(
            wake.wake_id,
            subscription.generation,
            self._streams(subscription, wake),
            subscription_id=subscription.id,
            callback_url=self._url(subscription, f"subscriptions/{quote(subscription.id, safe='')}/callback"),
            callback_token=self._token(subscription, wake),
        )
        body = msgspec.json.encode(info)
        generation = subscription.generation
        # A fault in the delivery counts as a failed attempt, so that the wake is sent again.
        failed = partial(subscriptions.delivered, subscription, generation, Delivery(taken=False))
        sending = partial(self._send, subscriptions, subscription, generation, body)
        task = asyncio.ensure_future(self._engine.faults.attempt(Callback.DELIVERY, sending, failed))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def _send(
        self, subscriptions: Subscriptions, subscription: Subscription, generation: int, body: bytes
    ) -> None:
        began = time.perf_counter()
        url = subscription.config.webhook_url or ""
        delivery = await self._client.post(url, body, self._sign, bucket=subscription.root)
        if self._on_delivery and delivery is not STOPPED:
            self._on_delivery(subscription.id, accepted=delivery.accepted, secs=time.perf_counter() - began)
        if delivery.error:
            logger.warning("the webhook of subscription %r failed: %s", subscription.id, delivery.error)
        else:
            logger.debug("the webhook of subscription %r was delivered", subscription.id)
        if delivery is not STOPPED:
            # A delivery that the stop cancelled has no result: the next start sends the wake again.
            subscriptions.delivered(subscription, generation, Delivery(delivery.accepted, delivery.done))

    def _sign(self, body: bytes) -> str:
        return self._secrets.ring.active.sign(body, self._engine.clock.now() // 1000)

    def rotate_keys(self, overlap_secs: int) -> str:
        """Sign with a new key as soon as it is durable. Return its id."""
        return self._secrets.rotate(overlap_secs)

    async def close(self) -> None:
        """Cancel the deliveries that are under way."""
        await self._client.aclose()


def webhook_client(settings: WebhookSettings) -> WebhookClient:
    """Make the client of the settings, on the running loop."""
    # A thread imports this module now. Otherwise the first connection would import it and block the event loop.
    asyncio.get_running_loop().run_in_executor(None, import_module, "anyio._backends._asyncio")
    limits = DeliveryLimits(
        max_concurrent=settings.max_concurrent,
        max_idle_connections=MAX_IDLE_CONNECTIONS,
        idle_secs=IDLE_SECS,
        connect_timeout_secs=settings.connect_timeout_secs,
        total_timeout_secs=settings.timeout_secs,
        max_response_bytes=MAX_RESPONSE_BYTES,
    )
    return WebhookClient(limits, allow_loopback_http=settings.allow_loopback_http)


def status_of(subscription: Subscription, trouble: Trouble | None) -> str:
    """Return the status of a subscription (§6.3)."""
    return "failed" if subscription.failures or trouble else "active"


def _subject(subscription: Subscription) -> str:
    """Name a subscription. The time makes the name unique, so tokens of a deleted one are invalid for a later one."""
    return f"{subscription.root}{subscription.id}@{subscription.created_at}"
