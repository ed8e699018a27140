"""A server whose turns are taken by hand: connections without a network, commits without a thread."""

import asyncio
from pathlib import Path

from everbrook.engine import Engine
from everbrook.server.application import Application
from everbrook.server.assembly import limits_of, open_storage
from everbrook.server.http1.connection import Connection
from everbrook.server.http1.listener import Listener
from everbrook.server.observe.audit import audit_of
from everbrook.server.observe.observer import Observer, address_of_peer
from everbrook.settings import Settings
from everbrook.settings.sections.limits import LimitSettings
from everbrook.settings.sections.storage import StorageMode, StorageSettings
from tests.kit.fakes import FakeClock, FakeScheduler, HandWorker
from tests.kit.work import Work, count_work


class Wire(asyncio.Transport):
    """The side of a connection that sends: keeps what was written last, and counts."""

    written = b""
    writes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Whatever is written goes at once."""

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        """What has come has come as a whole."""

    def resume_reading(self) -> None:
        """Nothing more comes."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written = bytes(data)
        self.writes += 1


class HandServer:
    """A server with one connection, and others that are asked for. It has to be made while an event loop runs."""

    def __init__(self, folder: Path, mode: StorageMode) -> None:
        clock = FakeClock()
        self._scheduler, self._commits = FakeScheduler(clock), HandWorker()
        # Without overload control, which goes by the clock of the machine: a slow one would run other lines.
        limits = LimitSettings(overload_wait_secs=0, overload_commit_secs=0)
        settings = Settings(storage=StorageSettings(mode=mode, data_dir=str(folder)), limits=limits)
        storage = open_storage(settings)
        self.engine = Engine(storage, self._scheduler, clock, limits_of(settings), commit_executor=self._commits)
        # By a clock that stands every answer comes soon: one that took long would be counted in other lines.
        observer = Observer(audit_of(settings.audit, address_of_peer), clock=lambda: 0.0)
        self._listener = Listener(Application(self.engine, settings, observer=observer))
        self._wire, self._connection = self.connect()

    def connect(self) -> tuple[Wire, Connection]:
        """Make another connection."""
        wire, connection = Wire(), Connection(self._listener)
        connection.connection_made(wire)
        return wire, connection

    def take_turns(self) -> None:
        """Take turns until there is nothing to do but commits."""
        while self._scheduler.run_soon() or self._scheduler.run_from_threads():
            pass

    def take_turn(self) -> bool:
        """Take one turn. Tells whether there was anything to do."""
        return bool(self._scheduler.run_soon())

    def advance(self, secs: float) -> None:
        """Let time pass, and take turns."""
        self._scheduler.advance(round(secs * 1000))
        self.take_turns()

    def commit(self) -> bool:
        """Make the next group durable, if there is one."""
        return bool(self._commits.run())

    def take_result(self) -> None:
        """Publish a group that is durable, and send its responses: one turn."""
        self._scheduler.run_from_threads()

    def ask(self, request: bytes) -> None:
        """Ask, and take turns until the answer is there."""
        self._wire.written = b""
        self._connection.data_received(request)
        while self._scheduler.run_soon() or self._commits.run() or self._scheduler.run_from_threads():
            pass
        assert self._wire.written.startswith(b"HTTP/1.1 20"), self._wire.written

    def answer_in_turns(self, requests: bytes, connections: int) -> list[int]:
        """Take many requests in one read from each of some connections. Gives how many are answered in each turn."""
        wires = []
        for _ in range(connections):
            wire, connection = self.connect()
            connection.data_received(requests)
            wires.append(wire)
        answers = [sum(wire.writes for wire in wires)]
        while self._scheduler.run_soon():
            answers.append(sum(wire.writes for wire in wires) - sum(answers))
        return answers

    def cost(self, *requests: bytes) -> Work:
        """Count the work that the last of these requests takes."""
        for request in requests[:-1]:
            self.ask(request)
        return count_work(lambda: self.ask(requests[-1]))
