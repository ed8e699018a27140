"""Subscriptions, their receivers and their workers, in whatever order: what a machine does, and what it remembers.

What a wake must tell of is known without asking the subscriptions: everything that lies beyond where a stream was when
it was linked. A worker that is told of less has lost something.
"""

from contextlib import suppress

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from everbrook.engine import SubscriptionsTuning
from everbrook.engine.subscriptions.index import record_name
from everbrook.protocol import STREAM_ROOT
from everbrook.protocol.errors import AlreadyClaimed, Fenced, NoPendingWork, ProtocolError, SubscriptionNotFound
from everbrook.protocol.subscriptions import Subscription, Wake, is_linked
from everbrook.storage import MemoryStorage
from tests.kit.fakes import DelayedStorage
from tests.unit.engine.rig import durable, newest
from tests.unit.engine.subscriptions.subscribing import Sent, SubscribingRig, name_of

PATHS = ["events/a", "events/b", "x"]
HOOKS, PULLS = ["h", "e"], ["p", "q"]
IDS = [*HOOKS, *PULLS]
Baselines = dict[tuple[str, str], int]

paths = st.sampled_from(PATHS)
ids = st.sampled_from(IDS)
going = st.sampled_from(["nothing", "turn", "arrive", "settle"])


class WakesMachine(RuleBasedStateMachine):
    """Everything that can happen to subscriptions but for what the storage decides."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = SubscribingRig(self.new_storage(), tuning=SubscriptionsTuning(compact_at_bytes=500))
        self.outstanding: list[Sent] = []
        self.seen = 0
        self.baselines: Baselines = {}
        self.history: list[tuple[int, Baselines]] = [(0, {})]
        self.marks: dict[tuple[int, str, int], int] = {}
        self.wakes: dict[tuple[int, int], str] = {}
        self.workers: list[tuple[str, str, int]] = []
        self.told: list[Sent] = []
        self.position = (0, 0)

    def new_storage(self) -> MemoryStorage:
        return DelayedStorage()

    # What there is

    def life(self, subscription_id: str) -> int | None:
        """Give a number that a subscription shares with none of its name before or after."""
        head = newest(self.rig.engine, record_name(STREAM_ROOT, subscription_id))
        return head.identity.incarnation if head else None

    def durable_life(self, subscription_id: str) -> int | None:
        """Give that number as of what is durable."""
        head = durable(self.rig.engine, record_name(STREAM_ROOT, subscription_id))
        return head.identity.incarnation if head else None

    def there(self, subscription_id: str) -> Subscription | None:
        return self.rig.subscriptions.state(record_name(STREAM_ROOT, subscription_id))

    def tail(self, path: str) -> int | None:
        """Give the newest tail of a stream."""
        head = newest(self.rig.engine, name_of(path))
        return head.tail if head else None

    def linking(self, path: str) -> list[str]:
        """Give the subscriptions that a stream is linked to."""
        return [each for each in IDS if (found := self.there(each)) and is_linked(found, path)]

    def remember(self) -> None:
        """Remember where links begin, as of the newest change."""
        self.history.append((self.rig.engine.last_change, dict(self.baselines)))

    def recall(self, durable: int) -> None:
        """Go back to where links began as of a change."""
        self.history = [(number, kept) for number, kept in self.history if number <= durable]
        self.baselines = dict(self.history[-1][1])

    # Going on

    def go(self, then: str) -> None:
        """Let the loop get to some of what is to be done."""
        if then == "turn":
            self.rig.scheduler.run_soon()
            self.rig.scheduler.run_timers()
        elif then == "arrive":
            self.rig.let_group_arrive()
        elif then == "settle":
            self.rig.settle()
        self.take_in()

    # Streams

    @initialize(chosen=st.lists(ids, min_size=1, max_size=2, unique=True))
    def begin(self, *, chosen: list[str]) -> None:
        """Begin with something to lose."""
        self.put("events/a")
        self.put("x")
        self.rig.put_wake_stream()
        for each in chosen:
            self.subscribe(each)
        self.go("settle")

    @rule(path=paths, then=going)
    def add(self, *, path: str, then: str) -> None:
        if self.tail(path) is None:
            self.put(path)
        self.rig.add(path)
        self.go(then)

    @rule(path=paths, again=st.booleans(), then=going)
    def remove(self, *, path: str, again: bool, then: str) -> None:
        if self.tail(path) is not None:
            self.rig.remove(path)
            self.baselines = {key: offset for key, offset in self.baselines.items() if key[1] != path}
            self.remember()
        if again:
            self.put(path)
        self.go(then)

    def put(self, path: str) -> None:
        if self.tail(path) is None:
            self.rig.put(path)
            self.baselines.update({(each, path): 0 for each in self.linking(path)})
            self.remember()

    @rule(then=going)
    def replace_wake_stream(self, *, then: str) -> None:
        if self.tail("wake") is None:
            self.rig.put_wake_stream()
        else:
            self.rig.remove("wake")
        self.go(then)

    # Subscriptions

    def subscribe(self, subscription_id: str) -> None:
        create = self.rig.hook if subscription_id in HOOKS else self.rig.pull
        if subscription_id in {"h", "p"}:
            create(subscription_id, "events/*")
        else:
            create(subscription_id, None, ("x",))
        self.link_at_tails(subscription_id, PATHS)

    def link_at_tails(self, subscription_id: str, linked: list[str]) -> None:
        for path in linked:
            tail = self.tail(path)
            if subscription_id in self.linking(path) and tail is not None:
                self.baselines[subscription_id, path] = tail
        self.remember()

    @rule(subscription_id=ids, again=st.booleans(), then=going)
    def unsubscribe(self, *, subscription_id: str, again: bool, then: str) -> None:
        if self.there(subscription_id):
            self.rig.subscriptions.unsubscribe(STREAM_ROOT, subscription_id)
            self.baselines = {key: offset for key, offset in self.baselines.items() if key[0] != subscription_id}
            self.remember()
        if again:
            self.subscribe(subscription_id)
        self.go(then)

    @rule(which=st.integers(0, 3), path=paths, then=going)
    def link(self, *, which: int, path: str, then: str) -> None:
        """Link a stream that is not linked explicitly, or let go of one that is."""
        present = [each for each in IDS if self.there(each)]
        if present:
            self.relink(present[which % len(present)], path)
        self.go(then)

    def relink(self, subscription_id: str, path: str) -> None:
        before, found = self.linking(path), self.rig.found(subscription_id)
        if path in found.explicit:
            self.rig.subscriptions.unlink(STREAM_ROOT, subscription_id, path)
        else:
            self.rig.subscriptions.link(STREAM_ROOT, subscription_id, (path,))
        if subscription_id not in before:
            self.link_at_tails(subscription_id, [path])
        elif subscription_id not in self.linking(path):
            self.baselines.pop((subscription_id, path), None)
            self.remember()

    # Being told

    def take_in(self) -> None:
        """Take in what was sent since the last look."""
        for sent in self.rig.sent[self.seen :]:
            self.hear(sent.subscription, sent.generation, sent.wake)
            self.outstanding.append(sent)
        self.seen = len(self.rig.sent)

    def hear(self, subscription: Subscription, generation: int, wake: Wake) -> None:
        """Be told of a wake: it is durable, the only one of its generation, and leaves nothing out."""
        life, stored = self.life(subscription.id), self.rig.stored(subscription.id)
        if life is None or stored is None or self.there(subscription.id) is not subscription:
            return
        assert stored.generation >= generation
        assert self.wakes.setdefault((life, generation), wake.wake_id) == wake.wake_id
        for path, link in wake.tails.items():
            key = (life, path, link.incarnation)
            baseline = self.baselines.get((subscription.id, path))
            if baseline is not None and link.incarnation == self.incarnation(path):
                assert subscription.acked(path, link.incarnation) <= max(baseline, self.marks.get(key, 0))
            self.marks[key] = max(link.acked, self.marks.get(key, 0))

    def incarnation(self, path: str) -> int:
        head = newest(self.rig.engine, name_of(path))
        return head.identity.incarnation if head else 0

    # Receivers

    @precondition(lambda self: self.outstanding)
    @rule(which=st.integers(0, 9), taken=st.booleans(), done=st.booleans(), then=going)
    def answer(self, *, which: int, taken: bool, done: bool, then: str) -> None:
        sent = self.outstanding.pop(which % len(self.outstanding))
        self.rig.answer(sent, taken=taken, done=taken and done)
        self.told.append(sent)
        self.go(then)

    # Workers

    @rule(then=going)
    def work(self, *, then: str) -> None:
        """Let a worker read the next wake event, and claim."""
        self.read_and_claim()
        self.go(then)

    def read_and_claim(self) -> None:
        try:
            wakes, events = self.rig.kept_incarnation("wake"), self.rig.events()
        except ProtocolError:
            return
        at = self.position[1] if self.position[0] == wakes else 0
        if at < len(events):
            self.claim(events[at].subscription_id, (wakes, at + 1))

    def claim(self, subscription_id: str, after: tuple[int, int]) -> None:
        """Claim a wake. What becomes of it is known when it is durable."""
        claimed: Subscription | None = None
        with suppress(AlreadyClaimed, NoPendingWork, SubscriptionNotFound):
            claimed = self.rig.subscriptions.claim(STREAM_ROOT, subscription_id, "w1")
        wake, generation = (claimed.wake, claimed.generation) if claimed else (None, 0)
        life = self.life(subscription_id)

        def settle(failure: ProtocolError | None) -> None:
            if failure:
                return
            self.position = max(self.position, after)
            if claimed and wake and life:
                self.hear(claimed, generation, wake)
                self.workers.append((subscription_id, wake.wake_id, generation))

        self.rig.engine.when_durable(self.rig.engine.last_change, settle)

    @precondition(lambda self: self.workers or self.told or self.outstanding)
    @rule(which=st.integers(0, 9), done=st.booleans(), ack=st.booleans(), then=going)
    def report(self, *, which: int, done: bool, ack: bool, then: str) -> None:
        """Let somebody who was told of a wake, the last ones first, say what was done."""
        called = [(s.subscription.id, s.wake.wake_id, s.generation) for s in (*self.told, *self.outstanding)]
        known = [*self.workers, *called][::-1]
        self.report_on(*known[which % len(known)], ack=ack, done=done)
        self.go(then)

    def report_on(self, subscription_id: str, wake_id: str, generation: int, *, ack: bool, done: bool) -> None:
        """Report on a wake. Whoever is late is fenced (§7.3)."""
        found = self.there(subscription_id)
        wake = found.wake if found else None
        acks: list[tuple[str, int]] = []
        if wake and found and (wake_id, generation) == (wake.wake_id, found.generation):
            late = wake.lease_until is not None and wake.lease_until <= self.rig.clock.now()
            acks = [(path, link.acked) for path, link in wake.tails.items() if self.ackable(subscription_id, path)]
        else:
            late = True
        try:
            self.rig.report_on(subscription_id, wake_id, generation, *(acks if ack else ()), done=done)
        except (Fenced, SubscriptionNotFound):
            assert late
        else:
            assert not late

    def ackable(self, subscription_id: str, path: str) -> bool:
        found = self.there(subscription_id)
        wake = found.wake if found else None
        assert found is not None
        assert wake is not None
        link, acked = wake.tails[path], found.acked(path, self.incarnation(path))
        same = link.incarnation == self.incarnation(path)
        return same and is_linked(found, path) and acked <= link.acked
