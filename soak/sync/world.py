"""The world that is set on fire: a server, a Postgres, the pipeline between them, and the load of both sides."""

import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

import psycopg

from everbrook.stack.postgres import Postgres
from soak.client import Client, Unanswered
from soak.kill import fork
from soak.server import HOST, Server, free_port
from soak.sync.judging import Quiet, judge
from soak.sync.load import Load
from soak.sync.outcome import JVM, PIPELINE, POSTGRES, SERVER, WORKER, Outcome
from soak.sync.pipeline import Pipeline
from soak.sync.processes import children_of, kill
from soak.sync.producing import Producer
from soak.sync.scene import ACCOUNTS_STREAM, DATABASE, EVENTS_TABLE, SCHEMA, write_jobs
from soak.sync.writing import Writer

WRITERS = 2
_OK = 200
_READY_SECS, _THERE_SECS = 120.0, 60.0
_LOOK_SECS = 0.1


class World:
    """Everything, from `with` on; the load from `begin_load` to `end_load`."""

    def __init__(self, folder: Path, random: Random, *, flaw: str, journal: Path) -> None:
        self._folder, self._random = folder, random
        self._flaw, self._journal = flaw, journal
        self._server = Server("acid", folder / "store")
        self._postgres = Postgres(folder / "postgres", free_port())
        self._url = self._postgres.url(DATABASE)
        self._writers = [Writer(number, self._url, fork(random)) for number in range(WRITERS)]
        self._stack = ExitStack()
        self._arrived = [0, 0]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self._server)
            stack.callback(self._postgres.stop)
            self._postgres.start().wait_ready(_READY_SECS)
            self._prepare()
            self._producer = Producer(self._server.port, fork(self._random))
            for load in self._loads():
                stack.callback(load.end)
            for writer in self._writers:
                stack.callback(writer.close)
                writer.seed()
            self.pipeline = stack.enter_context(self._pipeline())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # The load would not end as long as what it waits for is gone.
        for load in self._loads():
            load.give_up()
        self._stack.close()

    def _loads(self) -> list[Load]:
        return [*self._writers, self._producer]

    def _prepare(self) -> None:
        with psycopg.connect(self._postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {DATABASE}")
        with psycopg.connect(self._url) as connection:
            for statement in SCHEMA:
                connection.execute(statement)

    def _pipeline(self) -> Pipeline:
        file = write_jobs(self._folder, server=f"http://{HOST}:{self._server.port}", postgres=self._url)
        return Pipeline(file, flaw=self._flaw, journal=self._journal)

    def begin_load(self) -> None:
        """Begin to change tables and to append."""
        for load in self._loads():
            load.start()

    def end_load(self) -> None:
        """Change and append no more, but for a last row and a last message for each stream."""
        for load in self._loads():
            load.end()
        self.check()
        self._writers[0].mark()
        self._producer.mark()

    def check(self) -> None:
        """Raise what went wrong."""
        for load in self._loads():
            if load.failure is not None:
                raise load.failure
        self.pipeline.check()

    def kill(self, part: str) -> str:
        """Kill a part, and say what exactly. Nothing if it was not there."""
        if part == PIPELINE:
            workers = self._random.random() < 0.5  # noqa: PLR2004 - every other time they live on for a moment
            self.pipeline.kill(workers=workers)
            return "the pipeline" if workers else "the pipeline but for its workers"
        if part in {JVM, WORKER}:
            return self._kill_in_pipeline(part)
        if part == SERVER:
            self._server.kill()
            return "the server"
        self._kill_postgres()
        return "Postgres"

    def _kill_in_pipeline(self, part: str) -> str:
        """Kill what may not have been started yet."""
        deadline = time.monotonic() + _THERE_SECS
        while time.monotonic() < deadline:
            self.pipeline.check()  # which starts it again if its JVM is gone
            found = self.pipeline.kill_jvm() if part == JVM else self.pipeline.kill_worker(self._random)
            if found:
                return found
            time.sleep(_LOOK_SECS)
        return ""

    def _kill_postgres(self) -> None:
        process = self._postgres.process
        kill([process.pid, *children_of(process.pid)])
        process.wait()

    def start(self, part: str) -> None:
        """Start a part again, if it is one that nobody else does start."""
        if part == PIPELINE:
            self.pipeline.start()
        elif part == SERVER:
            self._server.start()
        elif part == POSTGRES:
            self._postgres.start().wait_ready(_READY_SECS)

    def copying(self) -> bool:
        """Tell whether a slot was made, so that a copy is being made or will be."""
        with psycopg.connect(self._url) as connection:
            return connection.execute("SELECT FROM pg_replication_slots").fetchone() is not None

    def arrived(self) -> list[int]:
        """Tell how much has arrived in each direction, by what can be asked now."""
        with suppress(psycopg.Error), psycopg.connect(self._url) as connection:
            row = connection.execute(f"SELECT coalesce(max(id), 0) FROM {EVENTS_TABLE}").fetchone()  # noqa: S608
            self._arrived[0] = row[0] if row is not None else 0
        with suppress(Unanswered), closing(Client(self._server.port)) as client:
            answer = client.request("HEAD", f"/v1/stream/{ACCOUNTS_STREAM}")
            self._arrived[1] = answer.next_offset if answer.status == _OK else 0
        return list(self._arrived)

    def quiet(self) -> Quiet:
        """Give what tells whether everything has arrived."""
        return Quiet(self._server.port, self._url, self._producer.sessions)

    def settle(self, outcome: Outcome) -> Outcome:
        """Compare both sides, and say what went over."""
        outcome.found = judge(self._server.port, self._url, self._producer.sessions)
        outcome.sent = sum(session.sent for session in self._producer.sessions)
        outcome.transactions = sum((writer.tally for writer in self._writers), Counter())
        outcome.restarts = self.pipeline.restarts
        return outcome
