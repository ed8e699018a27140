"""The whole engine on a store until it crashes: commands, uploads, answers, reads, commits and folds, in any order."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

from everbrook.engine.limits import Limits
from everbrook.protocol import (
    Change,
    Command,
    Create,
    CreateBucket,
    DeleteBucket,
    Head,
    PublishSnapshot,
    bucket_of,
    bucket_prefix,
    bucket_record,
)
from everbrook.protocol.errors import NotFound, ProtocolError, StreamGone, Unavailable
from everbrook.storage import DurableStorage
from tests.crash.simulation.inspection import is_whole
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.promises import Promises, Violation
from tests.crash.simulation.snapshot import Snapshot, StreamState, kept_snapshot, revived
from tests.crash.simulation.uploading import Uploads
from tests.crash.simulation.workload import NAMES, Workload
from tests.crash.simulation.writer import CLOSED, FAILED
from tests.kit.fakes import FakeClock, FakeScheduler
from tests.kit.views import Streams

STEPS = (30, 120)
MORE = 0.7
PRODUCER_IDLE_MS = 7 * 86_400_000


class Followed(Streams):
    """A model that follows decisions made elsewhere, about heads that are equal to its own."""

    def _drop(self, head: Head) -> None:
        own = self.kept[head.identity.name].head
        assert own == head
        super()._drop(own)


class Server:
    """An engine whose every decision is followed, and whose every answer is held against it."""

    def __init__(
        self, machine: Machine, storage: DurableStorage, promises: Promises, workload: Workload, chance: Random
    ) -> None:
        self._machine = machine
        self._storage = storage
        self._promises = promises
        self._workload = workload
        self._chance = chance
        self._first = promises.last
        self._journaled = storage._journal.last
        self._changed: dict[bytes, int] = {}
        self._streams = revived(promises.state(promises.last), Followed())
        self._clock = FakeClock()
        self._clock.micros = workload.now * 1000
        self._scheduler = FakeScheduler(self._clock)
        self._engine = machine.start_engine(
            storage, self._scheduler, self._clock, Limits(producer_idle_ms=PRODUCER_IDLE_MS)
        )
        self._uploads = Uploads(self._engine, chance, self._answer)
        self._follow()

    def _follow(self) -> None:
        committer = self._engine._committer
        really_submit = committer.submit

        def submit(change: Change) -> None:
            self._streams.keep(change)
            number = self._promises.expect(kept_snapshot(self._streams))
            self._promises.journal(self._journaled + number - self._first, number)
            self._changed.update((edit.head.identity.name, number) for edit in change)
            really_submit(change)

        committer.submit = submit  # type: ignore[method-assign]

    def run(self) -> None:
        """Do one thing after the other."""
        blobs, uploads = self._machine.uploads, self._uploads
        doings: list[Callable[[], object]] = [self._command] * 4
        doings += [self._turn, self._persist, self._finish, self._look, self._fill_disk, self._idle]
        doings += [blobs.step, blobs.run, uploads.step]
        for _ in range(self._chance.randint(*STEPS)):
            self._chance.choice(doings)()
            if self._chance.random() < 0.05:
                self._machine.jobs.run()
        end = self._chance.random()
        if end < CLOSED:
            self._engine.close()
        elif end < CLOSED + FAILED and self._promises.safe:
            self._machine.disk.syncs_fail = True
            self._persist()

    def _command(self) -> None:
        """Execute a command. What it is answered, a refusal too, is told when what it rests on is durable."""
        command = self._workload.next(self._streams, self._engine.new_incarnation())
        self._clock.micros = self._workload.now * 1000
        with suppress(ProtocolError):
            if isinstance(command, PublishSnapshot):
                self._uploads.begin(command, self._workload.pieces())
            else:
                self._engine.execute(command)
        self._answer(command)

    def _answer(self, command: Command) -> None:
        """Tell what became of a command when that is durable."""
        number = self._rests_on(command)

        def answer(failure: Unavailable | None) -> None:
            if failure is None:
                self._promises.acknowledge(number, len(self._machine.disk.tape))

        self._engine.when_durable(self._engine.last_change, answer)

    def _rests_on(self, command: Command) -> int:
        """Give the change without which the answer to a command might be another."""
        return max(self._changed.get(name, self._first) for name in _names_of(command))

    def _turn(self) -> None:
        self._scheduler.settle()

    def _persist(self) -> None:
        self._machine.commits.run()

    def _idle(self) -> None:
        """Nothing is being persisted, so the journal is sealed."""
        self._storage.seal()
        self._promises.seal(self._storage._journal.last, len(self._machine.disk.tape))

    def _fill_disk(self) -> None:
        """Let snapshots find no room. What else is written is not on its way now."""
        self._machine.disk.room_bytes = self._chance.randrange(500)
        self._machine.uploads.step()
        self._machine.disk.room_bytes = None

    def _finish(self) -> None:
        while self._scheduler.has_from_threads:
            self._scheduler.take_from_thread()
            if self._chance.random() > MORE:
                break

    def _look(self) -> None:
        """Look at every stream as a reader: it sees what is durable, all of that, and nothing else."""
        number = self._first + self._engine.durable_change
        durable = self._promises.state(number)
        self._look_at_names(durable)
        for name in NAMES:
            with suppress(NotFound, StreamGone):
                self._look_at(name, durable.get(name))
        self._promises.acknowledge(number, len(self._machine.disk.tape))

    def _look_at_names(self, durable: Snapshot) -> None:
        for name, head in self._engine.listing.living(b"", b"", len(NAMES)):
            if name not in durable or durable[name].head != head:
                raise Violation(f"{name!r} is listed as {head}, durable is {durable.get(name)}")

    def _look_at(self, name: bytes, state: StreamState | None) -> None:
        stream = self._engine.readers.find(name, self._clock.now())
        if state is None or stream.committed != state.head:
            raise Violation(f"a reader of {name!r} sees {stream.committed}, durable is {state}")
        first, tail = state.head.kept.earliest, state.head.tail
        if first < tail and stream.lineage.read(first, tail) != state.content:
            raise Violation(f"a reader of {name!r} gets other bytes")
        snapshot = state.head.kept.snapshot
        if (
            snapshot
            and not snapshot.automatic
            and not is_whole(self._engine.readers.open_blob(stream, snapshot), snapshot)
        ):
            raise Violation(f"a reader of {name!r} gets another snapshot")


def _names_of(command: Command) -> list[bytes]:
    """Give the names of everything that decides what a command is answered."""
    if isinstance(command, CreateBucket | DeleteBucket):
        prefix = bucket_prefix(command.bucket_id)
        return [bucket_record(command.bucket_id), *(name for name in NAMES if name.startswith(prefix))]
    names = [command.name]
    if bucket_id := bucket_of(command.name):
        names.append(bucket_record(bucket_id))
    if isinstance(command, Create) and command.fork:
        names.append(command.fork.source)
    return names


def serve(machine: Machine, storage: DurableStorage, promises: Promises, workload: Workload, chance: Random) -> None:
    """Use a storage through an engine."""
    Server(machine, storage, promises, workload, chance).run()
