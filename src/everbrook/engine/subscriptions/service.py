"""The service of subscriptions: the requests of clients, and the recovery at the start of a server (§6, §7).

It is not stored which streams may have news. A scan of all streams finds them at every start, and after changes were
rolled back for want of room.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

from msgspec import Struct

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.records import SUBSCRIPTION_RECORDS
from everbrook.engine.subscriptions.backfill import Backfill
from everbrook.engine.subscriptions.index import Active, SubscriptionIndex, Trouble, record_name, size_of
from everbrook.engine.subscriptions.wakes import Deliverer, Delivery, WakeScheduler
from everbrook.engine.usage import Amount
from everbrook.protocol.commands import Delete, Untouched
from everbrook.protocol.errors import NoPendingWork, ProtocolError
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT, bucket_of, bucket_record
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.subscription import (
    Changed,
    Claim,
    Confirmed,
    LinkStreams,
    Report,
    Subscribe,
    Subscription,
    UnlinkStream,
    Unsubscribe,
    fold,
)


class WakeReport(Struct, frozen=True):
    """The report of a worker on a wake: its acks, and whether it is done."""

    wake_id: str
    generation: int
    acks: tuple[tuple[str, int], ...] = ()
    done: bool = False


class SubscriptionStats(Struct, frozen=True):
    """The numbers of subscriptions: by kind, with a wake in flight, failing, and unable to wake a worker."""

    by_kind: dict[tuple[str, str], int]
    """By type and surface."""
    awake: int
    failing: int
    blocked: int


class Subscriptions:
    """All subscriptions of a server."""

    def __init__(self, engine: Engine, deliver: Deliverer) -> None:
        """Load the stored subscriptions. `deliver` sends a wake to its webhook; its result comes to `delivered`."""
        self._engine = engine
        self._tuning = engine.tuning.subscriptions
        self._index = SubscriptionIndex(engine)
        self._wakes = WakeScheduler(engine, self._index, deliver)
        self._restored: list[Active] = []
        self._recovery: Timer | None = None
        engine.follow_subscriptions(self.state)
        engine.on_roll_back = self._reload
        self._start()

    def state(self, name: bytes) -> Subscription | None:
        """Return the subscription of a record, if there is one."""
        active = self._index.get(name)
        return active.subscription if active else None

    def delivered(self, subscription: Subscription, generation: int, delivery: Delivery) -> None:
        """Take the result of a delivery (§7.1)."""
        self._wakes.delivered(subscription, generation, delivery)

    def _start(self) -> None:
        self._index.load()
        for active in self._index.all():
            # A crash may have come between the deletion of the bucket and that of its subscriptions.
            bucket_id = bucket_of(active.subscription.root.encode())
            if bucket_id is not None and not self._engine.exists(bucket_record(bucket_id)):
                self.drop_root(active.subscription.root.encode())
        if self._index:
            self._go_on_soon(self._scan(self._index.all()))

    def _go_on(self, steps: Iterator[None]) -> None:
        if next(steps, self) is not self:
            self._go_on_soon(steps)

    def _go_on_soon(self, steps: Iterator[None]) -> None:
        self._engine.faults.soon(Callback.SUBSCRIPTION, self._go_on, steps, failed=self._scan_again)

    def _scan_again(self) -> None:
        """Repeat the scan after a pause, because it raised an exception."""
        self._restored = list(self._index.all())
        self._recover_later()

    def _recover_later(self) -> None:
        if self._recovery is None:
            self._recovery = self._engine.faults.later(
                Callback.SUBSCRIPTION, self._tuning.refused_secs, self._recover, failed=self._recover_again
            )

    def _recover_again(self) -> None:
        self._recovery = None
        self._scan_again()

    def _scan(self, restored: tuple[Active, ...]) -> Iterator[None]:
        """Check every stream for news, then continue the wakes of the subscriptions that were restored."""
        for root in (STREAM_ROOT, BUCKET_ROOT):
            after = b""
            while found := self._engine.listing.living(root, after, self._tuning.scan_slice):
                for name, head in found:
                    if head:
                        self._engine.faults.run(Callback.SUBSCRIPTION, self._wakes.note_news, name, head)
                after = found[-1][0]
                yield
        for active in restored:
            if self._index.is_current(active):
                self._engine.faults.run(Callback.SUBSCRIPTION, self._wakes.resume, active)
            yield

    # Requests

    @property
    def exist(self) -> bool:
        """Whether any subscription exists."""
        return bool(self._index)

    def find(self, root: bytes, subscription_id: str) -> Subscription:
        """Return a subscription. Raises `SubscriptionNotFound` if it does not exist."""
        return self._index.find(root, subscription_id).subscription

    def trouble(self, subscription: Subscription) -> Trouble | None:
        """Return the reason why a subscription can't wake a worker at present; None if it can."""
        active = self._index.get(record_name(subscription.root.encode(), subscription.id))
        return active.trouble if active else None

    def below(self, root: bytes) -> list[Subscription]:
        """Return the subscriptions of a stream root, in the order of their ids."""
        of_root = (active.subscription for active in self._index.all() if active.subscription.root.encode() == root)
        return sorted(of_root, key=lambda subscription: subscription.id)

    def count(self, root: bytes) -> int:
        """Return the number of subscriptions of a stream root."""
        return self._index.links.held(root).streams

    def woken_by(self, name: bytes) -> list[Subscription]:
        """Return the subscriptions that a stream wakes."""
        return [active.subscription for active in self._index.links.find(name)]

    def stats(self) -> SubscriptionStats:
        """Count the subscriptions by type, surface and condition."""
        actives = self._index.all()
        found = [active.subscription for active in actives]
        by_kind = Counter(dict.fromkeys(product(("webhook", "pull-wake"), ("base", "bucket")), 0))
        by_kind.update((subscription.config.type, _surface_of(subscription)) for subscription in found)
        awake = sum(subscription.wake is not None for subscription in found)
        failing = sum(subscription.failures > 0 for subscription in found)
        return SubscriptionStats(dict(by_kind), awake, failing, sum(active.trouble is not None for active in actives))

    def begin_backfill(self, root: bytes, subscription_id: str, config: Config) -> Backfill | None:
        """Begin to find the streams that a new subscription links, or refuse to create it.

        None: the subscription exists already. The caller passes the backfill to `subscribe`, or closes it.
        """
        name = record_name(root, subscription_id)
        if name in self._index.damaged:
            self._index.find(root, subscription_id)
        if self._index.get(name):
            return None
        self._require_room(root, 1, size_of(config, config.streams))
        return Backfill(self._engine, root, config, self._tuning.backfill_slice)

    def subscribe(
        self, root: bytes, subscription_id: str, base_url: str, config: Config, backfill: Backfill | None
    ) -> tuple[Subscription, bool]:
        """Create a subscription, or find the existing one. Returns it, and whether it is new."""
        name, engine = record_name(root, subscription_id), self._engine
        matched = backfill.finish() if backfill else {}
        changed = backfill.close() if backfill else ()
        if backfill and self._index.get(name) is None:
            # Other subscriptions may have been created since the backfill began.
            self._require_room(root, 1, size_of(config, config.streams))
        now, incarnation = engine.clock.now(), engine.new_incarnation()
        outcome = engine.execute(Subscribe(name, now, incarnation, subscription_id, root, base_url, config, matched))
        if isinstance(outcome, Confirmed):
            return outcome.subscription, False
        subscription = fold(None, outcome.events[0])
        self._index.add(name, subscription, outcome.size)
        if changed:
            self._go_on(self._catch_up(changed))
        return subscription, True

    def _catch_up(self, changed: tuple[bytes, ...]) -> Iterator[None]:
        """Find the news of streams that changed before the subscription was in the index."""
        for start in range(0, len(changed), self._tuning.scan_slice):
            for name in changed[start : start + self._tuning.scan_slice]:
                with suppress(ProtocolError):
                    self._wakes.note_news(name, self._engine.readers.find(name, self._engine.clock.now()).committed)
            yield

    def _require_room(self, root: bytes, more: int, more_bytes: int) -> None:
        self._engine.quotas.check_subscriptions(root, self._index.links.held(root), Amount(more, more_bytes))

    def unsubscribe(self, root: bytes, subscription_id: str) -> None:
        """Delete a subscription, even if its record is damaged."""
        name = record_name(root, subscription_id)
        if name in self._index.damaged:
            self._delete_damaged(name)
            return
        active = self._index.find(root, subscription_id)
        self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
        self._index.forget(active)

    def _delete_damaged(self, name: bytes) -> None:
        self._engine.execute(Delete(name, self._engine.clock.now()))
        self._index.damaged.discard(name)

    def link(self, root: bytes, subscription_id: str, paths: tuple[str, ...]) -> None:
        """Link streams explicitly (§6.4)."""
        active = self._index.find(root, subscription_id)
        new_paths = {path for path in paths if path not in active.subscription.explicit}
        if new_paths:
            self._require_room(root, 0, sum(len(path.encode()) for path in new_paths))
        self._relink(active, self._engine.execute(LinkStreams(active.name, self._engine.clock.now(), paths)))

    def unlink(self, root: bytes, subscription_id: str, path: str) -> None:
        """Remove an explicit link (§6.4)."""
        active = self._index.find(root, subscription_id)
        self._relink(active, self._engine.execute(UnlinkStream(active.name, self._engine.clock.now(), path)))

    def _relink(self, active: Active, outcome: Changed | Untouched) -> None:
        if isinstance(outcome, Changed):
            # Removed before the change: the index finds the entries to remove by the present links.
            self._index.links.remove(active)
            self._wakes.take(active, outcome)
            self._index.links.add(active)

    def claimable(self, root: bytes, subscription_id: str) -> tuple[str, ...]:
        """Return the streams that a claim checks first: those of the wake, and others up to the bound of a wake."""
        active = self._index.find(root, subscription_id)
        wake = active.subscription.wake
        others = islice(active.candidates, self._tuning.max_wake_streams)
        return tuple(dict.fromkeys((*(wake.tails if wake else ()), *others)))

    def claim(self, root: bytes, subscription_id: str, worker: str) -> Subscription | None:
        """Give the lease to a worker (§7.2). None: the checked streams have no news; the next claim checks others."""
        active = self._index.find(root, subscription_id)
        candidates = self.claimable(root, subscription_id)
        command = Claim(active.name, self._engine.clock.now(), "w_" + self._engine.clock.token(), candidates, worker)
        try:
            self._wakes.take(active, self._engine.execute(command))
        except NoPendingWork:
            for path in candidates:
                active.candidates.pop(path, None)
            if active.candidates:
                return None
            self._wakes.call_off(active)
            raise
        return active.subscription

    def report(self, root: bytes, subscription_id: str, report: WakeReport) -> bool:
        """Apply a callback, an ack or a release. Returns whether another wake follows (§7.1, §7.2)."""
        active = self._index.find(root, subscription_id)
        command = Report(
            active.name, self._engine.clock.now(), report.wake_id, report.generation, report.acks, report.done
        )
        self._wakes.take(active, self._engine.execute(command))
        return active.subscription.wake is None and self._wakes.wake(active)

    def drop_root(self, root: bytes) -> None:
        """Delete the subscriptions of a stream root that was deleted."""
        gone = [active for active in self._index.all() if active.subscription.root.encode() == root]
        for active in gone:
            self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
            self._index.forget(active)
        for name in [name for name in self._index.damaged if name.startswith(record_name(root, ""))]:
            self._delete_damaged(name)

    def _reload(self, names: set[bytes]) -> None:
        """Restore the durable state of subscriptions after changes were rolled back for want of room.

        Decisions that depended on these changes are void as well, even the one that a stream had no news. So all
        streams are scanned again.
        """
        for name in names:
            if not name.startswith(SUBSCRIPTION_RECORDS):
                continue
            if active := self._index.get(name):
                self._index.forget(active)
            if active := self._index.restore(name):
                self._restored.append(active)
        if self._index:
            self._recover_later()

    def _recover(self) -> None:
        self._recovery = None
        restored, self._restored = tuple(self._restored), []
        self._go_on(self._scan(restored))

    def close(self) -> None:
        """Cancel all timers."""
        if self._recovery:
            self._recovery.cancel()
        for active in self._index.all():
            active.stop()


def _surface_of(subscription: Subscription) -> str:
    return "base" if subscription.root.encode() == STREAM_ROOT else "bucket"
