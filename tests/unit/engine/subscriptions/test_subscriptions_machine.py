"""Subscriptions under everything at once: no event is lost, no ack moves back, no generation repeats."""

import sys

from hypothesis import settings, strategies as st
from hypothesis.stateful import invariant, precondition, rule

from everbrook.engine import Engine
from everbrook.protocol import STREAM_ROOT
from everbrook.storage import MemoryStorage
from tests.kit.fakes import LastingStorage
from tests.unit.engine.subscriptions.subscribing import LEASE_MS, comparable
from tests.unit.engine.subscriptions.wakes import IDS, PATHS, WakesMachine, going

# Longer than any retry takes to come.
LONG_MS = 75_000
MAX_ROUNDS = 200

pending = precondition(lambda self: self.rig.engine.last_change > self.rig.engine.durable_change)


class SubscriptionMachine(WakesMachine):
    """Whatever happens in whatever order: who is told in the end has been told of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.acked: dict[tuple[int, str, int], int] = {}
        self.generations: dict[int, int] = {}
        self.checked: tuple[Engine, int] | None = None

    # Time and storage

    @pending
    @rule()
    def refuse(self) -> None:
        self.rig.scheduler.settle()
        self.take_in()
        durable = self.rig.engine.durable_change
        if self.rig.engine.last_change > durable:
            self.rig.refuse()
            self.recall(durable)

    @rule(millis=st.sampled_from([1, 1000, 5000, LEASE_MS]), then=going)
    def pass_time(self, *, millis: int, then: str) -> None:
        """Let time pass, and the loop get to what is due then or not."""
        if then == "settle":
            self.rig.pass_time(millis)
        else:
            self.rig.clock.micros += millis * 1000
        self.go(then)

    @rule(then=going)
    def crash(self, *, then: str) -> None:
        """Start anew. Those who were told of something have not forgotten it."""
        self.recall(self.rig.engine.durable_change)
        self.history = [(0, dict(self.baselines))]
        self.told += self.outstanding
        self.outstanding.clear()
        self.rig.crash()
        self.go(then)

    # What always holds

    @invariant()
    def acks_do_not_move_back_and_generations_grow(self) -> None:
        """§7, §7.3: in what is durable."""
        if self.checked == (self.rig.engine, self.rig.engine.durable_change):
            return
        self.checked = (self.rig.engine, self.rig.engine.durable_change)
        for each in IDS:
            life, stored = self.durable_life(each), self.rig.stored(each)
            if life is None or stored is None:
                continue
            assert stored.generation >= self.generations.get(life, 0)
            self.generations[life] = stored.generation
            for path, link in stored.links.items():
                key = (life, path, link.incarnation)
                assert link.acked >= self.acked.get(key, -1)
                self.acked[key] = link.acked

    @invariant()
    def memory_says_what_the_storage_says(self) -> None:
        if self.rig.engine.last_change == self.rig.engine.durable_change:
            for each in IDS:
                assert comparable(self.rig, self.there(each)) == comparable(self.rig, self.rig.stored(each))

    # The end

    def teardown(self) -> None:
        """Everybody does what they are told of; then everything has been told of."""
        if sys.exc_info()[0] is None:
            self._drain()
            self._check_that_everything_was_told()
            self._check_that_a_new_start_finds_nothing()

    def _drain(self) -> None:
        self.go("settle")
        if self.tail("wake") is None:
            self.rig.put_wake_stream()
        idle = rounds = 0
        while idle < 3:
            rounds += 1
            assert rounds < MAX_ROUNDS, "there is always another wake"
            idle = 0 if self._work_off() else idle + 1
            self.pass_time(millis=LONG_MS if idle else 1, then="settle")

    def _work_off(self) -> bool:
        """Do what was told. Tells whether there was anything."""
        self.go("settle")
        outstanding, self.outstanding, before = self.outstanding, [], self.position
        for sent in outstanding:
            self.rig.answer(sent, done=True)
        self.work(then="settle")
        for each in IDS:
            found = self.there(each)
            if found and found.wake and found.wake.holder:
                acks = [(path, link.acked) for path, link in found.wake.tails.items() if self.ackable(each, path)]
                self.rig.report(each, *acks, done=True)
        self.go("settle")
        return bool(outstanding) or self.position != before

    def _check_that_everything_was_told(self) -> None:
        """§7: every event of a linked stream that came after its link."""
        for (each, path), baseline in self.baselines.items():
            life, tail = self.life(each), self.tail(path)
            assert life is not None
            assert tail is not None
            assert max(baseline, self.marks.get((life, path, self.incarnation(path)), 0)) == tail
            assert self.rig.subscriptions.find(STREAM_ROOT, each).wake is None
        assert set(self.baselines) == {
            (each, path) for path in PATHS if self.tail(path) is not None for each in self.linking(path)
        }

    def _check_that_a_new_start_finds_nothing(self) -> None:
        sent, events = len(self.rig.sent), self.rig.events()
        self.rig.crash()
        self.rig.pass_time(LONG_MS)
        assert (len(self.rig.sent), self.rig.events()) == (sent, events)


class ImmediateMachine(SubscriptionMachine):
    """The same where every change is durable at once, within whatever made it."""

    def new_storage(self) -> MemoryStorage:
        return LastingStorage()


# The same runs every time.
generated = settings(max_examples=500, stateful_step_count=40, deadline=None, database=None)
SubscriptionMachine.TestCase.settings = generated
ImmediateMachine.TestCase.settings = settings(generated, max_examples=150)
TestDelayed = SubscriptionMachine.TestCase
TestImmediate = ImmediateMachine.TestCase
