"""Generations of crash and recovery, all drawn from one seed, so that each failure replays.

In each generation a store is opened and used, and every operation of its disk recorded. Then it crashes at several
points of the recording: each time what is left is opened and held against the promises. The last of these crashes is
where the next generation begins.
"""

from collections.abc import Iterator
from contextlib import suppress
from random import Random

from msgspec import Struct

from everbrook.storage import DurableStorage, StoreError
from tests.crash.simulation.inspection import (
    check_blobs,
    check_listing,
    check_segments,
    check_swept,
    discard_all,
    sweep_blobs,
)
from tests.crash.simulation.machine import Machine
from tests.crash.simulation.modes import MODES
from tests.crash.simulation.operations import Allocated, Cut, Operation, SyncFailed, Wrote, described
from tests.crash.simulation.probe import probe
from tests.crash.simulation.promises import Promises, Violation
from tests.crash.simulation.recorder import Alters, alters_nothing
from tests.crash.simulation.rot import rotten
from tests.crash.simulation.server import serve
from tests.crash.simulation.snapshot import Snapshot, stored_snapshot
from tests.crash.simulation.tape import Tape
from tests.crash.simulation.workload import NAMES, Workload
from tests.crash.simulation.writer import write
from tests.kit.fakes import START_MS

GENERATIONS = 4
POINTS = 12
POINTS_PER_SEED = GENERATIONS * POINTS
IN_WRITES = 0.65
AFTERWARDS = 0.3
POWER_FAILED = 0.55
OPENING = 8
CHECKED_EVERY = 5
ROTTEN_EVERY = 3
SHOWN = 12
DRIVERS = {"storage": write, "engine": serve}


class Plan(Struct, frozen=True):
    """What to replay. With `only`, one point is judged, and the others gone through as far as they lead there."""

    mode: str
    seed: int
    level: str = "storage"
    alters: Alters = alters_nothing
    only: int | None = None

    @property
    def command(self) -> str:
        """What replays it on the command line."""
        return f"python -m tests.crash --mode {self.mode} --level {self.level} --seed {self.seed}"


class Crash(Struct, frozen=True):
    """A moment at which everything stops."""

    generation: int
    point: int
    at: int
    power_failed: bool


class Replay:
    """One seed's generations."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = Random(f"{plan.mode} {plan.seed}")
        self._mode = MODES[plan.mode]
        self._machine = Machine(self._mode, plan.seed, plan.alters)
        self._tape = Tape()
        self._promises = Promises({})
        self._opened_at = 0
        self._expected: Snapshot = {}
        self._workload = Workload(self._chance, START_MS)

    def points(self) -> Iterator[int]:
        """Crash at one point after the other."""
        for generation in range(GENERATIONS):
            begin = len(self._tape)
            try:
                self._live(generation)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise Violation(f"{said}\nreplay it with: {self._plan.command} --points 1") from error
            crashes = self._crashes(generation, begin)
            for crash in crashes:
                if crash is crashes[-1] or self._plan.only in {None, crash.point}:
                    self._crash(crash, begin, leads_on=crash is crashes[-1])
                    yield crash.point
                if crash.point == self._plan.only:
                    return

    def _live(self, generation: int) -> None:
        """Open the store, find it as it was left, and use it."""
        with self._machine.running(self._tape, generation, generation) as storage:
            assert stored_snapshot(storage, NAMES) == self._expected, "opened once more, the store is another"
            check_blobs(storage, self._expected)
            self._opened_at = len(self._tape)
            self._promises.safe = self._mode.at(generation).sync
            self._promises.journal(storage._journal.last, self._promises.last)
            self._promises.acknowledge(self._promises.last, len(self._tape))
            DRIVERS[self._plan.level](self._machine, storage, self._promises, self._workload, self._chance)
        self._workload.now += 1000

    def _crashes(self, generation: int, begin: int) -> list[Crash]:
        """Choose the moments of a generation: one soon, and more often those in or after a write."""
        chance = self._chance
        writes = [at for at in range(begin, len(self._tape)) if _is_write(self._tape.operations[at])]
        crashes: list[Crash] = []
        for number in range(POINTS):
            last = len(self._tape) if number else min(begin + OPENING, len(self._tape))
            at = chance.randint(begin, last)
            if number and writes and chance.random() < IN_WRITES:
                at = chance.choice(writes) + (chance.random() < AFTERWARDS)
            crashes.append(Crash(generation, generation * POINTS + number, at, chance.random() < POWER_FAILED))
        if any(isinstance(each, SyncFailed) for each in self._tape.operations[begin:]):
            # The process ends by itself, and the next one finds in memory what the disk lacks.
            crashes[-1] = Crash(generation, crashes[-1].point, len(self._tape), power_failed=False)
        return crashes

    def _crash(self, crash: Crash, begin: int, *, leads_on: bool) -> None:
        chance = Random(f"{self._plan.seed} {crash.point}")
        after = self._tape.fail_power if crash.power_failed else self._tape.kill
        left = after(crash.at, chance)
        try:
            found = self._recover(crash, left.copy())
            self._rot(crash, left, found, chance)
        except Exception as error:
            raise Violation(self._report(crash, begin, error)) from error
        if leads_on:
            self._lead_on(crash, left, found)

    def _recover(self, crash: Crash, left: Tape) -> Snapshot:
        """Open what a crash left, twice: the first opening may be cut short too."""
        if crash.point % CHECKED_EVERY == 0 and (checked := self._machine.damages(left)):
            raise Violation(f"a check took a crash for damage: {checked}")
        with self._machine.running(left, crash.generation + 1, _salt(crash, 0)) as storage:
            if storage.damages or storage.damaged_streams or storage.refusal:
                raise Violation(f"a crash was taken for damage: {storage.damages} {storage._view.marks}")
            found = stored_snapshot(storage, NAMES)
            self._promises.judge(found, self._due(crash))
            self._look_round(storage, found)
            probe(self._machine, storage, found, self._workload.now)
        with self._machine.running(left, crash.generation + 1, _salt(crash, 1)) as storage:
            if stored_snapshot(storage, NAMES) != found:
                raise Violation("opened a second time, after what nobody retains was discarded, the store is another")
            check_swept(storage, found)
            check_blobs(storage, found)
        return found

    def _rot(self, crash: Crash, left: Tape, found: Snapshot, chance: Random) -> None:
        """Damage what is left of the journal. Whoever opens it is told, unless nothing is lost."""
        if crash.point % ROTTEN_EVERY or crash.at < self._opened_at or (crash.power_failed and not self._promises.safe):
            return
        proven = range(self._machine.applied(left) + 1, self._promises.proven(crash.at) + 1)
        damaged = rotten(left.disk_after(len(left)).everything(), proven, chance) if proven else None
        if damaged is None:
            return
        image, damage = damaged
        with suppress(StoreError), self._machine.running(Tape(image, boot=left.boot), crash.generation + 1) as storage:
            if not storage.damages and stored_snapshot(storage, NAMES) != found:
                raise Violation(f"damage was taken for a crash: {damage}")

    def _due(self, crash: Crash) -> int:
        if crash.power_failed:
            return self._promises.due_after_power_failure(crash.at, self._tape.operations)
        return self._promises.due(crash.at)

    def _look_round(self, storage: DurableStorage, found: Snapshot) -> None:
        """See what belongs to the streams, and clear away what does not."""
        check_blobs(storage, found)
        check_listing(storage, found)
        sweep_blobs(storage)
        discard_all(storage, found)
        self._machine.jobs.run()
        if self._mode.durable:
            check_segments(storage)

    def _lead_on(self, crash: Crash, left: Tape, found: Snapshot) -> None:
        if crash.power_failed:
            self._promises = Promises(found)
        else:
            self._promises.forget_after(crash.at)
            self._promises.expect(found)
        self._tape, self._expected = left, found

    def _report(self, crash: Crash, begin: int, error: Exception) -> str:
        plan = self._plan
        kind = "the power failed" if crash.power_failed else "the process was killed"
        first = max(begin, crash.at - SHOWN)
        last = [f"  {number} {described(self._tape.operations[number])}" for number in range(first, crash.at)]
        return "\n".join(
            [
                f"{plan.mode}, seed {plan.seed}, point {crash.point}: {kind} after {crash.at} operations",
                *last,
                f"{type(error).__name__}: {error}",
                f"replay it with: {plan.command} --point {crash.point}",
            ]
        )


def _is_write(operation: Operation) -> bool:
    return isinstance(operation, Wrote | Allocated | Cut)


def _salt(crash: Crash, opening: int) -> int:
    """No two openings have the same, and one that replays has the same as before."""
    return GENERATIONS + 2 * crash.point + opening


def replay(plan: Plan) -> Iterator[int]:
    """Crash at every point of a plan."""
    yield from Replay(plan).points()
