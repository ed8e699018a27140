"""Waking: appends wake subscriptions, webhooks are delivered and tried again, leases lapse (§7).

Whether there is work is derived from tails and acks. What is kept in memory beside that is only which streams may have
news.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import islice

from msgspec import Struct

from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.engine.roster import Roster, record_name
from everbrook.engine.subscribers import path_of
from everbrook.engine.subscription import Active, Trouble
from everbrook.protocol.change import Drop, Edit
from everbrook.protocol.errors import PayloadTooLarge, ProtocolError, quoted
from everbrook.protocol.state import Head
from everbrook.protocol.subscriptions.commands import Compact, Deliver, Lapse, Report, WakeUp
from everbrook.protocol.subscriptions.outcomes import Changed
from everbrook.protocol.subscriptions.state import Subscription, Wake

logger = logging.getLogger(__name__)

Deliverer = Callable[[Subscription, Wake], None]


class Delivery(Struct, frozen=True):
    """What became of a webhook: whether it was taken, and whether the receiver is done with the work."""

    taken: bool
    done: bool = False


class Waking:
    """Wakes the subscriptions of a roster."""

    def __init__(self, engine: Engine, roster: Roster, deliver: Deliverer) -> None:
        """Hear of news. `deliver` sends a wake to its webhook, and tells `delivered`."""
        self._engine = engine
        self._tuning = engine.tuning.waking
        self._faults = engine.faults
        self._roster = roster
        self._deliver_wake = deliver
        self._waiting: list[Active] = []
        self._scheduled = False
        engine.followers.append(self._follow)

    def resume(self, active: Active) -> None:
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
            return (
                self._engine.readers.find(name, self._engine.clock.now()).committed.identity.incarnation == wake.told_in
            )
        except ProtocolError:
            return False

    # News

    def _follow(self, edit: Edit) -> None:
        """Hear of an edit that is durable now."""
        if not self._roster.active:
            return
        name = edit.head.identity.name
        if isinstance(edit, Drop):
            for active in self._roster.subscribers.of(name):
                active.forget(path_of(name), edit.head.identity.incarnation)
            for active in self._roster.subscribers.told_in(name):
                self._tell_again(active)
        elif edit.data or edit.created:
            self.note_news(name, edit.head)

    def _tell_again(self, active: Active) -> None:
        """Let a wake that nobody has claimed be told of anew: where it was told of is gone."""
        with suppress(ProtocolError):
            self.call_off(active)
        self._wake_soon(active)

    def note_news(self, name: bytes, head: Head) -> None:
        for active in self._roster.subscribers.of(name):
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
        """Wake those who wait after a while: it failed."""
        self._scheduled = bool(self._waiting)
        if self._waiting:
            secs = self._tuning.refused_secs
            self._faults.later(Callback.SUBSCRIPTION, secs, self._wake_waiting, failed=self._wake_later)

    def _wake_waiting(self) -> None:
        """Wake some of those who wait: so many that not more streams are looked at than one wake may name."""
        self._scheduled = False
        now_waking: list[Active] = []
        streams = 0
        for active in self._waiting[: self._tuning.wakes_at_once]:
            now_waking.append(active)
            streams += len(active.candidates)
            if streams >= self._tuning.max_wake_streams:
                break
        del self._waiting[: len(now_waking)]
        for active in now_waking:
            active.queued = False
            self._faults.run(Callback.SUBSCRIPTION, self.wake, active)
        self._schedule()

    def wake(self, active: Active) -> bool:
        """Begin a generation if there is news, and tell whether one did.

        So many streams are looked at as a wake may name. If they have no news, others are in another turn.
        """
        now = self._engine.clock.now()
        if self._engine.failure or not self._roster.holds(active):
            return False
        if active.subscription.next_attempt_at > now:
            self._set_timer(active)
            return False
        if active.candidates and not active.subscription.wake:
            candidates = tuple(islice(active.candidates, self._tuning.max_wake_streams))
            try:
                outcome = self._engine.execute(WakeUp(active.name, now, "w_" + self._engine.clock.token(), candidates))
            except ProtocolError as error:
                # The wake stream is not there, closed or full. That may change.
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
        """Let be seen why a subscription can't wake. A limit that it has reached is in the log, once."""
        known, active.trouble = active.trouble, Trouble(error.code, error.detail)
        if isinstance(error, PayloadTooLarge) and (known is None or known.code != error.code):
            id_, root = active.subscription.id, active.subscription.root
            logger.warning("the subscription %r below %s wakes nobody: %s", id_, quoted(root.encode()), error)

    def _queue_again(self, active: Active) -> None:
        """Put the streams of a wake behind the others, whose turn is next if they go on having news."""
        wake = active.subscription.wake
        active.candidates.update(dict.fromkeys(wake.tails if wake else ()))

    def take(self, active: Active, outcome: Changed) -> None:
        """Take over what was decided."""
        active.take(outcome.events)
        active.written_bytes += outcome.size
        self._set_timer(active)
        if active.written_bytes > self._tuning.compact_at_bytes + 4 * active.stated_bytes:
            self._compact(active)

    def _compact(self, active: Active) -> None:
        """Let a subscription forget its past, or do that another time."""
        with suppress(ProtocolError):
            compacted = self._engine.execute(Compact(active.name, self._engine.clock.now()))
            active.written_bytes, active.stated_bytes = 0, compacted.size

    def call_off(self, active: Active) -> None:
        """End a wake that nobody can claim any more, as its streams are gone: later news must wake again."""
        wake = active.subscription.wake
        if wake and wake.holder is None:
            over = Report(
                active.name, self._engine.clock.now(), wake.wake_id, active.subscription.generation, done=True
            )
            self.take(active, self._engine.execute(over))

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
            here = self._roster.holds(active) and not self._engine.failure
            if here and wake and active.delivering == generation:
                self._deliver_wake(active.subscription, wake)

        self._engine.when_durable(self._engine.last_change, settle)

    def delivered(self, subscription: Subscription, generation: int, delivery: Delivery) -> None:
        """Hear what became of a delivery (§7.1)."""
        active = self._roster.get(record_name(subscription.root.encode(), subscription.id))
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
        except ProtocolError as error:
            self._note_trouble(active, error)
            # There is no room to note it. When the lease has run out it is delivered anew.
            return
        if isinstance(outcome, Changed):
            self.take(active, outcome)
        if active.subscription.wake is None:
            self.wake(active)

    def _retry_delay_ms(self, failures: int) -> int:
        """Give how long to wait after a number of failures: twice as long each time, with jitter (§7.1)."""
        tuning = self._tuning
        delay_ms: int = min(tuning.first_retry_ms << min(failures, 16), tuning.last_retry_ms)
        return round(delay_ms * (1 + tuning.jitter * (2 * self._engine.clock.chance() - 1)))

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
        active.timer = self._faults.later(
            Callback.SUBSCRIPTION, delay_secs, self._look, active, failed=partial(self._look_again, active)
        )

    def _look_again(self, active: Active) -> None:
        """Look at a subscription after a while: it failed, and nobody else would."""
        if self._roster.holds(active):
            self._look_at(active, self._engine.clock.now() + self._tuning.missing_stream_ms)

    def _look(self, active: Active) -> None:
        active.timer = None
        active.waits_until = 0
        if self._engine.failure or not self._roster.holds(active):
            return
        now = self._engine.clock.now()
        try:
            outcome = self._engine.execute(Lapse(active.name, now))
        except ProtocolError as error:
            # There is no room to note it. There may be yet.
            self._note_trouble(active, error)
            self._look_at(active, now + self._tuning.missing_stream_ms)
            return
        if isinstance(outcome, Changed):
            self.take(active, outcome)
            self._note_hanging(active, now)
        subscription = active.subscription
        if subscription.wake is None:
            self.wake(active)
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
                self.take(active, outcome)
