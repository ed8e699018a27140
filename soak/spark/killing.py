"""Spark under fire: queries copy streams while they grow; their driver and the server are killed, and they go on.

Each run of the driver has another number of tasks. A kill counts for a query if Spark's own log says that a batch of it
was begun and not done. The kills come from a seed; when exactly they strike depends on the machine.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from random import Random

from soak.kill import fork
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server
from soak.spark import journal as told
from soak.spark.cases import CONTROLS, VARIANTS, Case, Shape, draw_shape, groups
from soak.spark.driver import Driver, start_driver
from soak.spark.journal import Journal, batches_done, in_flight
from soak.spark.load import Load
from soak.spark.outcome import BESIDE, Outlived, require_found_out, require_held
from soak.spark.verdict import judge, require_sent

MOMENTS = ("planned", "read", "appended", "any")
SERVER_KILLS = 2
ATTEMPTS_PER_KILL = 4
LAST_RUNS = 3
MAX_BATCHES = 12
WORK_SECS, MOMENT_SECS, FINISH_SECS = 60.0, 60.0, 600.0
_LINES = {"read": {told.ON_DRIVER, told.BY_TASKS, told.TASK}, "appended": {told.APPENDED, told.KNOWN}}


def soak_spark(folder: Path, *, kills: int, seed: int, max_secs: float, only: Sequence[str] = ()) -> None:
    """Run the variants and then the controls, or those that are named. Each driver has so much time."""
    for cases in groups(VARIANTS, only):
        for case, outlived in soak_cases(cases, folder / cases[0].name, kills=kills, seed=seed, max_secs=max_secs):
            say(f"{case.name}: {outlived}")
            require_held(case, outlived)
    for cases in groups(CONTROLS, only):
        for case, outlived in soak_cases(cases, folder / cases[0].name, kills=1, seed=seed, max_secs=max_secs):
            say(f"control {case.name}: {outlived}")
            require_found_out(case, outlived)


def soak_cases(
    cases: Sequence[Case], folder: Path, *, kills: int, seed: int, max_secs: float
) -> list[tuple[Case, Outlived]]:
    """Kill the driver until each query was hit so many times in mid-batch, let them finish, and compare."""
    random = Random(seed)  # noqa: S311 - it must replay
    folder.mkdir(parents=True)
    deadline = time.monotonic() + max_secs
    server = Server("acid", folder / "store")
    with server, Load(server.port, fork(random)) as load, ExitStack() as drivers:
        fire = Fire(cases, folder, server, load, random, drivers)
        while fire.fewest_kills() < kills:
            if fire.runs >= ATTEMPTS_PER_KILL * kills * len(cases) or time.monotonic() > deadline:
                raise PromiseBroken(f"the time is over: after {fire.runs} runs {fire.tally()}")
            fire.run(server_kill=fire.server_is_due(kills))
        return fire.finish()


class Fire:
    """Queries, what they depend on, and whoever kills them."""

    def __init__(
        self, cases: Sequence[Case], folder: Path, server: Server, load: Load, random: Random, drivers: ExitStack
    ) -> None:
        self.runs = 0
        self._outlived = {case: Outlived() for case in cases}
        # A control whose flaw does its damage in any batch need not be hit, if there is another.
        self._aims = [case for case in cases if case.repeats or not case.flaw] or list(cases)
        self._folder, self._random = folder, random
        self._server, self._load, self._drivers = server, load, drivers
        self._journal = Journal(folder / "journal")
        self._server_kills = 0

    def fewest_kills(self) -> int:
        """Tell how often the query was hit in mid-batch that was hit least."""
        return min(self._hits(case) for case in self._aims)

    def _hits(self, case: Case) -> int:
        """Count hits. Those of a control have to come when it has appended, so only those at its own moments count."""
        outlived = self._outlived[case]
        return outlived.aimed if case.repeats else outlived.kills.total()

    def server_is_due(self, kills: int) -> bool:
        """Tell whether it is time to kill the server: that is spread over the run. Controls do without."""
        due = (self._server_kills + 1) * kills // (SERVER_KILLS + 1)
        wanted = any(not case.flaw for case in self._outlived)
        return wanted and self._server_kills < SERVER_KILLS and self.fewest_kills() >= due

    def tally(self) -> str:
        """Say how often each query was hit."""
        return ", ".join(f"{case.name} {each.kills.total()}" for case, each in self._outlived.items())

    def run(self, *, server_kill: bool) -> None:
        """Start the driver, let it work, and kill it when the query that was hit least is in mid-batch."""
        driver, shape = self._start(last=False)
        if server_kill:
            self._kill_server(driver)
        fewest = self.fewest_kills()
        aim = self._random.choice([case for case in self._aims if self._hits(case) == fewest])
        moment = "appended" if aim.repeats else self._random.choice(MOMENTS)
        alive = self._await(aim, moment, driver)
        if not alive and not (server_kill or driver.starved):
            raise PromiseBroken(f"a query ended by itself:\n{driver.output}")
        workers = self._random.random() < 0.5  # noqa: PLR2004 - every other time they live on for a moment
        driver.kill(workers=workers)
        self._count(aim, moment, alive=alive)
        self._load.check()
        left = "" if workers else ", workers left"
        say(f"{shape}: kill {self.runs} of the driver, {aim.name} {moment}{left}; hit so far: {self.tally()}")

    def finish(self) -> list[tuple[Case, Outlived]]:
        """Append no more, let a last run take all that is there, and compare."""
        self._load.stop()
        for _ in range(LAST_RUNS):
            driver, _ = self._start(last=True)
            if driver.finish(FINISH_SECS):
                break
            if not driver.starved:
                raise PromiseBroken(f"the last run failed:\n{driver.output}")
        else:
            raise PromiseBroken(f"the machine has too much to do: none of {LAST_RUNS} last runs came to its end")
        for sources in self._load.sources.values():
            require_sent(self._server.port, sources)
        for case, outlived in self._outlived.items():
            outlived.sent = self._load.sent(case.source)
            outlived.compared = judge(self._server.port, case, self._load.sources[case.source])
            outlived.paths = self._journal.count(case.name)
            outlived.batches = batches_done(self._checkpoint(case))
        return list(self._outlived.items())

    def _checkpoint(self, case: Case) -> Path:
        return self._folder / "checkpoints" / case.name

    def _start(self, *, last: bool) -> tuple[Driver, Shape]:
        self.runs += 1
        shape = draw_shape(self._random, last=last)
        settings = {
            "cases": [case.name for case in self._outlived],
            "shape": asdict(shape),
            "last": last,
            "url": self._load.url,
            "checkpoints": str(self._folder / "checkpoints"),
            "scratch": str(self._folder / "scratch"),
        }
        return start_driver(settings, self._folder, self._journal, self._drivers, run=self.runs), shape

    def _kill_server(self, driver: Driver) -> None:
        aim, moment = self._random.choice(self._aims), self._random.choice(MOMENTS)
        self._await(aim, moment, driver)
        self._server.kill()
        for case, outlived in self._outlived.items():
            outlived.server_kills += 1
            outlived.server_kills_hit += in_flight(self._checkpoint(case)) is not None
        time.sleep(self._random.uniform(0, 1))
        self._server_kills += 1
        say(f"killed the server, {aim.name} {moment}; it was up again in {self._server.start():.2f} s")

    def _await(self, aim: Case, moment: str, driver: Driver) -> bool:
        """Let some batches go by, wait for a moment of a query, and tell whether the driver is still there."""
        self._let_work(aim, self._random.randrange(MAX_BATCHES), driver)
        deadline = time.monotonic() + MOMENT_SECS
        while driver.running and moment != "any" and time.monotonic() < deadline:
            self._await_once(aim, moment, driver)
            if in_flight(self._checkpoint(aim)) is not None:
                break  # otherwise the batch was done sooner than this process came to see it
        return driver.running

    def _await_once(self, aim: Case, moment: str, driver: Driver) -> None:
        start, deadline = self._journal.end(), time.monotonic() + MOMENT_SECS
        if moment in _LINES:
            lines = {told.APPENDED} if aim.repeats else _LINES[moment]
            self._journal.wait(aim.name, lines, start, MOMENT_SECS, while_true=lambda: driver.running)
            return
        while in_flight(self._checkpoint(aim)) is None and driver.running and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(self._random.uniform(0, 0.03))

    def _let_work(self, aim: Case, batches: int, driver: Driver) -> None:
        enough, deadline = batches_done(self._checkpoint(aim)) + batches, time.monotonic() + WORK_SECS
        while batches_done(self._checkpoint(aim)) < enough and driver.running and time.monotonic() < deadline:
            time.sleep(0.01)

    def _count(self, aim: Case, moment: str, *, alive: bool) -> None:
        for case, outlived in self._outlived.items():
            if not alive:
                outlived.gave_up += 1
            elif in_flight(self._checkpoint(case)) is None:
                outlived.missed += 1
            else:
                outlived.kills[moment if case is aim else BESIDE] += 1
