"""Generations of crash and recovery, all drawn from one seed, so that each failure replays.

In each generation a store is opened and used, and every operation of its disk recorded. Then it crashes at several
points of the recording: each time what is left is opened and held against the promises. The last of these crashes is
where the next generation begins.
"""

from collections.abc import Iterator
from random import Random

from msgspec import Struct

from everbrook.storage import Storage
from tests.crash.inspection import check_blobs, check_listing, check_swept, discard_all, sweep_blobs
from tests.crash.machine import Machine
from tests.crash.modes import MODES
from tests.crash.operations import Cut, Wrote, described
from tests.crash.probe import probe
from tests.crash.promises import Promises, Violation
from tests.crash.recorder import Forgets, forgets_nothing
from tests.crash.server import serve
from tests.crash.snapshot import Snapshot, readable_snapshot, stored_snapshot
from tests.crash.tape import Tape
from tests.crash.workload import NAMES, Workload
from tests.crash.writer import write
from tests.engine.fakes import START_MS

GENERATIONS = 4
POINTS = 12
POINTS_PER_SEED = GENERATIONS * POINTS
UNSYNCED = 0.5
POWER_FAILED = 0.6
OPENING = 8
CHECKED_EVERY = 5
SHOWN = 12
DRIVERS = {"storage": write, "engine": serve}


class Plan(Struct, frozen=True):
    """What to replay. With `only`, one point is judged, and the others gone through as far as they lead there."""

    mode: str
    seed: int
    level: str = "storage"
    forgets: Forgets = forgets_nothing
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
    survives: bool
    """Whether a failure of the power may take nothing that was acknowledged."""


class Replay:
    """One seed's generations."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._chance = Random(f"{plan.mode} {plan.seed}")
        self._mode = MODES[plan.mode]
        self._machine = Machine(self._mode, plan.seed, plan.forgets)
        self._tape = Tape()
        self._promises = Promises(self._mode, {})
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
            self._promises.acknowledge(self._promises.last, self._opened_at)
            DRIVERS[self._plan.level](self._machine, storage, self._promises, self._workload, self._chance)
        self._workload.now += 1000

    def _crashes(self, generation: int, begin: int) -> list[Crash]:
        """Choose the moments of a generation: one soon, and more often those at which a write has not been synced."""
        chance, operations = self._chance, self._tape.operations
        unsynced = [at for at in range(begin + 1, len(operations)) if isinstance(operations[at - 1], Wrote | Cut)]
        crashes: list[Crash] = []
        for number in range(POINTS):
            anywhere = chance.randint(begin, len(operations) if number else min(begin + OPENING, len(operations)))
            at = chance.choice(unsynced) if number and unsynced and chance.random() < UNSYNCED else anywhere
            survives = self._mode.durable or (self._mode.survives_power(generation) and at >= self._opened_at)
            power_failed = chance.random() < POWER_FAILED and (survives or number < POINTS - 1)
            crashes.append(Crash(generation, generation * POINTS + number, at, power_failed, survives))
        return crashes

    def _crash(self, crash: Crash, begin: int, *, leads_on: bool) -> None:
        chance = Random(f"{self._plan.seed} {crash.point}")
        after = self._tape.fail_power if crash.power_failed else self._tape.kill
        left = after(crash.at, chance)
        try:
            if crash.power_failed and not crash.survives:
                self._look(crash, left)
                return
            found = self._recover(crash, Tape(left.base, list(left.operations)))
        except Exception as error:
            raise Violation(self._report(crash, begin, error)) from error
        if leads_on:
            self._lead_on(crash, left, found)

    def _look(self, crash: Crash, left: Tape) -> None:
        """Open what is left of a store that does not promise to outlive its machine. What it shows must be whole.

        It may be older than the tape, if that began with what an earlier failure left and a durable turn made of it.
        """
        with self._machine.running(left, crash.generation + 1, _salt(crash, 0)) as storage:
            found = readable_snapshot(storage, NAMES)
            sweep_blobs(storage)
            if not self._mode.survives_power(1):
                self._promises.judge_readable(found)

    def _recover(self, crash: Crash, left: Tape) -> Snapshot:
        """Open what a crash left, twice: the first opening may be cut short too."""
        if crash.point % CHECKED_EVERY == 0 and (checked := self._machine.damages(left)):
            raise Violation(f"a check took a crash for damage: {checked}")
        with self._machine.running(left, crash.generation + 1, _salt(crash, 0)) as storage:
            if damages := getattr(storage, "damages", None):
                raise Violation(f"a crash was taken for damage: {damages}")
            found = stored_snapshot(storage, NAMES)
            self._promises.judge(found, self._promises.due(crash.at))
            self._look_round(storage, found)
            probe(self._machine, storage, found, self._workload.now)
        with self._machine.running(left, crash.generation + 1, _salt(crash, 1)) as storage:
            if stored_snapshot(storage, NAMES) != found:
                raise Violation("opened a second time, after what nobody retains was discarded, the store is another")
            check_swept(storage, found)
            check_blobs(storage, found)
        return found

    def _look_round(self, storage: Storage, found: Snapshot) -> None:
        """See what belongs to the streams, and clear away what does not."""
        check_blobs(storage, found)
        check_listing(storage, found)
        sweep_blobs(storage)
        discard_all(storage, found)
        self._machine.jobs.run()

    def _lead_on(self, crash: Crash, left: Tape, found: Snapshot) -> None:
        if crash.power_failed:
            self._promises = Promises(self._mode, found)
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


def _salt(crash: Crash, opening: int) -> int:
    """No two openings have the same, and one that replays has the same as before."""
    return GENERATIONS + 2 * crash.point + opening


def replay(plan: Plan) -> Iterator[int]:
    """Crash at every point of a plan."""
    yield from Replay(plan).points()
