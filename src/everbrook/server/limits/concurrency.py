"""Concurrency limits: how many connections and live reads one address, identity or bucket has at a time (429).

Each is counted under a key at its begin and discounted under the same key at its end, exactly once. A key whose count
is 0 is removed.
"""

from collections.abc import Hashable

from everbrook.protocol.errors import TooManyRequests
from everbrook.protocol.path import BUCKET_ROOT, decode_path
from everbrook.server.auth.proxies import Proxies
from everbrook.server.exchange import Request
from everbrook.server.limits.rates import client_of, identity_of
from everbrook.server.routes import PROBES
from everbrook.settings import LimitSettings
from everbrook.settings.loopback import is_loopback
from everbrook.settings.sections.limits import ADDRESS_CONNECTIONS

WAIT_SECS = 5


Place = tuple[Hashable | None, Hashable | None, Hashable | None]
"""The keys under which a live read is counted: of its address, its identity and its bucket."""
NO_PLACE: Place = (None, None, None)


class BoundedCounts:
    """Counts by key, each up to `most`. If `most` is zero, there is no limit, and nothing is counted."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._held: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._held)

    def held(self, key: Hashable) -> int:
        """Return the count of a key."""
        return self._held.get(key, 0)

    def has_room(self, key: Hashable | None) -> bool:
        """Tell whether the count of a key is below the limit."""
        return not self.most or key is None or self._held.get(key, 0) < self.most

    def enter(self, key: Hashable | None) -> None:
        """Increment the count of a key."""
        if self.most and key is not None:
            self._held[key] = self._held.get(key, 0) + 1

    def leave(self, key: Hashable | None) -> None:
        """Decrement the count of a key."""
        if not self.most or key is None:
            return
        left = self._held[key] - 1
        if left:
            self._held[key] = left
        else:
            del self._held[key]


class ConcurrencyLimits:
    """Counts open connections and live reads by address, identity and bucket, and refuses those beyond the bounds."""

    def __init__(self, limits: LimitSettings, proxies: Proxies) -> None:
        """Connections of trusted proxies are not counted; live reads count for the clients behind them."""
        self._proxies = proxies
        most = limits.max_connections_per_address
        self.connections = BoundedCounts(ADDRESS_CONNECTIONS if most is None else most)
        self._spares_loopback = most is None
        self.identified = BoundedCounts(limits.max_connections_per_identity)
        self.readers_by_address = BoundedCounts(limits.max_readers_per_address)
        self.readers_by_identity = BoundedCounts(limits.max_readers_per_identity)
        self.readers_by_bucket = BoundedCounts(limits.max_readers_per_bucket)
        every = (self.readers_by_address, self.readers_by_identity, self.readers_by_bucket)
        self._counts_readers = any(counts.most for counts in every)
        self._identity_of: dict[int, Hashable] = {}

    # Connections

    def open(self, address: str) -> Hashable | None:
        """Count a connection from an address, or refuse it. Return the key for `close`."""
        if not self.connections.most or self._proxies.trusts(address):
            return None
        if self._spares_loopback and is_loopback(address):
            return None
        key = client_of(address) or None
        if not self.connections.has_room(key):
            raise TooManyRequests(
                f"one address may have {self.connections.most} connections at a time, unless it is that of a trusted "
                "proxy (limits.max_connections_per_address)",
                wait_secs=WAIT_SECS,
            )
        self.connections.enter(key)
        return key

    def close(self, key: Hashable | None, number: int) -> None:
        """Decrement the counts of a connection's address and identity."""
        self.connections.leave(key)
        self.identified.leave(self._identity_of.pop(number, None))

    def admit(self, request: Request) -> None:
        """Count the connection of a request for the identity of the request, or refuse the request.

        A connection counts for the identity of its latest request. Connections of trusted proxies carry the requests of
        many clients, so they do not count.
        """
        number, key = request.peer.number, identity_of(request)
        if not number or request.path in PROBES or self._identity_of.get(number) == key:
            return
        if self._proxies.speaks(request):
            return
        # The new identity is checked before the old one is left, so that a refusal changes no count.
        if not self.identified.has_room(key):
            raise TooManyRequests(
                f"one identity may have {self.identified.most} connections at a time", wait_secs=WAIT_SECS
            )
        self.identified.leave(self._identity_of.pop(number, None))
        if key is not None:
            self.identified.enter(key)
            self._identity_of[number] = key

    # Live reads

    def begin_reading(self, request: Request) -> Place:
        """Count a live read, or refuse it. Return the keys for `end_reading`."""
        if not self._counts_readers:
            return NO_PLACE
        by_address, by_identity, by_bucket = self.readers_by_address, self.readers_by_identity, self.readers_by_bucket
        place = client_of(self._proxies.client_address(request)) or None, identity_of(request), _bucket_of(request)
        # All limits are checked before any read is counted, so that a refusal changes no count.
        if not by_address.has_room(place[0]):
            raise TooManyRequests(f"one address may have {by_address.most} live reads at a time", wait_secs=WAIT_SECS)
        if not by_identity.has_room(place[1]):
            raise TooManyRequests(f"one identity may have {by_identity.most} live reads at a time", wait_secs=WAIT_SECS)
        if not by_bucket.has_room(place[2]):
            raise TooManyRequests(f"one bucket may have {by_bucket.most} live reads at a time", wait_secs=WAIT_SECS)
        by_address.enter(place[0])
        by_identity.enter(place[1])
        by_bucket.enter(place[2])
        return place

    def end_reading(self, place: Place) -> None:
        """Decrement the counts of a live read."""
        self.readers_by_address.leave(place[0])
        self.readers_by_identity.leave(place[1])
        self.readers_by_bucket.leave(place[2])

    def readers_of(self, bucket_id: bytes) -> int | None:
        """Return how many live reads a bucket has, or None where they are not counted."""
        return self.readers_by_bucket.held(bucket_id) if self.readers_by_bucket.most else None


def _bucket_of(request: Request) -> bytes:
    """Return the id of the bucket of a live read. The base surface counts as one bucket, with an empty id."""
    if not request.path.startswith(BUCKET_ROOT):
        return b""
    return decode_path(request.path[len(BUCKET_ROOT) :].partition(b"/")[0])
