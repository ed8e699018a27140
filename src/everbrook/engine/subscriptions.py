"""Subscriptions at work: appends wake them, workers report, leases lapse, deliveries are tried again (§7).

Whether there is work is derived from tails and acks. What is kept in memory beside that, the streams that may have
news, is surveyed anew at every start.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice

from msgspec import Struct

from everbrook.engine.clock import Scheduler, Timer
from everbrook.engine.engine import Engine
from everbrook.engine.subscribers import Subscribers, path_of
from everbrook.engine.subscription import Active
from everbrook.protocol.change import Drop, Edit
from everbrook.protocol.errors import NoPendingWork, ProtocolError, SubscriptionNotFound
from everbrook.protocol.outcomes import Untouched
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT, bucket_of, bucket_record
from everbrook.protocol.state import Head
from everbrook.protocol.subscriptions.commands import (
    Claim,
    Compact,
    Deliver,
    Lapse,
    LinkStreams,
    Report,
    Subscribe,
    UnlinkStream,
    Unsubscribe,
    WakeUp,
)
from everbrook.protocol.subscriptions.config import Config
from everbrook.protocol.subscriptions.decide import MAX_WAKE_STREAMS
from everbrook.protocol.subscriptions.outcomes import Changed, Confirmed
from everbrook.protocol.subscriptions.state import Stated, Subscription, Wake, decode_events, encode_events, fold

RECORDS = b"subscription"

WAKES_AT_ONCE = 64
SURVEY_SLICE = 256
FIRST_RETRY_MS = 1_000
LAST_RETRY_MS = 60_000
JITTER = 0.2
# How long a wake waits for its wake stream to be created, or anything for room in memory.
MISSING_STREAM_MS = 5_000
# How long everything waits after a refusal, lest a full disk be tried again and again.
REFUSED_SECS = 1.0
COMPACT_AT_BYTES = 64 * 1024

Deliverer = Callable[[Subscription, Wake], None]


def record_name(root: bytes, subscription_id: str) -> bytes:
    """Give the name of the stream that a subscription is kept in; no URL leads to it."""
    return RECORDS + root + subscription_id.encode()


class Delivery(Struct, frozen=True):
    """What became of a webhook: whether it was taken, and whether the receiver is done with the work."""

    taken: bool
    done: bool = False


class Reported(Struct, frozen=True):
    """What a worker says of a wake."""

    wake_id: str
    generation: int
    acks: tuple[tuple[str, int], ...] = ()
    done: bool = False


class Subscriptions:
    """All subscriptions of a server."""

    def __init__(self, engine: Engine, deliver: Deliverer) -> None:
        """Take up what the storage has. `deliver` sends a wake to its webhook, and tells `delivered`."""
        self._engine = engine
        self._scheduler: Scheduler = engine.scheduler
        self._deliver_wake = deliver
        self._active: dict[bytes, Active] = {}
        self._subscribers = Subscribers()
        self._waiting: list[Active] = []
        self._taken_up: list[Active] = []
        self._recovery: Timer | None = None
        engine.follow_subscriptions(self._states)
        engine.followers.append(self._follow)
        engine.on_roll_back = self._reload
        self._load()

    def _states(self, name: bytes) -> Subscription | None:
        active = self._active.get(name)
        return active.subscription if active else None

    # Starting

    def _load(self) -> None:
        after = b""
        while found := self._engine.listed(RECORDS + b"/", after, SURVEY_SLICE):
            for name, _ in found:
                self._take_up(name)
            after = found[-1][0]
        for active in tuple(self._active.values()):
            bucket_id = bucket_of(active.subscription.root.encode())
            if bucket_id is not None and not self._engine.exists(bucket_record(bucket_id)):
                self.drop_root(active.subscription.root.encode())
        if self._active:
            self._scheduler.call_soon(self._go_on, self._survey(tuple(self._active.values())))

    def _take_up(self, name: bytes) -> None:
        """Fold a subscription out of its record."""
        subscription: Subscription | None = None
        stated_bytes = 0
        for body in self._engine.read_all(name):
            for event in decode_events(body):
                subscription = fold(subscription, event)
                if isinstance(event, Stated):
                    stated_bytes = len(encode_events((event,)))
        if subscription:
            active = self._active[name] = Active(name, subscription)
            active.stated_bytes = stated_bytes
            active.written_bytes = self._engine.size_of(name) - stated_bytes
            self._subscribers.add(active)

    def _go_on(self, steps: Iterator[None]) -> None:
        if next(steps, self) is not self:
            self._scheduler.call_soon(self._go_on, steps)

    def _survey(self, taken_up: tuple[Active, ...]) -> Iterator[None]:
        """Look at every stream for news that nobody has told of, and go on with what was taken up."""
        for root in (STREAM_ROOT, BUCKET_ROOT):
            after = b""
            while found := self._engine.listed(root, after, SURVEY_SLICE):
                for name, head in found:
                    if head:
                        self._note_news(name, head)
                after = found[-1][0]
                yield
        for active in taken_up:
            if self._active.get(active.name) is active:
                self._resume(active)
            yield

    def _resume(self, active: Active) -> None:
        """Go on with what was under way when the last server ended: a delivery may not have arrived."""
        subscription = active.subscription
        if subscription.wake and not subscription.pull and not subscription.next_attempt_at:
            self._deliver(active)
        if subscription.wake and subscription.pull and not self._is_told(subscription, subscription.wake):
            self._tell_again(active)
        self._set_timer(active)

    def _is_told(self, subscription: Subscription, wake: Wake) -> bool:
        """Tell whether the wake stream that tells of a wake is still there."""
        name = (subscription.root + (subscription.config.wake_stream or "")).encode()
        try:
            return self._engine.find(name, self._engine.clock.now()).committed.identity.incarnation == wake.told_in
        except ProtocolError:
            return False

    # News

    def _follow(self, edit: Edit) -> None:
        """Hear of an edit that is durable now."""
        if not self._active:
            return
        name = edit.head.identity.name
        if isinstance(edit, Drop):
            for active in self._subscribers.of(name):
                active.forget(path_of(name), edit.head.identity.incarnation)
            for active in self._subscribers.told_in(name):
                self._tell_again(active)
        elif edit.data or edit.created:
            self._note_news(name, edit.head)

    def _tell_again(self, active: Active) -> None:
        """Let a wake that nobody has claimed be told of anew: where it was told of is gone."""
        with suppress(ProtocolError):
            self._call_off(active)
        self._wake_soon(active)

    def _note_news(self, name: bytes, head: Head) -> None:
        for active in self._subscribers.of(name):
            path = path_of(name)
            if active.subscription.has_news(path, head.identity.incarnation, head.tail):
                active.candidates[path] = None
                self._wake_soon(active)

    def _wake_soon(self, active: Active) -> None:
        if active.queued or active.subscription.wake:
            return
        active.queued = True
        self._waiting.append(active)
        if len(self._waiting) == 1:
            self._scheduler.call_soon(self._wake_waiting)

    def _wake_waiting(self) -> None:
        now_waking, self._waiting = self._waiting[:WAKES_AT_ONCE], self._waiting[WAKES_AT_ONCE:]
        for active in now_waking:
            active.queued = False
            self._wake(active)
        if self._waiting:
            self._scheduler.call_soon(self._wake_waiting)

    def _wake(self, active: Active) -> bool:
        """Begin a generation if there is news, and tell whether one did."""
        now = self._engine.clock.now()
        if self._engine.failure or self._active.get(active.name) is not active:
            return False
        if active.subscription.next_attempt_at > now:
            self._set_timer(active)
            return False
        while active.candidates and not active.subscription.wake:
            candidates = tuple(islice(active.candidates, MAX_WAKE_STREAMS))
            try:
                outcome = self._engine.execute(WakeUp(active.name, now, self._engine.new_id("w_"), candidates))
            except ProtocolError:
                # The wake stream is not there, or closed. It may be yet.
                active.waits_until = now + MISSING_STREAM_MS
                self._set_timer(active)
                return False
            for path in candidates:
                active.candidates.pop(path, None)
            if isinstance(outcome, Changed):
                self._take(active, outcome)
                self._queue_again(active)
                if not active.subscription.pull:
                    self._deliver(active)
                return True
        return False

    def _queue_again(self, active: Active) -> None:
        """Put the streams of a wake behind the others, whose turn is next if they go on having news."""
        wake = active.subscription.wake
        active.candidates.update(dict.fromkeys(wake.tails if wake else ()))

    def _take(self, active: Active, outcome: Changed) -> None:
        """Take over what was decided."""
        active.take(outcome.events)
        active.written_bytes += outcome.size
        self._set_timer(active)
        if active.written_bytes > COMPACT_AT_BYTES + 4 * active.stated_bytes:
            self._compact(active)

    def _compact(self, active: Active) -> None:
        """Let a subscription forget its past, or do that another time."""
        with suppress(ProtocolError):
            compacted = self._engine.execute(Compact(active.name, self._engine.clock.now()))
            active.written_bytes, active.stated_bytes = 0, compacted.size

    # Webhooks

    def _deliver(self, active: Active) -> None:
        """Send the present wake when it is durable, unless that is under way."""
        generation = active.subscription.generation
        if active.delivering == generation:
            return
        active.delivering = generation

        def settle(_failure: ProtocolError | None) -> None:
            # If this wake itself was refused, another one has been taken up in its place.
            wake = active.subscription.wake
            here = self._active.get(active.name) is active and not self._engine.failure
            if here and wake and active.delivering == generation:
                self._deliver_wake(active.subscription, wake)

        self._engine.when_durable(self._engine.last_change, settle)

    def delivered(self, subscription: Subscription, generation: int, delivery: Delivery) -> None:
        """Hear what became of a delivery (§7.1)."""
        active = self._active.get(record_name(subscription.root.encode(), subscription.id))
        if active is None or active.subscription is not subscription or self._engine.failure:
            # It was deleted, and may have been created anew.
            return
        if active.delivering != generation:
            # Its lease has run out meanwhile.
            return
        active.delivering = 0
        now = self._engine.clock.now()
        retry_at = None if delivery.taken else self._retry_at(now, active.subscription.failures)
        try:
            outcome = self._engine.execute(Deliver(active.name, now, generation, delivery.done, retry_at))
        except ProtocolError:
            # There is no room to note it. When the lease has run out it is delivered anew.
            return
        if isinstance(outcome, Changed):
            self._take(active, outcome)
        if active.subscription.wake is None:
            self._wake(active)

    def _retry_delay_ms(self, failures: int) -> int:
        """Give how long to wait after a number of failures: twice as long each time, with jitter (§7.1)."""
        delay_ms: int = min(FIRST_RETRY_MS << min(failures, 16), LAST_RETRY_MS)
        return round(delay_ms * (1 + JITTER * (2 * self._engine.clock.chance() - 1)))

    def _retry_at(self, now: int, failures: int) -> int:
        """Give when to try again: never in the same second, in which a signature would be the same."""
        return max(now + self._retry_delay_ms(failures), (now // 1000 + 1) * 1000)

    # Time

    def _set_timer(self, active: Active) -> None:
        """Look at a subscription when its lease will have run out, or when a delivery is to be tried again."""
        subscription, wake = active.subscription, active.subscription.wake
        moments = []
        if wake and wake.lease_until is not None:
            moments.append(wake.lease_until)
        if subscription.next_attempt_at and (wake or active.candidates):
            moments.append(max(subscription.next_attempt_at, self._engine.clock.now()))
        if active.waits_until and not wake:
            moments.append(active.waits_until)
        if moments:
            self._look_at(active, min(moments))
        else:
            active.stop()

    def _look_at(self, active: Active, moment: int) -> None:
        active.stop()
        delay_secs = max(0.0, (moment - self._engine.clock.now()) / 1000)
        active.timer = self._scheduler.call_later(delay_secs, self._look, active)

    def _look(self, active: Active) -> None:
        active.timer = None
        active.waits_until = 0
        if self._engine.failure or self._active.get(active.name) is not active:
            return
        now = self._engine.clock.now()
        try:
            outcome = self._engine.execute(Lapse(active.name, now))
        except ProtocolError:
            # There is no room to note it. There may be yet.
            self._look_at(active, now + MISSING_STREAM_MS)
            return
        if isinstance(outcome, Changed):
            self._take(active, outcome)
            self._note_hanging(active, now)
        subscription = active.subscription
        if subscription.wake is None:
            self._wake(active)
        elif not subscription.pull and 0 < subscription.next_attempt_at <= now:
            self._deliver(active)
            self._look_at(active, subscription.wake.lease_until or now)
        else:
            self._set_timer(active)

    def _note_hanging(self, active: Active, now: int) -> None:
        """Count a delivery that outlasted its lease as failed, so that one that hangs is not sent to ever again."""
        generation, active.delivering = active.delivering, 0
        if not generation:
            return
        retry_at = self._retry_at(now, active.subscription.failures)
        with suppress(ProtocolError):
            outcome = self._engine.execute(Deliver(active.name, now, generation, retry_at=retry_at))
            if isinstance(outcome, Changed):
                self._take(active, outcome)

    # Requests

    def find(self, root: bytes, subscription_id: str) -> Subscription:
        """Give a subscription that is there."""
        return self._find(root, subscription_id).subscription

    def _find(self, root: bytes, subscription_id: str) -> Active:
        active = self._active.get(record_name(root, subscription_id))
        if active is None:
            raise SubscriptionNotFound(f"there is no subscription {subscription_id!r}")
        return active

    def subscribe(self, root: bytes, subscription_id: str, base_url: str, config: Config) -> tuple[Subscription, bool]:
        """Create a subscription, or find it. Tells whether it is new."""
        name, engine = record_name(root, subscription_id), self._engine
        outcome = engine.execute(
            Subscribe(name, engine.clock.now(), engine.new_incarnation(), subscription_id, root, base_url, config)
        )
        if isinstance(outcome, Confirmed):
            return outcome.subscription, False
        subscription = fold(None, outcome.events[0])
        active = self._active[name] = Active(name, subscription)
        active.stated_bytes = outcome.size
        self._subscribers.add(active)
        return subscription, True

    def unsubscribe(self, root: bytes, subscription_id: str) -> None:
        """Delete a subscription."""
        active = self._find(root, subscription_id)
        self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
        self._forget(active)

    def _forget(self, active: Active) -> None:
        active.stop()
        self._subscribers.remove(active)
        del self._active[active.name]

    def link(self, root: bytes, subscription_id: str, paths: tuple[str, ...]) -> None:
        """Link streams explicitly (§6.4)."""
        active = self._find(root, subscription_id)
        self._relink(active, self._engine.execute(LinkStreams(active.name, self._engine.clock.now(), paths)))

    def unlink(self, root: bytes, subscription_id: str, path: str) -> None:
        """Remove an explicit link (§6.4)."""
        active = self._find(root, subscription_id)
        self._relink(active, self._engine.execute(UnlinkStream(active.name, self._engine.clock.now(), path)))

    def _relink(self, active: Active, outcome: Changed | Untouched) -> None:
        if isinstance(outcome, Changed):
            self._subscribers.remove(active)
            self._take(active, outcome)
            self._subscribers.add(active)

    def claim(self, root: bytes, subscription_id: str, worker: str) -> Subscription:
        """Give the lease to a worker (§7.2)."""
        active = self._find(root, subscription_id)
        wake = active.subscription.wake
        candidates = tuple(dict.fromkeys((*(wake.tails if wake else ()), *active.candidates)))
        command = Claim(active.name, self._engine.clock.now(), self._engine.new_id("w_"), candidates, worker)
        try:
            self._take(active, self._engine.execute(command))
        except NoPendingWork:
            self._call_off(active)
            raise
        return active.subscription

    def _call_off(self, active: Active) -> None:
        """End a wake that nobody can claim any more, as its streams are gone: later news must wake again."""
        wake = active.subscription.wake
        if wake and wake.holder is None:
            over = Report(
                active.name, self._engine.clock.now(), wake.wake_id, active.subscription.generation, done=True
            )
            self._take(active, self._engine.execute(over))

    def report(self, root: bytes, subscription_id: str, report: Reported) -> bool:
        """Take a callback, an ack or a release. Tells whether another wake follows (§7.1, §7.2)."""
        active = self._find(root, subscription_id)
        command = Report(
            active.name, self._engine.clock.now(), report.wake_id, report.generation, report.acks, report.done
        )
        self._take(active, self._engine.execute(command))
        return active.subscription.wake is None and self._wake(active)

    def drop_root(self, root: bytes) -> None:
        """Delete the subscriptions of a stream root that is gone."""
        gone = [active for active in self._active.values() if active.subscription.root.encode() == root]
        for active in gone:
            self._engine.execute(Unsubscribe(active.name, self._engine.clock.now()))
            self._forget(active)

    def _reload(self, names: set[bytes]) -> None:
        """Go back to what is durable, after changes that there was no room for.

        What was decided in view of them was in vain too, even that a stream had no news: all are looked at again.
        """
        for name in names:
            if not name.startswith(RECORDS):
                continue
            active = self._active.get(name)
            if active:
                self._forget(active)
            self._take_up(name)
            if name in self._active:
                self._taken_up.append(self._active[name])
        if self._active and not self._recovery:
            self._recovery = self._scheduler.call_later(REFUSED_SECS, self._recover)

    def _recover(self) -> None:
        self._recovery = None
        taken_up, self._taken_up = tuple(self._taken_up), []
        self._go_on(self._survey(taken_up))

    def close(self) -> None:
        """Time nothing any more."""
        if self._recovery:
            self._recovery.cancel()
        for active in self._active.values():
            active.stop()
