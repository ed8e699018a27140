"""Wakes: appends wake subscriptions, webhooks are delivered and tried again, leases lapse (§7).

Whether a subscription has work follows from the tails of its streams and from its acks, both of which are durable. Only
the list of streams that may have news is kept in memory alone.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.subscriptions.index import Active, SubscriptionIndex, Trouble, path_of, record_name
from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, quoted
from everbrook.protocol.state import Drop, Edit, Head
from everbrook.protocol.subscriptions.subscription import (
    Changed,
    Compact,
    Deliver,
    Lapse,
    Report,
    Subscription,
    Wake,
    WakeUp,
)

logger = logging.getLogger(__name__)

Deliverer = Callable[[Subscription, Wake], None]


class Delivery(Struct, frozen=True):
    """The result of a webhook: whether it was accepted, and whether the receiver is done with the work."""

    taken: bool
    done: bool = False


class WakeScheduler:
    """Decides when the subscriptions of an index wake, are delivered again, and lose a lease."""

    def __init__(self, engine: Engine, index: SubscriptionIndex, deliver: Deliverer) -> None:
        """Follow durable changes. `deliver` sends a wake to its webhook; its result comes to `delivered`."""
        self._engine = engine
        self._tuning = engine.tuning.subscriptions
        self._faults = engine.faults
        self._index = index
        self._deliver_wake = deliver
        self._waiting: list[Active] = []
        self._scheduled = False
        index.follower = self._follow

    def resume(self, active: Active) -> None:
        """Continue the wake that was in flight when the last server ended: its delivery may not have arrived."""
        subscription = active.subscription
        if subscription.wake and not subscription.pull and not subscription.next_attempt_at:
            self._deliver(active)
        if subscription.wake and subscription.pull and not self._is_announced(subscription, subscription.wake):
            self._announce_again(active)
        self._set_timer(active)

    def _is_announced(self, subscription: Subscription, wake: Wake) -> bool:
        """Return whether the wake stream to which a wake was appended still exists."""
        name = (subscription.root + (subscription.config.wake_stream or "")).encode()
        try:
            return (
                self._engine.readers.find(name, self._engine.clock.now()).committed.identity.incarnation == wake.told_in
            )
        except ProtocolError:
            return False

    # News

    def _follow(self, edit: Edit) -> None:
        """Note the news in an edit that is durable now."""
        name = edit.head.identity.name
        if isinstance(edit, Drop):
            for active in self._index.links.of(name):
                active.forget(path_of(name), edit.head.identity.incarnation)
            for active in self._index.links.with_wake_stream(name):
                self._announce_again(active)
        elif edit.data or edit.created:
            self.note_news(name, edit.head)

    def _announce_again(self, active: Active) -> None:
        """Repeat an unclaimed wake, because the wake stream to which it was appended no longer exists."""
        with suppress(ProtocolError):
            self.call_off(active)
        self._wake_soon(active)

    def note_news(self, name: bytes, head: Head) -> None:
        """Queue the subscriptions for which a stream has news."""
        for active in self._index.links.of(name):
            path = path_of(name)
            if active.subscription.has_news(path, head.identity.incarnation, head.tail):
                active.candidates[path] = None
                self._wake_soon(active)

    def _wake_soon(self, active: Active) -> None:
        if active.queued or active.subscription.wake:
            return
        active.queued = True
        self._waiting.append(active)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._faults.soon(Callback.SUBSCRIPTION, self._wake_waiting, failed=self._wake_later)

    def _wake_later(self) -> None:
        """Try the queued wakes again after a pause, because the last attempt raised an exception."""
        self._scheduled = bool(self._waiting)
        if self._waiting:
            secs = self._tuning.refused_secs
            self._faults.later(Callback.SUBSCRIPTION, secs, self._wake_waiting, failed=self._wake_later)

    def _wake_waiting(self) -> None:
        """Wake some of the queued subscriptions. Their candidates together are about as many as one wake may name."""
        self._scheduled = False
        batch: list[Active] = []
        streams = 0
        for active in self._waiting[: self._tuning.wakes_at_once]:
            batch.append(active)
            streams += len(active.candidates)
            if streams >= self._tuning.max_wake_streams:
                break
        del self._waiting[: len(batch)]
        for active in batch:
            active.queued = False
            self._faults.run(Callback.SUBSCRIPTION, self.wake, active)
        self._schedule()

    def wake(self, active: Active) -> bool:
        """Begin a generation if there is news. Returns whether one began.

        It checks as many streams as a wake may name. If they have no news, the others are checked in a later turn.
        """
        now = self._engine.clock.now()
        if self._engine.failure or not self._index.is_current(active):
            return False
        if active.subscription.next_attempt_at > now:
            self._set_timer(active)
            return False
        if active.candidates and not active.subscription.wake:
            candidates = tuple(islice(active.candidates, self._tuning.max_wake_streams))
            try:
                outcome = self._engine.execute(WakeUp(active.name, now, "w_" + self._engine.clock.token(), candidates))
            except ProtocolError as error:
                # The wake stream is missing, closed or full. Try again later, because that may change.
                self._note_trouble(active, error)
                active.waits_until = now + self._tuning.missing_stream_ms
                self._set_timer(active)
                return False
            for path in candidates:
                active.candidates.pop(path, None)
            active.trouble = None
            if isinstance(outcome, Changed):
                self.take(active, outcome)
                self._queue_again(active)
                if not active.subscription.pull:
                    self._deliver(active)
                return True
            if active.candidates:
                self._wake_soon(active)
        return False

    def _note_trouble(self, active: Active, error: ProtocolError) -> None:
        """Keep the reason why a subscription can't wake a worker. A limit that it has reached is logged once."""
        known, active.trouble = active.trouble, Trouble(error.code, error.detail)
        if isinstance(error, PayloadTooLarge) and (known is None or known.code != error.code):
            id_, root = active.subscription.id, active.subscription.root
            logger.warning("the subscription %r below %s can't wake a worker: %s", id_, quoted(root.encode()), error)

    def _queue_again(self, active: Active) -> None:
        """Move the streams of a wake behind the other candidates, so that the next wake names the others first."""
        wake = active.subscription.wake
        active.candidates.update(dict.fromkeys(wake.tails if wake else ()))

    def take(self, active: Active, outcome: Changed) -> None:
        """Apply the outcome of a command."""
        active.take(outcome.events)
        active.written_bytes += outcome.size
        self._set_timer(active)
        if active.written_bytes > self._tuning.compact_at_bytes + 4 * active.stated_bytes:
            self._compact(active)

    def _compact(self, active: Active) -> None:
        """Replace the events in the record by the present state. After a refusal a later change tries again."""
        with suppress(ProtocolError):
            compacted = self._engine.execute(Compact(active.name, self._engine.clock.now()))
            active.written_bytes, active.stated_bytes = 0, compacted.size

    def call_off(self, active: Active) -> None:
        """End a wake without a holder that can't be claimed any more, so that later news wakes again."""
        wake = active.subscription.wake
        if wake and wake.holder is None:
            over = Report(
                active.name, self._engine.clock.now(), wake.wake_id, active.subscription.generation, done=True
            )
            self.take(active, self._engine.execute(over))

    # Webhooks

    def _deliver(self, active: Active) -> None:
        """Send the present wake once it is durable, unless its delivery is under way."""
        generation = active.subscription.generation
        if active.delivering == generation:
            return
        active.delivering = generation

        def settle(_failure: ProtocolError | None) -> None:
            # The failure can be ignored. A poisoned store shows in `engine.failure`. If a group was refused, the engine
            # calls `on_roll_back` before it releases any response, and `Subscriptions._reload` replaces each `Active`
            # whose record was in the group. So the wake of an `Active` that is still current is durable.
            wake = active.subscription.wake
            here = self._index.is_current(active) and not self._engine.failure
            if here and wake and active.delivering == generation:
                self._deliver_wake(active.subscription, wake)

        self._engine.when_durable(self._engine.last_change, settle)

    def delivered(self, subscription: Subscription, generation: int, delivery: Delivery) -> None:
        """Take the result of a delivery (§7.1)."""
        active = self._index.get(record_name(subscription.root.encode(), subscription.id))
        if active is None or active.subscription is not subscription or self._engine.failure:
            # The subscription was deleted meanwhile, and may have been created again.
            return
        if active.delivering != generation:
            # The lease of this generation has lapsed meanwhile.
            return
        active.delivering = 0
        now = self._engine.clock.now()
        retry_at = None if delivery.taken else self._retry_at(now, active.subscription.failures)
        try:
            outcome = self._engine.execute(Deliver(active.name, now, generation, delivery.done, retry_at))
        except ProtocolError as error:
            self._note_trouble(active, error)
            # The result was refused for want of room. The wake is delivered again when its lease has lapsed.
            return
        if isinstance(outcome, Changed):
            self.take(active, outcome)
        if active.subscription.wake is None:
            self.wake(active)

    def _retry_delay_ms(self, failures: int) -> int:
        """Return the delay after a number of failures: exponential backoff with jitter (§7.1)."""
        tuning = self._tuning
        delay_ms: int = min(tuning.first_retry_ms << min(failures, 16), tuning.last_retry_ms)
        return round(delay_ms * (1 + tuning.jitter * (2 * self._engine.clock.chance() - 1)))

    def _retry_at(self, now: int, failures: int) -> int:
        """Return the time of the next attempt: not in the same second, because its signature would be the same."""
        return max(now + self._retry_delay_ms(failures), (now // 1000 + 1) * 1000)

    # Time

    def _set_timer(self, active: Active) -> None:
        """Set the timer to the end of the lease or to the next attempt, whichever comes first."""
        subscription, wake = active.subscription, active.subscription.wake
        moments = []
        if wake and wake.lease_until is not None:
            moments.append(wake.lease_until)
        if subscription.next_attempt_at and (wake or active.candidates):
            moments.append(max(subscription.next_attempt_at, self._engine.clock.now()))
        if active.waits_until and not wake:
            moments.append(active.waits_until)
        if moments:
            self._set_timer_at(active, min(moments))
        else:
            active.stop()

    def _set_timer_at(self, active: Active, moment: int) -> None:
        active.stop()
        delay_secs = max(0.0, (moment - self._engine.clock.now()) / 1000)
        active.timer = self._faults.later(
            Callback.SUBSCRIPTION, delay_secs, self._on_timer, active, failed=partial(self._time_again, active)
        )

    def _time_again(self, active: Active) -> None:
        """Set the timer again after an exception: otherwise the subscription would never wake again."""
        if self._index.is_current(active):
            self._set_timer_at(active, self._engine.clock.now() + self._tuning.missing_stream_ms)

    def _on_timer(self, active: Active) -> None:
        active.timer = None
        active.waits_until = 0
        if self._engine.failure or not self._index.is_current(active):
            return
        now = self._engine.clock.now()
        try:
            outcome = self._engine.execute(Lapse(active.name, now))
        except ProtocolError as error:
            # The lapse was refused for want of room: try again later.
            self._note_trouble(active, error)
            self._set_timer_at(active, now + self._tuning.missing_stream_ms)
            return
        if isinstance(outcome, Changed):
            self.take(active, outcome)
            self._fail_hanging_delivery(active, now)
        subscription = active.subscription
        if subscription.wake is None:
            self.wake(active)
        elif not subscription.pull and 0 < subscription.next_attempt_at <= now:
            self._deliver(active)
            self._set_timer_at(active, subscription.wake.lease_until or now)
        else:
            self._set_timer(active)

    def _fail_hanging_delivery(self, active: Active, now: int) -> None:
        """Count a delivery that outlasted its lease as failed, so that retries for a hanging receiver back off."""
        generation, active.delivering = active.delivering, 0
        if not generation:
            return
        retry_at = self._retry_at(now, active.subscription.failures)
        with suppress(ProtocolError):
            outcome = self._engine.execute(Deliver(active.name, now, generation, retry_at=retry_at))
            if isinstance(outcome, Changed):
                self.take(active, outcome)
