"""Kills of jobs of every kind, and of their server, while the streams that they read are deleted and created anew.

Streams change while the driver runs, and between a kill and the next start: then a batch that Spark has logged is read
from other incarnations. A seed determines the changes; the machine determines which batch they meet.
"""

import json
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import psycopg
from psycopg import sql

from everbrook.spark.lake.delta import open_table
from everbrook.stack.postgres import Postgres
from soak.client import Client
from soak.kill import fork
from soak.ledger import PromiseBroken
from soak.progress import say
from soak.recreate.program import COPIES, JOBS, LAKE, POSTGRES, STREAM, TABLE
from soak.recreate.streams import PREFIX, Streams, keys_in
from soak.recreate.verdict import Row, forgotten_in, judge, judge_fold, named_in
from soak.server import Server, free_port
from soak.spark.driver import Driver, start_driver
from soak.spark.journal import Journal, in_flight

SERVER_KILLS = 0.3
"""The share of runs in which the server is killed too."""
_MIN_WORK_SECS, _MAX_WORK_SECS, _MAX_PAUSE_SECS = 1.0, 8.0, 0.1
_MAX_CHANGES_DOWN = 12
_FINISH_SECS = 600.0
_SNAPSHOT, _NOT_FOUND = "__ds/snapshot", 404


def soak_recreate(folder: Path, *, kills: int, seed: int, flaw: bool = False) -> str:
    """Kill the driver so many times, let the jobs finish, check what they wrote, and give a summary."""
    random = Random(seed)  # noqa: S311 - it must replay
    folder.mkdir(parents=True, exist_ok=True)
    cluster = Postgres(folder / "cluster", free_port(), settings={"fsync": "off"})
    try:
        cluster.start().wait_ready()
        with psycopg.connect(cluster.url()) as connection:
            connection.execute(f"CREATE TABLE {TABLE} (place bigserial, stream text, key text)")
        with (
            Server("acid", folder / "store") as server,
            ExitStack() as drivers,
            closing(Streams(server.port, fork(random))) as streams,
        ):
            fire = Fire(folder, server, cluster.url(), streams, random, drivers, flaw=flaw)
            for _ in range(kills):
                fire.strike()
            return fire.finish()
    finally:
        cluster.stop()


class Fire:
    """The jobs, the server and the database that they use, and the kills of both."""

    def __init__(
        self,
        folder: Path,
        server: Server,
        database: str,
        streams: Streams,
        random: Random,
        drivers: ExitStack,
        *,
        flaw: bool,
    ) -> None:
        self._folder, self._server, self._database = folder, server, database
        self._streams, self._random, self._drivers = streams, random, drivers
        self._flaw = flaw
        # The sink in Postgres notices by itself that positions go back, and the control is to be judged by its rows.
        self._jobs = [job for job in JOBS if not (flaw and job == POSTGRES)]
        self._journal = Journal(folder / "journal")
        self._runs = self._hits = self._server_kills = 0

    def strike(self) -> None:
        """Start the driver, change streams while it works, kill it, and change more."""
        driver = self._start(last=False)
        with Churn(self._streams, fork(self._random)):
            time.sleep(self._random.uniform(_MIN_WORK_SECS, _MAX_WORK_SECS))
            server_kill = self._random.random() < SERVER_KILLS
            if server_kill:
                self._server.kill()
                self._server.start()
                self._server_kills += 1
                time.sleep(self._random.uniform(0, _MIN_WORK_SECS))
        if not (driver.running or server_kill or driver.starved):
            raise PromiseBroken(f"a job ended by itself:\n{driver.output}")
        driver.kill(workers=True)
        hit = [job for job in self._jobs if in_flight(self._folder / "checkpoints" / job) is not None]
        self._hits += len(hit)
        for _ in range(self._random.randrange(_MAX_CHANGES_DOWN)):
            self._streams.change()
        if self._random.random() < 0.5:  # noqa: PLR2004 - every other time all streams are created anew
            for one in self._streams.living:
                if not one.ended and "-fork-" not in one.name:
                    self._streams.create_anew(one)
        say(f"kill {self._runs}, in mid-batch: {', '.join(hit) or 'none'}; {self._streams.counts}")

    def finish(self) -> str:
        """Let a last run process all that is left, and check what the jobs wrote."""
        driver = self._start(last=True)
        while not driver.finish(_FINISH_SECS):
            if not driver.starved:
                raise PromiseBroken(f"the last run failed:\n{driver.output}")
            driver = self._start(last=True)
        runs = range(1, self._runs + 1)
        logs = {run: (self._folder / f"driver-{run}.log").read_text(errors="replace") for run in runs}
        named = named_in("\n".join(logs.values()))
        forgotten = max((run for run, log in logs.items() if forgotten_in(log)), default=0)
        summaries = []
        for job, rows in ((STREAM, self._in_streams), (POSTGRES, self._in_postgres), (LAKE, self._in_lake)):
            if job not in self._jobs:
                continue
            judged = judge(job, rows(), self._streams.all, named, ordered=job != LAKE, forgotten=forgotten)
            summaries.append(f"{job} {judged.rows:,} rows, {judged.missing:,} missing")
        folded = self._judge_folds()
        return (
            f"{len(self._streams.all)} incarnations, {self._runs - 1} kills of the driver with {self._hits} jobs in "
            f"mid-batch, {self._server_kills} of the server; {'; '.join(summaries)}; {folded} snapshots of folds"
        )

    def _in_streams(self) -> list[Row]:
        names = {one.name for one in self._streams.all}
        return [(name, key) for name in names for key in keys_in(self._server.port, name.replace(PREFIX, COPIES, 1))]

    def _in_postgres(self) -> list[Row]:
        with psycopg.connect(self._database) as connection:
            statement = sql.SQL("SELECT stream, key FROM {} ORDER BY place").format(sql.Identifier(TABLE))
            return [(str(stream), str(key)) for stream, key in connection.execute(statement)]

    def _in_lake(self) -> list[Row]:
        rows = open_table(self._folder / "table").to_table(["stream", "value"]).to_pylist()
        return [(row["stream"], json.loads(row["value"])["key"]) for row in rows]

    def _judge_folds(self) -> int:
        folded = 0
        with closing(Client(self._server.port)) as client:
            for one in self._streams.living:
                found = client.request("GET", f"/v1/stream/{one.name}/{_SNAPSHOT}")
                if found.status == _NOT_FOUND:
                    continue
                snapshot = client.expect({200}, "GET", found.headers["location"])
                offset = int(snapshot.headers["stream-snapshot-offset"])
                judge_fold(one, offset, {each["key"] for each in json.loads(snapshot.body)})
                folded += 1
        return folded

    def _start(self, *, last: bool) -> Driver:
        self._runs += 1
        self._streams.run = self._runs
        settings = {
            "url": f"http://127.0.0.1:{self._server.port}",
            "postgres": self._database,
            "table": str(self._folder / "table"),
            "checkpoints": str(self._folder / "checkpoints"),
            "scratch": str(self._folder / "scratch"),
            "max_rows": 0 if last else self._random.choice((0, 0, 20, 200)),
            "jobs": self._jobs,
            "flaw": self._flaw,
            "last": last,
        }
        return start_driver(
            settings, self._folder, self._journal, self._drivers, run=self._runs, program="soak.recreate.program"
        )


class Churn:
    """Changes streams in a thread for as long as a `with` block runs."""

    def __init__(self, streams: Streams, random: Random) -> None:
        self._streams = streams
        self._random = random
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: Exception | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._streams.change()
                self._stop.wait(self._random.uniform(0, _MAX_PAUSE_SECS))
        except Exception as error:  # noqa: BLE001 - the thread that waits raises it
            self._failure = error
