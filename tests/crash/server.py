"""The whole engine on a store until it crashes: commands, answers, reads, commits and folds, in any order."""

from contextlib import suppress
from random import Random

from everbrook.engine.engine import Engine
from everbrook.engine.limits import Limits
from everbrook.protocol.change import Change
from everbrook.protocol.commands import Command, Create
from everbrook.protocol.errors import ProtocolError, Unavailable
from everbrook.protocol.state import Head
from everbrook.storage.api import Storage
from tests.crash.machine import Machine
from tests.crash.promises import Promises, Violation
from tests.crash.snapshot import kept_snapshot, revived
from tests.crash.workload import NAMES, Workload
from tests.engine.fakes import FakeClock, FakeScheduler
from tests.protocol.views import Streams

STEPS = (20, 90)
PRODUCER_IDLE_MS = 7 * 86_400_000


class Followed(Streams):
    """A model that follows decisions made elsewhere, about heads that are equal to its own."""

    def _drop(self, head: Head) -> None:
        own = self.kept[head.identity.name].head
        assert own == head
        super()._drop(own)


class Server:
    """An engine whose every decision is followed, and whose every answer is held against it."""

    def __init__(self, machine: Machine, storage: Storage, promises: Promises, workload: Workload) -> None:
        self._machine = machine
        self._promises = promises
        self._workload = workload
        self._first = promises.last
        self._changed: dict[bytes, int] = {}
        self._streams = revived(promises.state(promises.last), Followed())
        self._clock = FakeClock()
        self._clock.micros = workload.now * 1000
        self._scheduler = FakeScheduler(self._clock)
        self._engine = Engine(storage, self._scheduler, self._clock, Limits(producer_idle_ms=PRODUCER_IDLE_MS))
        self._follow()

    def _follow(self) -> None:
        committer = self._engine._committer
        really_submit = committer.submit

        def submit(change: Change) -> None:
            self._streams.keep(change)
            number = self._promises.expect(kept_snapshot(self._streams), change)
            self._changed.update((edit.head.identity.name, number) for edit in change)
            really_submit(change)

        committer.submit = submit  # type: ignore[method-assign]

    def run(self, chance: Random) -> None:
        """Do one thing after the other."""
        doings = (self._command, self._command, self._command, self._turn, self._persist, self._finish, self._look)
        for _ in range(chance.randint(*STEPS)):
            chance.choice(doings)()
            if chance.random() < 0.05:
                self._machine.jobs.run()
        if chance.random() < 0.2:
            self._engine.close()

    def _command(self) -> None:
        """Execute a command. What it is answered, a refusal too, is told when what it rests on is durable."""
        engine = self._engine
        command = self._workload.next(self._streams, engine.new_incarnation())
        self._clock.micros = self._workload.now * 1000
        with suppress(ProtocolError):
            engine.execute(command)
        number = self._rests_on(command)

        def answer(failure: Unavailable | None) -> None:
            if failure is None:
                self._promises.acknowledge(number, len(self._machine.disk.tape))

        engine.when_durable(engine.last_change, answer)

    def _rests_on(self, command: Command) -> int:
        """Give the change without which the answer to a command might be another."""
        names = [command.name]
        if isinstance(command, Create) and command.fork:
            names.append(command.fork.source)
        return max(self._changed.get(name, self._first) for name in names)

    def _turn(self) -> None:
        self._scheduler.settle()

    def _persist(self) -> None:
        self._machine.commits.run()

    def _finish(self) -> None:
        if not self._scheduler._from_threads.empty():
            self._scheduler.take_from_thread()

    def _look(self) -> None:
        """Look at every stream as a reader: it sees what is durable, all of that, and nothing else."""
        number = self._first + self._engine.durable_change
        durable = self._promises.state(number)
        for name in NAMES:
            try:
                stream = self._engine.find(name, self._clock.now())
            except ProtocolError:
                continue
            state = durable.get(name)
            if state is None or stream.committed != state.head:
                raise Violation(f"a reader of {name!r} sees {stream.committed}, durable is {state}")
            first = stream.head.identity.first_own_offset
            if first < state.head.tail and stream.lineage.read(first, state.head.tail) != state.own:
                raise Violation(f"a reader of {name!r} gets other bytes")
        self._promises.acknowledge(number, len(self._machine.disk.tape))


def serve(machine: Machine, storage: Storage, promises: Promises, workload: Workload, chance: Random) -> None:
    """Use a storage through an engine."""
    Server(machine, storage, promises, workload).run(chance)
