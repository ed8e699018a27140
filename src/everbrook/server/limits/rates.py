"""Rate limits: how many requests per second an address or an identity may send, and how many bytes it may append (429).

The gate for addresses runs before authentication, so that it bounds guesses of tokens too; the gate for identities runs
after it. A refusal draws nothing, and its `Retry-After` is the time after which the same request would be admitted if
no other arrived. If a request is admitted by its head, before its body arrives, the request is counted then and its
bytes later: with the whole body, or piece by piece as a streamed body arrives. A key whose bucket is in debt for bytes
is refused until the debt is repaid.

A token bucket is one number: the time at which it will be full again. A full bucket needs no entry, and the table is
bounded: the least recently used bucket is dropped first. The price is that a client with more addresses than the table
has entries evades its buckets.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from time import monotonic

from everbrook.protocol.errors import TooManyRequests
from everbrook.server.exchange import STREAMED_PATH, Gate, Request
from everbrook.server.routes import PROBES
from everbrook.settings import LimitSettings

IPV6_PREFIX_BITS = 64


MAX_BUCKETS = 65_536
BODIES = {b"POST", b"PUT"}
Whose = Callable[[Request], Hashable | None]


@lru_cache(maxsize=4096)
def client_of(address: str) -> str:
    """Return the key of the client at an address. The IPv6 network of a customer (a /64) counts as one client.

    An IPv4-mapped IPv6 address is the same client as the IPv4 address.
    """
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ip_network((parsed, IPV6_PREFIX_BITS), strict=False))


class Rate:
    """A table of token buckets. Each is refilled at `per_sec`, and its capacity is the refill of `burst_secs`."""

    __slots__ = ("_burst_secs", "_full_at", "_max_buckets", "_per_sec")

    def __init__(self, per_sec: float, burst_secs: float, max_buckets: int = MAX_BUCKETS) -> None:
        self._per_sec = per_sec
        self._burst_secs = burst_secs
        self._max_buckets = max_buckets
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def wait_secs(self, key: Hashable, now: float) -> float:
        """Return in how many seconds a draw is allowed; 0 means now."""
        full_at = self._full_at.get(key)
        return 0.0 if full_at is None else max(0.0, full_at - now - self._burst_secs)

    def draw(self, key: Hashable, amount: float, now: float) -> None:
        """Draw an amount. A bucket may go into debt, so that a request larger than a full bucket is possible too."""
        buckets = self._full_at
        # A bucket that became full in the past has no more than a full one.
        full_at = max(buckets.get(key, now), now) + amount / self._per_sec
        buckets[key] = full_at
        buckets.move_to_end(key)
        if len(buckets) > self._max_buckets:
            buckets.popitem(last=False)


class RateGate:
    """The gate that limits the requests and the appended bytes of each key. `whose` returns the key of a request."""

    def __init__(self, whose: Whose, owner: str, requests: Rate | None, append_bytes: Rate | None) -> None:
        """A rate of None means no limit. `owner` is the word for the key in refusals: address or identity."""
        self._whose = whose
        self._owner = owner
        self._requests = requests
        self._append_bytes = append_bytes
        self.refused = 0

    def admit(self, request: Request) -> None:
        """Draw the cost of a request, or refuse it."""
        key = self._whose(request)
        if key is None or request.path in PROBES:
            return
        now, sent_bytes = monotonic(), len(request.body) if request.method in BODIES else 0
        requests = None if request.admitted else self._requests
        # Both rates are checked before either is drawn, so that a refused request costs its client nothing.
        self._require(requests, key, now, "requests")
        if _brings_bytes(request):
            self._require(self._append_bytes, key, now, "bytes")
        if requests is not None:
            requests.draw(key, 1, now)
        if self._append_bytes is not None and sent_bytes:
            self._append_bytes.draw(key, sent_bytes, now)

    def count(self, request: Request, sent_bytes: int) -> None:
        """Draw bytes of a streamed body, whose head was admitted before."""
        key = self._whose(request)
        if key is not None and self._append_bytes is not None:
            self._append_bytes.draw(key, sent_bytes, monotonic())

    def _require(self, rate: Rate | None, key: Hashable, now: float, what: str) -> None:
        wait_secs = 0.0 if rate is None else rate.wait_secs(key, now)
        if wait_secs > 0:
            self.refused += 1
            raise TooManyRequests(
                f"this {self._owner} exceeds its rate of {what}; try again in {ceil(wait_secs)} s",
                wait_secs=ceil(wait_secs),
            )


def _brings_bytes(request: Request) -> bool:
    """Tell whether a request has a body, even if it has not arrived yet."""
    if request.method not in BODIES:
        return False
    declared = b"transfer-encoding" in request.headers or request.headers.get(b"content-length", b"0") != b"0"
    return declared or bool(request.body) or STREAMED_PATH in request.path


def identity_of(request: Request) -> Hashable | None:
    """Return the key of a request's identity. Anonymous and shared ones have None: only their addresses are limited."""
    identity = request.identity
    return (identity.source, identity.subject) if identity and not identity.shared else None


def address_gate(limits: LimitSettings, address_of: Callable[[Request], str]) -> Gate | None:
    """Make the gate for addresses, if there are limits."""
    return _gate(
        lambda request: client_of(address_of(request)) or None,
        "address",
        limits.requests_per_sec_per_address,
        limits.append_bytes_per_sec_per_address,
        limits.burst_secs,
    )


def identity_gate(limits: LimitSettings) -> Gate | None:
    """Make the gate for identities, if there are limits."""
    return _gate(
        identity_of,
        "identity",
        limits.requests_per_sec_per_identity,
        limits.append_bytes_per_sec_per_identity,
        limits.burst_secs,
    )


def _gate(whose: Whose, owner: str, requests: int, append_bytes: int, burst_secs: float) -> Gate | None:
    if not requests and not append_bytes:
        return None
    return RateGate(
        whose,
        owner,
        # One request must always be possible, so a bucket holds at least one.
        Rate(requests, max(burst_secs - 1 / requests, 0.0)) if requests else None,
        Rate(append_bytes, burst_secs) if append_bytes else None,
    )
