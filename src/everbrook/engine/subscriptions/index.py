"""The index of subscriptions: found by the name of their record, or by the streams that wake them."""

import logging
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.records import SUBSCRIPTION_RECORDS
from everbrook.engine.usage import Amount
from everbrook.protocol.errors import StreamDamaged, SubscriptionNotFound, quoted
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.protocol.state import Edit
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.pattern import GlobTrie
from everbrook.protocol.subscriptions.subscription import (
    Event,
    Stated,
    Subscription,
    decode_events,
    encode_events,
    fold,
)

logger = logging.getLogger(__name__)


def record_name(root: bytes, subscription_id: str) -> bytes:
    """Return the name of the record of a subscription, a stream without a URL."""
    return SUBSCRIPTION_RECORDS + root + subscription_id.encode()


def split_name(name: bytes) -> tuple[bytes, bytes] | None:
    """Split a name into the stream root and the path below it. None: it is not the name of a stream."""
    if name.startswith(STREAM_ROOT):
        return STREAM_ROOT, name[len(STREAM_ROOT) :]
    if name.startswith(BUCKET_ROOT):
        end = name.index(b"/", len(BUCKET_ROOT)) + 1
        return name[:end], name[end:]
    return None


def path_of(name: bytes) -> str:
    """Return the path of a stream below its stream root."""
    split = split_name(name)
    return split[1].decode() if split else ""


def size_of(config: Config, explicit: Iterable[str]) -> int:
    """Return the bytes that a subscription counts as: its configuration, and the paths that it links explicitly."""
    return len(msgspec.json.encode(config)) + sum(len(path.encode()) for path in explicit)


class Trouble(Struct, frozen=True):
    """The reason why a subscription can't wake a worker: code and text of the error that refused its wake."""

    code: str
    detail: str


class Active:
    """A subscription in memory. `candidates` are the streams that had news when they last changed."""

    __slots__ = (
        "candidates",
        "delivering",
        "name",
        "queued",
        "stated_bytes",
        "subscription",
        "timer",
        "trouble",
        "waits_until",
        "written_bytes",
    )

    def __init__(self, name: bytes, subscription: Subscription) -> None:
        self.name = name
        self.subscription = subscription
        self.candidates: dict[str, None] = {}
        self.timer: Timer | None = None
        self.queued = False
        self.delivering = 0
        """The generation whose delivery is under way; 0 if none is."""
        self.waits_until = 0
        """When to try again to wake, after a wake that was refused; else 0."""
        self.trouble: Trouble | None = None
        """Why its last wake was refused, until a wake succeeds."""
        self.written_bytes = 0
        self.stated_bytes = 0

    def take(self, events: tuple[Event, ...]) -> None:
        """Apply events to the state."""
        for event in events:
            self.subscription = fold(self.subscription, event)

    def forget(self, path: str, incarnation: int) -> None:
        """Forget a dropped stream. A later stream of the same name is another incarnation, and is linked anew."""
        self.candidates.pop(path, None)
        link = self.subscription.links.get(path)
        if link and link.incarnation == incarnation:
            del self.subscription.links[path]

    def stop(self) -> None:
        """Cancel the timer."""
        if self.timer:
            self.timer.cancel()
            self.timer = None


class _Root:
    """The links below one stream root, with the number and the bytes of their subscriptions."""

    def __init__(self) -> None:
        self.subscriptions = self.size = 0
        self.globs: GlobTrie[Active] = GlobTrie()
        self.explicit: dict[str, dict[Active, None]] = {}
        self.wake_streams: dict[str, dict[Active, None]] = {}


class LinkIndex:
    """The links of all subscriptions, patterns and explicit ones, looked up by the name of a stream.

    The matches of a name are cached until a subscription comes or goes, so that an append costs one look-up.
    """

    def __init__(self, max_cached: int, max_cached_bytes: int) -> None:
        """Cache the matches of at most `max_cached` names, which have at most `max_cached_bytes` together."""
        self._max_cached = max_cached
        self._max_cached_bytes = max_cached_bytes
        self._cached_bytes = 0
        self._roots: dict[bytes, _Root] = {}
        self._cached: dict[bytes, tuple[Active, ...]] = {}

    def add(self, active: Active) -> None:
        """Add the links of a subscription."""
        subscription = active.subscription
        root = self._roots.setdefault(subscription.root.encode(), _Root())
        root.subscriptions += 1
        root.size += size_of(subscription.config, subscription.explicit)
        if subscription.config.pattern:
            root.globs.add(subscription.config.pattern, active)
        for path in subscription.explicit:
            root.explicit.setdefault(path, {})[active] = None
        if subscription.config.wake_stream:
            root.wake_streams.setdefault(subscription.config.wake_stream, {})[active] = None
        self._clear_cache()

    def remove(self, active: Active) -> None:
        """Remove the links of a subscription."""
        subscription = active.subscription
        root = self._roots[subscription.root.encode()]
        root.subscriptions -= 1
        root.size -= size_of(subscription.config, subscription.explicit)
        if subscription.config.pattern:
            root.globs.remove(subscription.config.pattern, active)
        for path in subscription.explicit:
            del root.explicit[path][active]
            if not root.explicit[path]:
                del root.explicit[path]
        if subscription.config.wake_stream:
            waking = root.wake_streams[subscription.config.wake_stream]
            del waking[active]
            if not waking:
                del root.wake_streams[subscription.config.wake_stream]
        if not root.subscriptions:
            # Clients choose the names of buckets: the memory of a bucket without subscriptions must be freed.
            del self._roots[subscription.root.encode()]
        self._clear_cache()

    @property
    def roots(self) -> int:
        """How many stream roots have subscriptions."""
        return len(self._roots)

    def held(self, root: bytes) -> Amount:
        """Return the number and the bytes of the subscriptions of a stream root."""
        found = self._roots.get(root)
        return Amount(found.subscriptions, found.size) if found else Amount()

    def of(self, name: bytes) -> tuple[Active, ...]:
        """Return the subscriptions that a stream wakes. The stream must exist, because its name is cached."""
        found = self._cached.get(name)
        if found is None:
            found = self.find(name)
            self._cached_bytes += len(name)
            if len(self._cached) >= self._max_cached or self._cached_bytes > self._max_cached_bytes:
                self._clear_cache()
                self._cached_bytes = len(name)
            self._cached[name] = found
        return found

    def _clear_cache(self) -> None:
        self._cached.clear()
        self._cached_bytes = 0

    def with_wake_stream(self, name: bytes) -> tuple[Active, ...]:
        """Return the subscriptions whose wake stream has this name."""
        split = split_name(name)
        root = self._roots.get(split[0]) if split else None
        return tuple(root.wake_streams.get(path_of(name), ())) if root else ()

    def find(self, name: bytes) -> tuple[Active, ...]:
        """Find the subscriptions that a stream of this name would wake. The stream need not exist."""
        split = split_name(name)
        root = self._roots.get(split[0]) if split else None
        if split is None or root is None:
            return ()
        path = split[1].decode()
        matched = dict.fromkeys(
            active for active in root.globs.match(path) if active.subscription.config.wake_stream != path
        )
        matched.update(root.explicit.get(path, {}))
        return tuple(matched)


class SubscriptionIndex:
    """All subscriptions of a server, by the names of their records."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.active: dict[bytes, Active] = {}
        self.follower: Callable[[Edit], None] = lambda _: None
        """Called with each edit that became durable while there are subscriptions. The scheduler of wakes sets it."""
        self.damaged: set[bytes] = set()
        """The names of records that can't be read. Their subscriptions are stopped, and can be deleted."""
        tuning = engine.tuning.subscriptions
        self.links = LinkIndex(tuning.max_cached, tuning.max_cached_bytes)

    def __bool__(self) -> bool:
        return bool(self.active)

    def all(self) -> tuple[Active, ...]:
        """Return all subscriptions as they are now. The tuple stays valid while subscriptions come and go."""
        return tuple(self.active.values())

    def is_current(self, active: Active) -> bool:
        """Return whether a subscription was neither deleted nor replaced by another one of its name."""
        return self.active.get(active.name) is active

    def get(self, name: bytes) -> Active | None:
        """Return the subscription of a record, if there is one."""
        return self.active.get(name)

    def find(self, root: bytes, subscription_id: str) -> Active:
        """Return a subscription. Raises `SubscriptionNotFound`, or `StreamDamaged` if its record can't be read."""
        name = record_name(root, subscription_id)
        if name in self.damaged:
            raise StreamDamaged(f"subscription {subscription_id!r} is damaged; delete it and create it anew")
        active = self.active.get(name)
        if active is None:
            raise SubscriptionNotFound(f"there is no subscription {subscription_id!r}")
        return active

    def load(self) -> None:
        """Load the stored subscriptions. One whose record is damaged stops; the others work."""
        after = b""
        while found := self._engine.listing.living(
            SUBSCRIPTION_RECORDS + b"/", after, self._engine.tuning.subscriptions.load_slice
        ):
            for name, _ in found:
                try:
                    self.restore(name)
                except (StreamDamaged, msgspec.MsgspecError) as error:
                    logger.error("the subscription in %s is stopped: %s", quoted(name), error)  # noqa: TRY400 - expected
                    self.damaged.add(name)
            after = found[-1][0]

    def restore(self, name: bytes) -> Active | None:
        """Rebuild a subscription from the events in its record, if it has a record."""
        subscription: Subscription | None = None
        stated_bytes = 0
        for body in self._engine.readers.read_all(name):
            for event in decode_events(body):
                subscription = fold(subscription, event)
                if isinstance(event, Stated):
                    stated_bytes = len(encode_events((event,)))
        if subscription is None:
            return None
        self._bound_times(subscription)
        active = self.add(name, subscription, stated_bytes)
        active.written_bytes = self._engine.readers.size_of(name) - stated_bytes
        return active

    def _bound_times(self, subscription: Subscription) -> None:
        """Bound the ends of a lease and of a pause, as if both had begun now.

        Their ends are stored as times of the wall clock. If it was set back since, they would be far in the future.
        """
        now, wake = self._engine.clock.now(), subscription.wake
        if wake and wake.lease_until is not None:
            lease_until = min(wake.lease_until, now + subscription.config.lease_ttl_ms)
            subscription.wake = replace(wake, lease_until=lease_until)
        longest_ms = self._engine.tuning.subscriptions.longest_retry_ms
        subscription.next_attempt_at = min(subscription.next_attempt_at, now + longest_ms)

    def add(self, name: bytes, subscription: Subscription, stated_bytes: int) -> Active:
        """Add a subscription. `stated_bytes` is the size of its whole state in its record."""
        if not self.active:
            # Appends pay for subscriptions only if there are any.
            self._engine.followers.append(self.follower)
        active = self.active[name] = Active(name, subscription)
        active.stated_bytes = stated_bytes
        self.links.add(active)
        return active

    def forget(self, active: Active) -> None:
        """Remove a subscription."""
        active.stop()
        self.links.remove(active)
        del self.active[active.name]
        if not self.active:
            self._engine.followers.remove(self.follower)
