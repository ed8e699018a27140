"""The smallest possible use of a store until it crashes: decide, persist, acknowledge, apply."""

from contextlib import suppress
from itertools import chain
from random import Random

from everbrook.engine.clock import Incarnations
from everbrook.protocol import Change, Command, PublishSnapshot
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import ProtocolError
from everbrook.storage import DurableStorage, StorageFull
from tests.crash.simulation.inspection import check_blobs, check_listing
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.promises import Promises
from tests.crash.simulation.publisher import Publisher
from tests.crash.simulation.snapshot import kept_snapshot, revived, stored_snapshot
from tests.crash.simulation.workload import NAMES, Workload

JOINT = 0.15
FULL = 0.2
IDLE = 0.3
CLOSED = 0.2
FAILED = 0.3
GROUPS = (3, 14)


class Writer:
    """Plays the engine's part for a storage."""

    def __init__(
        self, machine: Machine, storage: DurableStorage, promises: Promises, workload: Workload, chance: Random
    ) -> None:
        self._machine = machine
        self._storage = storage
        self._promises = promises
        self._workload = workload
        self._streams = revived(promises.state(promises.last))
        self._durable = promises.last
        self._incarnations = Incarnations(storage.last_incarnation)
        self._chance = chance
        self._publisher = Publisher(machine, storage, self._incarnations, chance)

    def run(self) -> None:
        """Write some groups. Background work comes when chance has it."""
        chance = self._chance
        for _ in range(chance.randint(*GROUPS)):
            group = [self._joint() if chance.random() < JOINT else self._single() for _ in range(chance.randint(1, 6))]
            self._commit(list(chain.from_iterable(group)), chance.randrange(3000) if chance.random() < FULL else None)
            if chance.random() < IDLE:
                self._storage.seal()
                self._promises.seal(self._storage._journal.last, len(self._machine.disk.tape))
            if chance.random() < 0.5:
                self._machine.jobs.run()
            if chance.random() < 0.15:
                self._look()
        end = chance.random()
        if end < CLOSED:
            self._storage.close()
        elif end < CLOSED + FAILED and self._promises.safe:
            self._fail_sync()

    def _fail_sync(self) -> None:
        """Commit a group whose sync fails. After that nothing may be written any more: the process ends."""
        self._machine.disk.syncs_fail = True
        with suppress(OSError):
            self._commit(self._single(), None)

    def _look(self) -> None:
        """See that the storage shows what is durable, whatever was discarded meanwhile."""
        durable = self._promises.state(self._durable)
        assert stored_snapshot(self._storage, NAMES) == durable, "a storage shows something else than is durable"
        check_listing(self._storage, durable)
        check_blobs(self._storage, durable)

    def _single(self) -> list[Change]:
        change = self._decide()
        self._promises.expect(kept_snapshot(self._streams))
        return [change]

    def _joint(self) -> list[Change]:
        """Make one change of two, if they are about different streams: it must be there entirely or not at all."""
        first = self._decide()
        between = kept_snapshot(self._streams)
        second = self._decide()
        if {edit.head.identity.name for edit in first}.isdisjoint(edit.head.identity.name for edit in second):
            self._promises.expect(kept_snapshot(self._streams))
            return [first + second]
        self._promises.expect(between)
        self._promises.expect(kept_snapshot(self._streams))
        return [first, second]

    def _decide(self) -> Change:
        """Draw commands until one changes something."""
        while True:
            command = self._workload.next(self._streams, self._incarnations.next(self._workload.now))
            with suppress(ProtocolError):
                change = self._change_of(command)
                if change:
                    self._streams.keep(change)
                    return change

    def _change_of(self, command: Command) -> Change:
        if isinstance(command, PublishSnapshot):
            published = self._publisher.publish(self._streams, command, self._workload.pieces())
            return decide(self._streams, published).change if published else ()
        return decide(self._streams, command).change

    def _commit(self, group: list[Change], room_bytes: int | None) -> None:
        """Make a group durable, or find that there is no room for it: then all is as before."""
        before = self._durable
        self._machine.disk.room_bytes = room_bytes
        try:
            self._storage.persist(group)
        except StorageFull:
            self._streams = revived(self._promises.state(before))
            self._durable = self._promises.expect(self._promises.state(before))
            self._promises.acknowledge(self._durable, len(self._machine.disk.tape))
            self._publisher.give_up(group)
            return
        finally:
            self._machine.disk.room_bytes = None
        self._durable = self._promises.last
        self._promises.journal(self._storage._journal.last, self._durable)
        self._promises.acknowledge(self._durable, len(self._machine.disk.tape))
        self._storage.apply(group)
        self._publisher.reclaim(self._promises.state(before), group)


def write(machine: Machine, storage: DurableStorage, promises: Promises, workload: Workload, chance: Random) -> None:
    """Use a storage without an engine."""
    Writer(machine, storage, promises, workload, chance).run()
