"""The whole machine: commands, reads, time that passes or stalls, new starts, and what holds throughout."""

import sys

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from everbrook.engine.usage import EVERYTHING
from tests.unit.engine.model.cutting import BUCKET
from tests.unit.engine.model.looking import LookingMachine
from tests.unit.engine.model.needing import check_usage
from tests.unit.engine.rig import newest, residents


class EngineMachine(LookingMachine):
    """Whatever happens to the engine in whatever order, it does what the model does."""

    # Time

    @rule()
    def turn(self) -> None:
        self._turn()

    def _turn(self) -> int:
        """Take a turn of the loop. Deadlines are looked at when their slice has its turn."""
        self.work()
        slices = self.engine.inspect().expiring.slices
        run = self.scheduler.run_soon()
        self.count_followers()
        if self.engine.inspect().expiring.slices > slices:
            self.model.sweep(self.clock.now())
        return run + self.scheduler.run_timers()

    def settle(self) -> None:
        while self._turn():
            pass

    @rule(millis=st.sampled_from([1, 499, 1000, 1500, 2000]))
    def pass_time(self, *, millis: int) -> None:
        """Let time pass, with every deadline seen in time."""
        end = self.clock.now() + millis
        self.settle()
        while (deadline := self.model.next_deadline(self.clock.now())) is not None and deadline <= end:
            self.clock.micros = deadline * 1000
            self.settle()
        self.clock.micros = end * 1000

    @rule(millis=st.sampled_from([1, 1000, 2000]))
    def stall(self, *, millis: int) -> None:
        """Let time pass while the loop does not get to anything."""
        self.clock.micros += millis * 1000

    # Starting again

    @precondition(lambda self: self.engine.last_change == self.engine.durable_change and not self.model.failed)
    @rule()
    def restart(self) -> None:
        """A new engine on the same storage goes on; times to live begin anew."""
        self.settle()
        if self.engine.last_change > self.engine.durable_change:
            return
        for follower in self.followers:
            follower.leave()
        self.give_up_everything()
        self.check_blobs()
        self.engine.close()
        self.clock.micros += 1000
        self.engine = self.new_engine()
        self.model.history = [self.model.newest]
        self.followers, self.answers, self.released = [], [], []
        for name, stream in self.model.newest.items():
            assert newest(self.engine, name) is not None
            self.model.touched[stream.incarnation] = self.clock.now()

    # What always holds

    @invariant()
    def as_many_changes_as_in_the_model(self) -> None:
        if not self.model.failed:
            assert self.engine.last_change == len(self.model.history) - 1

    @invariant()
    def as_much_is_held_as_streams_and_their_forks_need(self) -> None:
        for scope in (EVERYTHING, BUCKET):
            check_usage(self.engine, scope)

    @invariant()
    def answers_are_told_once_when_durable_and_in_order(self) -> None:
        for answer in self.answers:
            durable = answer.number <= self.engine.durable_change and not answer.refused
            assert len(answer.told) == (durable or answer.refused or self.model.failed)
            assert all((failure is None) == durable for failure in answer.told)
        assert self.released == sorted(self.released)

    def finish(self) -> None:
        """Let everything that is on its way arrive."""
        self.settle()

    def teardown(self) -> None:
        """Everybody has got everything; and when all streams go, nothing is left of them."""
        if sys.exc_info()[0] is None:
            self.finish()
            self._check_the_end()
        self.engine.close()

    def _check_the_end(self) -> None:
        self.check_that_followers_have_everything()
        self.give_up_everything()
        if not self.model.failed:
            self.check_blobs()
            self._delete_everything()
            self.work()
            assert self.storage.used_bytes == 0
            assert residents(self.engine) == 0

    def _delete_everything(self) -> None:
        for follower in self.followers:
            follower.leave()
        self.finish()
        for name in self.model.names:
            stream = self.model.newest.get(name)
            if stream and not self.model.ended(stream, self.clock.now()):
                self.remove(name)
        self.finish()
        if self.model.newest:
            self.remove_bucket()
        self.finish()
        assert self.model.newest == {}
