"""The subscriptions that there are: folded out of their records, found by name or by the streams that wake them."""

import logging

import msgspec
from msgspec.structs import replace

from everbrook.engine.engine import Engine
from everbrook.engine.records import SUBSCRIPTION_RECORDS
from everbrook.engine.subscribers import Subscribers
from everbrook.engine.subscription import Active
from everbrook.protocol.errors import StreamDamaged, SubscriptionNotFound, quoted
from everbrook.protocol.subscriptions.state import Stated, Subscription, decode_events, encode_events, fold

logger = logging.getLogger(__name__)


def record_name(root: bytes, subscription_id: str) -> bytes:
    """Give the name of the stream that a subscription is kept in; no URL leads to it."""
    return SUBSCRIPTION_RECORDS + root + subscription_id.encode()


class Roster:
    """All subscriptions of a server."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.active: dict[bytes, Active] = {}
        self.damaged: set[bytes] = set()
        """The names of records that can't be read: their subscriptions are stopped, and can be deleted."""
        waking = engine.tuning.waking
        self.subscribers = Subscribers(waking.max_remembered, waking.max_remembered_bytes)

    def __bool__(self) -> bool:
        return bool(self.active)

    def all(self) -> tuple[Active, ...]:
        """Give all of them, as of now."""
        return tuple(self.active.values())

    def holds(self, active: Active) -> bool:
        """Tell whether a subscription is there still, and not another of its name."""
        return self.active.get(active.name) is active

    def get(self, name: bytes) -> Active | None:
        """Give the subscription of a record, if there is one."""
        return self.active.get(name)

    def find(self, root: bytes, subscription_id: str) -> Active:
        """Give a subscription that is there."""
        name = record_name(root, subscription_id)
        if name in self.damaged:
            raise StreamDamaged(f"subscription {subscription_id!r} is damaged; delete it and create it anew")
        active = self.active.get(name)
        if active is None:
            raise SubscriptionNotFound(f"there is no subscription {subscription_id!r}")
        return active

    def load(self) -> None:
        """Take up what the storage has."""
        after = b""
        while found := self._engine.listing.living(
            SUBSCRIPTION_RECORDS + b"/", after, self._engine.tuning.waking.load_slice
        ):
            for name, _ in found:
                try:
                    self.take_up(name)
                except (StreamDamaged, msgspec.MsgspecError) as error:
                    logger.error("the subscription in %s is stopped: %s", quoted(name), error)  # noqa: TRY400 - expected
                    self.damaged.add(name)
            after = found[-1][0]

    def take_up(self, name: bytes) -> Active | None:
        """Fold a subscription out of its record, if that is there."""
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
        """Let a lease and a pause end as if they had begun now, at the latest.

        They are stored as times of a clock that may have been set back since: they would end in years.
        """
        now, wake = self._engine.clock.now(), subscription.wake
        if wake and wake.lease_until is not None:
            lease_until = min(wake.lease_until, now + subscription.config.lease_ttl_ms)
            subscription.wake = replace(wake, lease_until=lease_until)
        longest_ms = self._engine.tuning.waking.longest_retry_ms
        subscription.next_attempt_at = min(subscription.next_attempt_at, now + longest_ms)

    def add(self, name: bytes, subscription: Subscription, stated_bytes: int) -> Active:
        """Enter a subscription whose whole state takes so many bytes in its record."""
        active = self.active[name] = Active(name, subscription)
        active.stated_bytes = stated_bytes
        self.subscribers.add(active)
        return active

    def forget(self, active: Active) -> None:
        """Take a subscription out."""
        active.stop()
        self.subscribers.remove(active)
        del self.active[active.name]
