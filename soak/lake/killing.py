"""A table of the lake under fire: streams grow while their driver is killed, again and again, and the table goes on.

A kill strikes at a moment of a batch; each run parts its work otherwise. The control has the same query with one rule
broken, and has to be found out.
"""

import time
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

from soak.client import Client
from soak.kill import fork
from soak.lake.moments import COMMITTED, COMPACTING, MOMENTS, TABLE
from soak.lake.program import AGAIN, REPLAY
from soak.lake.verdict import append_odd, judge
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.server import Server
from soak.spark.cases import MANY, TWICE
from soak.spark.driver import Driver, start_driver
from soak.spark.journal import Journal, batches_done, in_flight
from soak.spark.load import Load, read
from soak.spark.verdict import Compared, compare

_MOMENT_SECS, _FINISH_SECS = 60.0, 600.0
_ATTEMPTS_PER_KILL = 4
_MAX_LET_GO = 4
_REPLAY_SECS = 1.0
_REPLAY_BATCH_BYTES = 2 * 1024 * 1024


def soak_lake(folder: Path, *, kills: int, seed: int, max_secs: float, control: bool = True) -> None:
    """Kill the driver so many times in mid-batch, and compare; then see that the control is found out."""
    rules = run(folder / "rules", kills=kills, seed=seed, max_secs=max_secs, replay_kills=max(1, kills // 3))
    if not rules.whole:
        raise PromiseBroken(f"the table: {rules}")
    if control:
        compared = run(folder / "control", kills=1, seed=seed, max_secs=max_secs, flaw=True)
        say(f"control without batches: {compared}")
        if not compared.damage[TWICE]:
            raise PromiseBroken("the control, a table that forgets its batches, was not found out")


def run(folder: Path, *, kills: int, seed: int, max_secs: float, flaw: bool = False, replay_kills: int = 0) -> Compared:
    """Kill the query so many times, let it finish, and hold the table against the streams."""
    random = Random(seed)  # noqa: S311 - it must replay
    folder.mkdir(parents=True)
    deadline = time.monotonic() + max_secs
    server = Server("acid", folder / "store")
    with server, Load(server.port, fork(random)) as load, ExitStack() as drivers:
        fire = Fire(folder, server.port, load, random, drivers, flaw=flaw)
        while fire.kills.total() < kills:
            if fire.runs >= _ATTEMPTS_PER_KILL * kills + 1 or time.monotonic() > deadline:
                raise PromiseBroken(f"the time is over: after {fire.runs} runs {dict(fire.kills)}")
            fire.strike()
        found = fire.finish()
        if replay_kills:
            fire.replay(replay_kills)
        return found


class Fire:
    """A query, and whoever kills it."""

    def __init__(self, folder: Path, port: int, load: Load, random: Random, drivers: ExitStack, *, flaw: bool) -> None:
        self.runs = 0
        self.kills: Counter[str] = Counter()
        """How often the query was hit, by the moment."""
        self._folder, self._port, self._load, self._random, self._drivers = folder, port, load, random, drivers
        self._flaw = flaw
        self._journal = Journal(folder / "journal")
        self._odd: list[Any] = []

    def strike(self) -> None:
        """Start the driver, let it work, and kill it at a moment of a batch."""
        driver = self._start(last=False)
        moment = COMMITTED if self._flaw else self._random.choice(MOMENTS)
        self._odd += append_odd(self._port, self.runs)
        begun = self._journal.end()
        for _ in range(self._random.randrange(_MAX_LET_GO) + 1):
            self._journal.wait(TABLE, {moment}, begun, _MOMENT_SECS, while_true=lambda: driver.running)
            begun = self._journal.end()
        time.sleep(self._random.uniform(0, 0.1))
        alive = driver.running
        if not alive and not driver.starved:
            raise PromiseBroken(f"the query ended by itself:\n{driver.output}")
        driver.kill(workers=self._random.random() < 0.5)  # noqa: PLR2004 - every other time they live on for a moment
        if alive and (moment == COMPACTING or in_flight(self._folder / "checkpoints" / TABLE) is not None):
            self.kills[moment] += 1
        self._load.check()
        say(f"kill {self.runs}, {moment}; hit so far: {dict(self.kills)}")

    def finish(self) -> Compared:
        """Append no more, let a last run take all that is there, and compare."""
        self._load.stop()
        self._run_to_the_end()
        sent = {source.name: source.sent for source in self._load.sources[MANY]}
        found = judge(self._folder / TABLE, sent, self._odd)
        batches = batches_done(self._folder / "checkpoints" / TABLE)
        say(
            f"{sum(sent.values()):,} messages in, {found.messages:,} rows: {found}; {len(self._odd)} odd ones; "
            f"{batches} batches, kills {dict(self.kills)}"
        )
        return found

    def replay(self, kills: int) -> None:
        """Write the table back into streams, kill that too, and compare."""
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
            "table": str(self._folder / TABLE),
            "scratch": str(self._folder / "scratch"),
            "cores": self._random.choice((1, 2)),
            "max_rows": 0 if last else self._random.choice((0, 200, 1000)),
            "large_bytes": self._random.choice((0, 32 * 1024)),
            "flaw": self._flaw,
            "replay": replay,
            "batch_bytes": _REPLAY_BATCH_BYTES,
            "last": last,
        }
        return start_driver(
            settings, self._folder, self._journal, self._drivers, run=self.runs, program="soak.lake.program"
        )
