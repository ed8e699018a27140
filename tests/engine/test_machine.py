"""The engine against the model: on a storage that is done at once, on one that takes its time, and in little memory."""

from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from everbrook.engine import streams
from everbrook.storage.api import StorageFull
from everbrook.storage.memory import MemoryStorage
from tests.engine.fakes import DelayedStorage
from tests.engine.machine import EngineMachine

# The same runs every time.
generated = settings(derandomize=True, max_examples=230, stateful_step_count=40, deadline=None, database=None)

pending = precondition(lambda self: self.engine.last_change > self.engine.durable_change and not self.model.failed)


class LastingStorage(MemoryStorage):
    """A storage that is still there when the engine that used it has gone."""

    def close(self) -> None:
        """Keep everything."""


class LastingDelayedStorage(DelayedStorage):
    """The same, done when the machine says so."""

    def close(self) -> None:
        """Keep everything."""


class ImmediateMachine(EngineMachine):
    """Every change is durable at once."""

    def new_storage(self) -> MemoryStorage:
        return LastingStorage()


class DelayedMachine(EngineMachine):
    """Changes are on their way until the machine lets a group arrive, or fail."""

    storage: LastingDelayedStorage

    def new_storage(self) -> MemoryStorage:
        return LastingDelayedStorage()

    @pending
    @rule()
    def let_a_group_arrive(self) -> None:
        self._decide_on_a_group(None)

    @pending
    @rule()
    def let_everything_arrive(self) -> None:
        self.finish()

    @pending
    @rule(sure=st.sampled_from([False] * 7 + [True]))
    def let_a_group_fail(self, *, sure: bool) -> None:
        """Nothing is written any more. Everybody who waits is told, reads go on."""
        if sure:
            self.model.failed = True
            self._decide_on_a_group(OSError("the disk is gone"))

    def _decide_on_a_group(self, error: Exception | None) -> None:
        self.settle()
        self.storage.give_verdict(error)
        self.scheduler.take_from_thread()

    def abandon(self) -> None:
        self.storage.let_the_next_group_arrive()

    def finish(self) -> None:
        self.settle()
        while self.engine.last_change > self.engine.durable_change and not self.model.failed:
            self.let_a_group_arrive()
            self.settle()


class CrampedMachine(DelayedMachine):
    """There is little memory: streams leave it and are loaded again. And there is little room: groups are refused."""

    expiring = False

    def __init__(self) -> None:
        self._little_memory = patch.multiple(streams, MAX_RESIDENT=1, EVICTION_SLICE=1)
        self._little_memory.start()
        super().__init__()

    @rule()
    def forget(self) -> None:
        self.engine._streams.trim()

    @pending
    @rule()
    def refuse_a_group(self) -> None:
        """What is on its way is as if it had never been."""
        durable = self.engine.durable_change
        for answer in self.answers:
            answer.refused = answer.refused or not answer.told
        self._decide_on_a_group(StorageFull("the disk is full"))
        self.model.roll_back(durable, self.engine.last_change)

    def teardown(self) -> None:
        super().teardown()
        self._little_memory.stop()


TestImmediate = ImmediateMachine.TestCase
TestImmediate.settings = generated
TestDelayed = DelayedMachine.TestCase
TestDelayed.settings = generated
TestCramped = CrampedMachine.TestCase
TestCramped.settings = generated
