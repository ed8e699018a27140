"""What uses a store until it crashes: the smallest possible writer, which decides, persists, acknowledges and applies."""

from collections.abc import Callable
from random import Random

from everbrook.engine.clock import Incarnations
from everbrook.protocol.change import Change
from everbrook.protocol.decide import decide
from everbrook.protocol.errors import ProtocolError
from everbrook.storage.api import Storage
from tests.crash.machine import Machine
from tests.crash.promises import Promises
from tests.crash.snapshot import kept_snapshot, revived
from tests.crash.workload import Workload

MAX_GROUP = 4
GROUPS = (3, 14)

Driver = Callable[[Machine, Storage, Promises, Workload, Random], None]


class Writer:
    """Plays the engine's part for a storage."""

    def __init__(self, machine: Machine, storage: Storage, promises: Promises, workload: Workload) -> None:
        self._machine = machine
        self._storage = storage
        self._promises = promises
        self._workload = workload
        self._streams = revived(promises.state(promises.last))
        self._incarnations = Incarnations()

    def run(self, chance: Random) -> None:
        """Write some groups. Background work comes when chance has it."""
        for _ in range(chance.randint(*GROUPS)):
            self._commit([self._decide() for _ in range(chance.randint(1, MAX_GROUP))])
            if chance.random() < 0.5:
                self._machine.jobs.run()
        if chance.random() < 0.2:
            self._storage.close()

    def _decide(self) -> Change:
        """Draw commands until one changes something."""
        while True:
            command = self._workload.next(self._streams, self._incarnations.next(self._workload.now))
            try:
                change = decide(self._streams, command).change
            except ProtocolError:
                continue
            if change:
                self._streams.keep(change)
                self._promises.expect(kept_snapshot(self._streams))
                return change

    def _commit(self, group: list[Change]) -> None:
        self._storage.persist(group)
        self._promises.acknowledge(self._promises.last, len(self._machine.disk.tape))
        self._storage.apply(group)


def write(machine: Machine, storage: Storage, promises: Promises, workload: Workload, chance: Random) -> None:
    """Use a storage without an engine."""
    Writer(machine, storage, promises, workload).run(chance)
