"""The delivery of a webhook: one POST to a URL that the guard allows, and the response of the receiver (§7.1).

Whatever a receiver does, the outcome is a value, in bounded time and memory. Redirects are not followed, because the
guard has not checked their targets. No proxy, cookie or credential of this machine's environment is used. The buckets
share the concurrent deliveries fairly.
"""

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Self

import msgspec
from httpcore2 import (
    URL,
    AsyncConnectionPool,
    AsyncNetworkBackend,
    NetworkError,
    ProtocolError,
    Response,
    TimeoutException,
)
from msgspec import Struct

from everbrook.protocol.errors import WebhookUrlRejected
from everbrook.protocol.json_text import too_deep
from everbrook.server.webhooks.guard import Resolver, Target, check_url
from everbrook.server.webhooks.network import GuardedNetwork, SystemResolver

MAX_REASON_CHARACTERS = 300
SUCCESSES, REDIRECTS = range(200, 300), range(300, 400)
Sign = Callable[[bytes], str]
"""Returns the value of `Webhook-Signature` for a body and the present time."""


class Slots:
    """Slots for concurrent deliveries. Buckets that wait for one take turns (round robin).

    A quarter of the slots is kept for buckets that hold none. For the others the rule is that of dynamic thresholds: a
    bucket takes another slot only while it holds fewer than are free. One bucket gets at most half of them, the next
    one half of the rest. So a few buckets that keep theirs for long leave some to others, and it takes many to hold
    all.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._kept = count // 4
        self._held = Counter[str]()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def of(self, bucket: str) -> AsyncIterator[None]:
        """Hold a slot for a bucket. Wait until the bucket has its turn."""
        if not self._may_take(bucket):
            await self._wait(bucket)
        else:
            self._take(bucket)
        try:
            yield
        finally:
            self._release(bucket)

    def _may_take(self, bucket: str) -> bool:
        held = self._held[bucket]
        return held < self._free - (self._kept if held else 0)

    def _take(self, bucket: str) -> None:
        self._free -= 1
        self._held[bucket] += 1

    async def _wait(self, bucket: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(bucket, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The slot was assigned just before the task was cancelled, so nobody else would release it.
                self._release(bucket)
            raise

    def _release(self, bucket: str) -> None:
        self._free += 1
        self._held[bucket] -= 1
        if not self._held[bucket]:
            del self._held[bucket]
        if turns := self._waiting.pop(bucket, None):
            # The bucket has just had its turn, so it moves to the end of the queue.
            self._waiting[bucket] = turns
        while (next_bucket := next(filter(self._may_take, self._waiting), None)) is not None:
            self._give(next_bucket)

    def _give(self, bucket: str) -> None:
        """Assign a slot to the first waiting delivery of a bucket, and move the bucket to the end of the queue."""
        turns = self._waiting.pop(bucket)
        turn = turns.popleft()
        if turns:
            self._waiting[bucket] = turns
        if not turn.cancelled():
            self._take(bucket)
            turn.set_result(None)


class DeliveryLimits(Struct, frozen=True, kw_only=True):
    """The limits of one delivery, and of all together."""

    max_concurrent: int
    max_idle_connections: int
    idle_secs: float
    connect_timeout_secs: float
    total_timeout_secs: float
    max_response_bytes: int


class DeliveryOutcome(Struct, frozen=True):
    """The outcome of a delivery: `error` is None if and only if the receiver accepted it, with a status of 2xx."""

    status: int | None
    done: bool = False
    error: str | None = None

    @property
    def accepted(self) -> bool:
        return self.error is None


STOPPED = DeliveryOutcome(None, error="the server is stopping")


class _ReceiverResponse(Struct):
    """The part of a receiver's response that matters (§7.1)."""

    done: bool = False


@cache
def system_tls() -> ssl.SSLContext:
    """Trust the certificate authorities of this machine. Loading them takes long, so a thread should do it first."""
    return ssl.create_default_context()


class WebhookClient:
    """Delivers webhooks from one event loop, a bounded number at a time."""

    def __init__(
        self,
        limits: DeliveryLimits,
        *,
        allow_loopback_http: bool,
        resolver: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
        network: AsyncNetworkBackend | None = None,
    ) -> None:
        """By default the resolver, the trusted authorities and the network are the system's."""
        self._limits = limits
        self._allow_loopback_http = allow_loopback_http
        # A lookup may last longer than its delivery. There may be twice as many lookups as deliveries, so that the slow
        # names of one bucket leave some to the others.
        tls, resolver = tls or system_tls(), resolver or SystemResolver(2 * limits.max_concurrent)
        # One pool per scheme, because the scheme decides which addresses are allowed.
        schemes = ("https", "http") if allow_loopback_http else ("https",)
        self._pools = {scheme: _pool(limits, GuardedNetwork(scheme, resolver, network), tls) for scheme in schemes}
        self._slots = Slots(limits.max_concurrent)
        self._running: set[asyncio.Task[DeliveryOutcome]] = set()
        self._stopped = False

    async def post(self, url: str, body: bytes, sign: Sign, bucket: str = "") -> DeliveryOutcome:
        """Deliver one body of a bucket. It is signed right before it is sent: a receiver refuses an old signature.

        Slow receivers delay only the deliveries of their own bucket.
        """
        if self._stopped:
            return STOPPED
        task = asyncio.ensure_future(self._in_turn(url, body, sign, bucket))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            # `wait` does not raise when `aclose` cancels the task: the outcome of that is STOPPED, not an exception.
            await asyncio.wait((task,))
        finally:
            task.cancel()
        return STOPPED if task.cancelled() else task.result()

    async def aclose(self) -> None:
        """Cancel the deliveries that are under way, which end as STOPPED, and close every connection."""
        self._stopped = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for pool in self._pools.values():
            await pool.aclose()

    async def __aenter__(self) -> Self:
        """Return the client, which the context closes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _in_turn(self, url: str, body: bytes, sign: Sign, bucket: str) -> DeliveryOutcome:
        async with self._slots.of(bucket):
            try:
                target = check_url(url, allow_loopback_http=self._allow_loopback_http)
                async with asyncio.timeout(self._limits.total_timeout_secs):
                    return await self._exchange(target, body, sign(body))
            except TimeoutError:
                return DeliveryOutcome(None, error=f"no complete response within {self._limits.total_timeout_secs:g} s")
            except WebhookUrlRejected as refusal:
                return DeliveryOutcome(None, error=refusal.detail)
            except (NetworkError, ProtocolError, TimeoutException, OSError) as error:
                return DeliveryOutcome(None, error=_reason(error))
            except AttributeError as error:
                # anyio asks the socket for its peer, and has none if the connection was lost as soon as it was made.
                if error.name != "getpeername":
                    raise
                return DeliveryOutcome(None, error="the connection was lost as soon as it was made")

    async def _exchange(self, target: Target, body: bytes, signature: str) -> DeliveryOutcome:
        request = self._pools[target.scheme].stream(
            "POST",
            URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path),
            headers=_headers(target, body, signature),
            content=body,
            extensions={"timeout": {"connect": self._limits.connect_timeout_secs}},
        )
        async with request as response:
            if response.status not in SUCCESSES:
                return DeliveryOutcome(response.status, error=_refusal(response.status))
            return DeliveryOutcome(response.status, _parse_done(await self._read(response)))

    async def _read(self, response: Response) -> bytes:
        """Read the response of a receiver. If it is too long, it is ignored and its connection closed."""
        read = bytearray()
        async for chunk in response.aiter_stream():
            read += chunk
            if len(read) > self._limits.max_response_bytes:
                return b""
        return bytes(read)


def _pool(limits: DeliveryLimits, network: GuardedNetwork, tls: ssl.SSLContext) -> AsyncConnectionPool:
    return AsyncConnectionPool(
        ssl_context=tls,
        max_connections=limits.max_concurrent,
        max_keepalive_connections=limits.max_idle_connections,
        keepalive_expiry=limits.idle_secs,
        network_backend=network,
    )


def _headers(target: Target, body: bytes, signature: str) -> list[tuple[str, str]]:
    return [
        ("Host", target.authority),
        ("User-Agent", "everbrook"),
        ("Accept", "application/json"),
        # A compressed response could expand beyond the limit of its size.
        ("Accept-Encoding", "identity"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("Webhook-Signature", signature),
    ]


def _parse_done(body: bytes) -> bool:
    """Tell whether a response says that the work is done. Other bodies than a JSON object of bounded depth do not."""
    try:
        return msgspec.json.decode(body, type=_ReceiverResponse).done and not too_deep(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


def _refusal(status: int) -> str:
    redirected = "; redirects are not followed" if status in REDIRECTS else ""
    return f"the receiver responded with {status}{redirected}"


def _reason(error: Exception) -> str:
    """Describe an error in bounded and printable text, because a part of it may come from the receiver."""
    words = (str(error) or type(error).__name__)[:MAX_REASON_CHARACTERS]
    return "the delivery failed: " + "".join(letter if letter.isprintable() else "?" for letter in words)
