"""Subscriptions: what is asked of them, and how they are taken up when a server starts (§6, §7).

What may have news is not stored: it is surveyed anew at every start, and after changes that there was no room for.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice, product

from msgspec import Struct

from everbrook.engine.backfill import Backfill
from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.records import SUBSCRIPTION_RECORDS
from everbrook.engine.roster import Roster, record_name
from everbrook.engine.subscribers import size_of
from everbrook.engine.subscription import Active, Trouble
from everbrook.engine.usage import Held
from everbrook.engine.waking import Deliverer, Delivery, Waking
from everbrook.protocol.commands import Delete
from everbrook.protocol.errors import NoPendingWork, ProtocolError
from everbrook.protocol.outcomes import Untouched
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT, bucket_of, bucket_record
from everbrook.protocol.subscriptions.commands import (
    Claim,
    LinkStreams,
    Report,
    Subscribe,
    UnlinkStream,
    Unsubscribe,
)
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.outcomes import Changed, Confirmed
from everbrook.protocol.subscriptions.state import Subscription, fold


class Reported(Struct, frozen=True):
    """What a worker says of a wake."""

    wake_id: str
    generation: int
    acks: tuple[tuple[str, int], ...] = ()
    done: bool = False


class Surveyed(Struct, frozen=True):
    """How many subscriptions there are, have a wake that is not done, fail, and can wake nobody."""

    by_kind: dict[tuple[str, str], int]
    """By type and surface."""
    awake: int
    failing: int
    blocked: int


class Subscriptions:
    """All subscriptions of a server."""

    def __init__(self, engine: Engine, deliver: Deliverer) -> None:
        """Take up what the storage has. `deliver` sends a wake to its webhook, and tells `delivered`."""
        self._engine = engine
        self._tuning = engine.tuning.waking
        self._roster = Roster(engine)
        self._waking = Waking(engine, self._roster, deliver)
        self._taken_up: list[Active] = []
        self._recovery: Timer | None = None
        engine.follow_subscriptions(self.state)
        engine.on_roll_back = self._reload
        self._start()

    def state(self, name: bytes) -> Subscription | None:
        """Give the subscription of a record, if there is one."""
        active = self._roster.get(name)
        return active.subscription if active else None

    def delivered(self, subscription: Subscription, generation: int, delivery: Delivery) -> None:
        """Hear what became of a delivery (§7.1)."""
        self._waking.delivered(subscription, generation, delivery)

    def _start(self) -> None:
        self._roster.load()
        for active in self._roster.all():
            bucket_id = bucket_of(active.subscription.root.encode())
            if bucket_id is not None and not self._engine.exists(bucket_record(bucket_id)):
                self.drop_root(active.subscription.root.encode())
        if self._roster:
            self._go_on_soon(self._survey(self._roster.all()))

    def _go_on(self, steps: Iterator[None]) -> None:
        if next(steps, self) is not self:
            self._go_on_soon(steps)

    def _go_on_soon(self, steps: Iterator[None]) -> None:
        self._engine.faults.soon(Callback.SUBSCRIPTION, self._go_on, steps, failed=self._survey_again)

    def _survey_again(self) -> None:
        """Begin the survey anew after a while: it failed."""
        self._taken_up = list(self._roster.all())
        self._recover_later()

    def _recover_later(self) -> None:
        if self._recovery is None:
            self._recovery = self._engine.faults.later(
                Callback.SUBSCRIPTION, self._tuning.refused_secs, self._recover, failed=self._recover_again
            )

    def _recover_again(self) -> None:
        self._recovery = None
        self._survey_again()

    def _survey(self, taken_up: tuple[Active, ...]) -> Iterator[None]:
        """Look at every stream for news that nobody has told of, and go on with what was taken up."""
        for root in (STREAM_ROOT, BUCKET_ROOT):
            after = b""
            while found := self._engine.listing.living(root, after, self._tuning.survey_slice):
                for name, head in found:
                    if head:
                        self._engine.faults.run(Callback.SUBSCRIPTION, self._waking.note_news, name, head)
                after = found[-1][0]
                yield
        for active in taken_up:
            if self._roster.holds(active):
                self._engine.faults.run(Callback.SUBSCRIPTION, self._waking.resume, active)
            yield

    # Requests

    @property
    def exist(self) -> bool:
        """Whether there is one."""
        return bool(self._roster)

    def find(self, root: bytes, subscription_id: str) -> Subscription:
        """Give a subscription that is there."""
        return self._roster.find(root, subscription_id).subscription

    def trouble(self, subscription: Subscription) -> Trouble | None:
        """Say why a subscription can't wake anybody at present, if it can't."""
        active = self._roster.get(record_name(subscription.root.encode(), subscription.id))
        return active.trouble if active else None

    def below(self, root: bytes) -> list[Subscription]:
        """Give the subscriptions of a stream root, in the order of their ids."""
        of_root = (active.subscription for active in self._roster.all() if active.subscription.root.encode() == root)
        return sorted(of_root, key=lambda subscription: subscription.id)

    def count(self, root: bytes) -> int:
        """Give how many subscriptions a stream root has."""
        return self._roster.subscribers.held(root).streams

    def woken_by(self, name: bytes) -> list[Subscription]:
        """Give the subscriptions that a stream wakes."""
        return [active.subscription for active in self._roster.subscribers.find(name)]

    def survey(self) -> Surveyed:
        """Count the subscriptions, by type and by how they stand."""
        actives = self._roster.all()
        found = [active.subscription for active in actives]
        by_kind = Counter(dict.fromkeys(product(("webhook", "pull-wake"), ("base", "bucket")), 0))
        by_kind.update((subscription.config.type, _surface_of(subscription)) for subscription in found)
        awake = sum(subscription.wake is not None for subscription in found)
        failing = sum(subscription.failures > 0 for subscription in found)
        return Surveyed(dict(by_kind), awake, failing, sum(active.trouble is not None for active in actives))

    def begin_backfill(self, root: bytes, subscription_id: str, config: Config) -> Backfill | None:
        """Begin to look for the streams that a subscription is to be linked to, or raise why it can't be created.

        None: it is there already. Whoever began closes the backfill, by `subscribe` or else by itself.
        """
        name = record_name(root, subscription_id)
        if name in self._roster.damaged:
            self._roster.find(root, subscription_id)
        if self._roster.get(name):
            return None
        self._require_room(root, 1, size_of(config, config.streams))
        return Backfill(self._engine, root, config, self._tuning.backfill_slice)

    def subscribe(
        self, root: bytes, subscription_id: str, base_url: str, config: Config, backfill: Backfill | None
    ) -> tuple[Subscription, bool]:
        """Create a subscription, or find it. Tells whether it is new."""
        name, engine = record_name(root, subscription_id), self._engine
        matched = backfill.finish() if backfill else {}
        changed = backfill.close() if backfill else ()
        if backfill and self._roster.get(name) is None:
            # Others may have been created since it began.
            self._require_room(root, 1, size_of(config, config.streams))
        now, incarnation = engine.clock.now(), engine.new_incarnation()
        outcome = engine.execute(Subscribe(name, now, incarnation, subscription_id, root, base_url, config, matched))
        if isinstance(outcome, Confirmed):
            return outcome.subscription, False
        subscription = fold(None, outcome.events[0])
        self._roster.add(name, subscription, outcome.size)
        if changed:
            self._go_on(self._catch_up(changed))
        return subscription, True

    def _catch_up(self, changed: tuple[bytes, ...]) -> Iterator[None]:
        """Look at streams for news that came before their subscription was there."""
        for start in range(0, len(changed), self._tuning.survey_slice):
            for name in changed[start : start + self._tuning.survey_slice]:
                with suppress(ProtocolError):
                    self._waking.note_news(name, self._engine.readers.find(name, self._engine.clock.now()).committed)
            yield

    def _require_room(self, root: bytes, more: int, more_bytes: int) -> None:
        self._engine.quotas.check_subscriptions(root, self._roster.subscribers.held(root), Held(more, more_bytes))

    def unsubscribe(self, root: bytes, subscription_id: str) -> None:
        """Delete a subscription, also one whose record is damaged."""
        name = record_name(root, subscription_id)
        if name in self._roster.damaged:
            self._delete_damaged(name)
            return
        active = self._roster.find(root, subscription_id)
        self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
        self._roster.forget(active)

    def _delete_damaged(self, name: bytes) -> None:
        self._engine.execute(Delete(name, self._engine.clock.now()))
        self._roster.damaged.discard(name)

    def link(self, root: bytes, subscription_id: str, paths: tuple[str, ...]) -> None:
        """Link streams explicitly (§6.4)."""
        active = self._roster.find(root, subscription_id)
        new = {path for path in paths if path not in active.subscription.explicit}
        if new:
            self._require_room(root, 0, sum(len(path.encode()) for path in new))
        self._relink(active, self._engine.execute(LinkStreams(active.name, self._engine.clock.now(), paths)))

    def unlink(self, root: bytes, subscription_id: str, path: str) -> None:
        """Remove an explicit link (§6.4)."""
        active = self._roster.find(root, subscription_id)
        self._relink(active, self._engine.execute(UnlinkStream(active.name, self._engine.clock.now(), path)))

    def _relink(self, active: Active, outcome: Changed | Untouched) -> None:
        if isinstance(outcome, Changed):
            self._roster.subscribers.remove(active)
            self._waking.take(active, outcome)
            self._roster.subscribers.add(active)

    def claimable(self, root: bytes, subscription_id: str) -> tuple[str, ...]:
        """Give the streams that a claim looks at first: those of the wake, and as many others as one may name."""
        active = self._roster.find(root, subscription_id)
        wake = active.subscription.wake
        others = islice(active.candidates, self._tuning.max_wake_streams)
        return tuple(dict.fromkeys((*(wake.tails if wake else ()), *others)))

    def claim(self, root: bytes, subscription_id: str, worker: str) -> Subscription | None:
        """Give the lease to a worker (§7.2). None: what was looked at has no news, the next claim looks at others."""
        active = self._roster.find(root, subscription_id)
        candidates = self.claimable(root, subscription_id)
        command = Claim(active.name, self._engine.clock.now(), "w_" + self._engine.clock.token(), candidates, worker)
        try:
            self._waking.take(active, self._engine.execute(command))
        except NoPendingWork:
            for path in candidates:
                active.candidates.pop(path, None)
            if active.candidates:
                return None
            self._waking.call_off(active)
            raise
        return active.subscription

    def report(self, root: bytes, subscription_id: str, report: Reported) -> bool:
        """Take a callback, an ack or a release. Tells whether another wake follows (§7.1, §7.2)."""
        active = self._roster.find(root, subscription_id)
        command = Report(
            active.name, self._engine.clock.now(), report.wake_id, report.generation, report.acks, report.done
        )
        self._waking.take(active, self._engine.execute(command))
        return active.subscription.wake is None and self._waking.wake(active)

    def drop_root(self, root: bytes) -> None:
        """Delete the subscriptions of a stream root that is gone."""
        gone = [active for active in self._roster.all() if active.subscription.root.encode() == root]
        for active in gone:
            self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
            self._roster.forget(active)
        for name in [name for name in self._roster.damaged if name.startswith(record_name(root, ""))]:
            self._delete_damaged(name)

    def _reload(self, names: set[bytes]) -> None:
        """Go back to what is durable, after changes that there was no room for.

        What was decided in view of them was in vain too, even that a stream had no news: all are looked at again.
        """
        for name in names:
            if not name.startswith(SUBSCRIPTION_RECORDS):
                continue
            if active := self._roster.get(name):
                self._roster.forget(active)
            if active := self._roster.take_up(name):
                self._taken_up.append(active)
        if self._roster:
            self._recover_later()

    def _recover(self) -> None:
        self._recovery = None
        taken_up, self._taken_up = tuple(self._taken_up), []
        self._go_on(self._survey(taken_up))

    def close(self) -> None:
        """Time nothing any more."""
        if self._recovery:
            self._recovery.cancel()
        for active in self._roster.all():
            active.stop()


def _surface_of(subscription: Subscription) -> str:
    return "base" if subscription.root.encode() == STREAM_ROOT else "bucket"
