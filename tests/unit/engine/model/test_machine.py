"""The engine against the model: on a storage that is done at once, on one that takes its time, and in little memory."""

from hypothesis import settings, strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from everbrook.engine.tuning import StreamsTuning
from everbrook.storage import MemoryStorage, StorageFull
from tests.kit.fakes import DelayedStorage, LastingStorage
from tests.unit.engine.model.machine import EngineMachine
from tests.unit.engine.rig import evict

# The same runs every time.
generated = settings(max_examples=230, stateful_step_count=40, deadline=None, database=None)

pending = precondition(lambda self: self.engine.last_change > self.engine.durable_change and not self.model.failed)


class ImmediateMachine(EngineMachine):
    """Every change is durable at once."""

    def new_storage(self) -> MemoryStorage:
        return LastingStorage()


class DelayedMachine(EngineMachine):
    """Changes are on their way until the machine lets a group arrive, or fail."""

    storage: DelayedStorage

    def new_storage(self) -> MemoryStorage:
        return DelayedStorage()

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
        self.storage.verdict = error
        assert self.commits.run(1)
        self.scheduler.run_from_threads()

    def finish(self) -> None:
        self.settle()
        while self.engine.last_change > self.engine.durable_change and not self.model.failed:
            self.let_a_group_arrive()
            self.settle()


class CrampedMachine(DelayedMachine):
    """There is little memory: streams leave it and are loaded again. And there is little room: groups are refused."""

    expiring = False
    tuning = replace(EngineMachine.tuning, streams=StreamsTuning(max_resident=1, eviction_slice=1))

    @rule()
    def forget(self) -> None:
        evict(self.engine)

    @pending
    @rule()
    def refuse_a_group(self) -> None:
        """What is on its way is as if it had never been."""
        durable = self.engine.durable_change
        for answer in self.answers:
            answer.refused = answer.refused or not answer.told
        self._decide_on_a_group(StorageFull("the disk is full"))
        self.model.roll_back(durable, self.engine.last_change)


TestImmediate = ImmediateMachine.TestCase
TestImmediate.settings = generated
TestDelayed = DelayedMachine.TestCase
TestDelayed.settings = generated
TestCramped = CrampedMachine.TestCase
TestCramped.settings = generated
