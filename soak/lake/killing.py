"""Tables of the lake under fire: streams grow while their driver is killed, again and again, and the tables go on.

Two queries write the same streams, to a Delta table and to a folder of Parquet. A kill strikes at a moment of one of
them; each run parts its work otherwise. The control has the same queries with one rule broken, and has to be found out.
"""

import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

from soak.client import Client
from soak.kill import fork
from soak.lake.moments import COMMITTED, COMPACTING, KINDS, MOMENTS
from soak.lake.program import AGAIN, REPLAY
from soak.lake.verdict import append_odd, judge
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server
from soak.spark.cases import MANY, TWICE
from soak.spark.driver import Driver
from soak.spark.journal import BEGAN, Journal, batches_done, in_flight
from soak.spark.load import Load, read
from soak.spark.verdict import Compared, compare

_START_SECS, _MOMENT_SECS, _FINISH_SECS = 300.0, 60.0, 600.0
_ATTEMPTS_PER_KILL = 4
_MAX_LET_GO = 4
_REPLAY_SECS = 1.0
_REPLAY_BATCH_BYTES = 2 * 1024 * 1024


def soak_lake(folder: Path, *, kills: int, seed: int, max_secs: float, control: bool = True) -> None:
    """Kill the driver so many times in mid-batch, and compare; then see that the control is found out."""
    rules = run(folder / "rules", kills=kills, seed=seed, max_secs=max_secs, replay_kills=max(1, kills // 3))
    for name, compared in rules.items():
        if not compared.whole:
            raise PromiseBroken(f"the {name} table: {compared}")
    if control:
        for name, compared in run(folder / "control", kills=1, seed=seed, max_secs=max_secs, flaw=True).items():
            say(f"control without batches, {name}: {compared}")
            if not compared.damage[TWICE]:
                raise PromiseBroken(f"the control, a {name} table that forgets its batches, was not found out")


def run(
    folder: Path, *, kills: int, seed: int, max_secs: float, flaw: bool = False, replay_kills: int = 0
) -> dict[str, Compared]:
    """Kill each query so many times, let them finish, and hold each table against the streams."""
    random = Random(seed)  # noqa: S311 - it must replay
    folder.mkdir(parents=True)
    deadline = time.monotonic() + max_secs
    server = Server("acid", folder / "store")
    with server, Load(server.port, fork(random)) as load, ExitStack() as drivers:
        fire = Fire(folder, server.port, load, random, drivers, flaw=flaw)
        while fire.fewest_kills() < kills:
            if fire.runs >= _ATTEMPTS_PER_KILL * kills * len(KINDS) + 1 or time.monotonic() > deadline:
                raise PromiseBroken(f"the time is over: after {fire.runs} runs {fire.tally()}")
            fire.strike()
        found = fire.finish()
        if replay_kills:
            fire.replay(replay_kills)
        return found


class Fire:
    """Queries, and whoever kills them."""

    def __init__(self, folder: Path, port: int, load: Load, random: Random, drivers: ExitStack, *, flaw: bool) -> None:
        self.runs = 0
        self._folder, self._port, self._load, self._random, self._drivers = folder, port, load, random, drivers
        self._flaw = flaw
        self._journal = Journal(folder / "journal")
        self._kills: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._odd: list[Any] = []

    def fewest_kills(self) -> int:
        """Tell how often the query was hit that was hit least."""
        return min(kills.total() for kills in self._kills.values())

    def tally(self) -> str:
        """Say how often each query was hit, and when."""
        return "; ".join(f"{kind} {dict(kills)}" for kind, kills in self._kills.items())

    def strike(self) -> None:
        """Start the driver, let it work, and kill it at a moment of the query that was hit least."""
        driver = self._start(last=False)
        aim = list(KINDS)[self.runs % len(KINDS)]
        moment = COMMITTED if self._flaw else self._random.choice(MOMENTS)
        self._odd += append_odd(self._port, self.runs)
        begun = self._journal.end()
        for _ in range(self._random.randrange(_MAX_LET_GO) + 1):
            self._journal.wait(aim, {moment}, begun, _MOMENT_SECS, while_true=lambda: driver.running)
            begun = self._journal.end()
        time.sleep(self._random.uniform(0, 0.1))
        alive = driver.running
        if not alive and not driver.starved:
            raise PromiseBroken(f"a query ended by itself:\n{driver.output}")
        driver.kill(workers=self._random.random() < 0.5)  # noqa: PLR2004 - every other time they live on for a moment
        self._count(aim, moment, alive=alive)
        self._load.check()
        say(f"kill {self.runs}, {aim} {moment}; hit so far: {self.tally()}")

    def _count(self, aim: str, moment: str, *, alive: bool) -> None:
        for kind, kills in self._kills.items():
            if self._flaw and kind != aim:
                continue  # only a batch that was committed is there twice
            if alive and (in_flight(self._folder / "checkpoints" / kind) is not None):
                kills[moment if kind == aim else "beside"] += 1
            elif alive and kind == aim and moment == COMPACTING:
                kills[moment] += 1

    def finish(self) -> dict[str, Compared]:
        """Append no more, let a last run take all that is there, and compare."""
        self._load.stop()
        self._run_to_the_end()
        sent = {source.name: source.sent for source in self._load.sources[MANY]}
        found = {kind: judge(self._folder / "tables" / kind, sent, self._odd) for kind in KINDS}
        for kind, compared in found.items():
            batches = batches_done(self._folder / "checkpoints" / kind)
            say(
                f"{kind}: {sum(sent.values()):,} messages in, {compared.messages:,} rows: {compared}; {len(self._odd)} "
                f"odd ones; {batches} batches, kills {dict(self._kills[kind])}"
            )
        return found

    def replay(self, kills: int) -> None:
        """Write the Delta table back into streams, kill that too, and compare."""
        hits, checkpoint = 0, self._folder / "checkpoints" / REPLAY
        for _ in range(kills):
            driver = self._start(last=True, replay=True)
            self._await_another_batch(checkpoint, driver)
            time.sleep(self._random.uniform(0, _REPLAY_SECS))
            driver.kill(workers=True)
            hits += in_flight(checkpoint) is not None
        self._run_to_the_end(replay=True)
        with closing(Client(self._port)) as client:
            for source in self._load.sources[MANY]:
                again = read(client, source.name.replace(MANY, AGAIN))
                compared = compare(again, {source.name: source.sent})
                if not compared.whole:
                    raise PromiseBroken(f"the replay of {source.name}: {compared}")
        batches = batches_done(self._folder / "checkpoints" / REPLAY)
        say(f"replay: exactly once and in order, in {batches} batches; {kills} kills, {hits} of them in mid-batch")

    def _await_another_batch(self, checkpoint: Path, driver: Driver) -> None:
        """Wait until a batch is begun that was not begun before, if there is one left."""
        before, deadline = in_flight(checkpoint), time.monotonic() + _MOMENT_SECS
        while in_flight(checkpoint) in {None, before} and driver.running and time.monotonic() < deadline:
            time.sleep(0.02)

    def _run_to_the_end(self, *, replay: bool = False) -> None:
        """Let a run take all that is there; another one if the machine had too much to do for it."""
        driver = self._start(last=True, replay=replay)
        while not driver.finish(_FINISH_SECS):
            if not driver.starved:
                raise PromiseBroken(f"the last run failed:\n{driver.output}")
            driver = self._start(last=True, replay=replay)

    def _start(self, *, last: bool, replay: bool = False) -> Driver:
        self.runs += 1
        settings = {
            "url": self._load.url,
            "checkpoints": str(self._folder / "checkpoints"),
            "tables": str(self._folder / "tables"),
            "scratch": str(self._folder / "scratch"),
            "cores": self._random.choice((1, 2)),
            "max_rows": 0 if last else self._random.choice((0, 200, 1000)),
            "large_bytes": self._random.choice((0, 32 * 1024)),
            "flaw": self._flaw,
            "replay": replay,
            "batch_bytes": _REPLAY_BATCH_BYTES,
            "last": last,
        }
        start, log = self._journal.end(), self._folder / f"driver-{self.runs}.log"
        driver = Driver(settings, run=self.runs, journal=self._journal.path, log=log, program="soak.lake.program")
        self._drivers.enter_context(driver)
        begun = self._journal.wait("driver", {BEGAN}, start, _START_SECS, while_true=lambda: driver.running)
        if not begun and not driver.starved:
            raise PromiseBroken(f"run {self.runs} did not begin:\n{driver.output}")
        return driver
