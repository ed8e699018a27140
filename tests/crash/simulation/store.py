"""One store and what it must hold, for crashes that a test thinks up instead of drawing them."""

from collections.abc import Iterator
from hashlib import sha256
from random import Random

from everbrook.protocol import Append, Command, Create, ForkFrom, PublishSnapshot
from everbrook.protocol.decide import decide
from everbrook.storage import Storage
from tests.crash.simulation.inspection import check_blobs, sweep_blobs
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.modes import MODES
from tests.crash.simulation.snapshot import Snapshot, kept_snapshot, stored_snapshot
from tests.crash.simulation.tape import Tape
from tests.crash.simulation.workload import NAMES
from tests.kit.views import NOW, TEXT, Streams

TRIES = 40
FEW_TRIES = 2


def create(name: bytes, incarnation: int, body: bytes = b"abc", source: bytes | None = None) -> Create:
    fork = ForkFrom(source) if source else None
    return Create(name, NOW, incarnation, None if source else TEXT, body, fork=fork)


def append(name: bytes, body: bytes) -> Append:
    return Append(name, NOW, TEXT, body)


class Store:
    """Commits commands to a store that can crash."""

    def __init__(self, mode: str, variant: int = 0) -> None:
        """Begin with nothing. The first variant makes a checkpoint after a few hundred bytes."""
        self.machine = Machine(MODES[mode], variant)
        self.tape = Tape()
        self.streams = Streams()

    def commit(self, storage: Storage, *commands: Command) -> None:
        """Decide on commands, one group each."""
        for command in commands:
            change = decide(self.streams, command).change
            self.streams.keep(change)
            storage.persist([change])
            storage.apply([change])

    def publish(self, storage: Storage, name: bytes, blob: int, body: bytes) -> None:
        """Replace everything in a stream by a snapshot, and give the space of that back."""
        head = self.streams.kept[name].head
        draft = storage.blobs.begin(head.identity.incarnation, blob)
        draft.write(body)
        draft.finish()
        digest = sha256(body).digest()
        self.commit(
            storage, PublishSnapshot(name, NOW, head.tail, TEXT, head.identity.incarnation, blob, len(body), digest)
        )
        storage.discard(head.identity.incarnation)
        self.machine.jobs.run()
        sweep_blobs(storage)

    @property
    def held(self) -> Snapshot:
        return kept_snapshot(self.streams)

    def found(self, tape: Tape) -> Snapshot:
        """Open what a crash left. Every snapshot in it is whole."""
        with self.machine.running(tape) as storage:
            found = stored_snapshot(storage, NAMES)
            check_blobs(storage, found)
            return found

    def after_power_failures(self, length: int | None = None, tries: int = TRIES) -> Iterator[Snapshot]:
        """Open what each of many power failures leaves."""
        for number in range(tries):
            yield self.found(self.tape.fail_power(len(self.tape) if length is None else length, Random(number)))

    def after_every_crash(self, begin: int) -> Iterator[Snapshot]:
        """Open what a crash leaves at every moment from one on."""
        for length in range(begin, len(self.tape) + 1):
            yield self.found(self.tape.kill(length, Random(length)))
            yield from self.after_power_failures(length, FEW_TRIES)
