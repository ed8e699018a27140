"""The overload control of a real server: a disk that stands still is noticed, and that it goes on again is too."""

import errno
import time
from collections.abc import Sequence
from math import inf
from threading import Event

import pytest
from msgspec.structs import replace

from everbrook.engine import Clock
from everbrook.protocol import Change
from everbrook.server.tuning import OverloadTuning, ServerTuning
from tests.kit.server_thread import PATIENCE_SECS, GatedStorage, RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, render

WRITERS = 10
EACH = 30
FEW = 200
"""So many pending changes are a queue in these tests; the writers send more."""
QUEUE = OverloadTuning(few_changes=FEW)
MANY = 200
QUICK = ServerTuning(overload=OverloadTuning(window_secs=0.1))
STILL_SECS = 0.2
"""A delay of this length is a standing one for the tuning `QUICK`."""


class SlowStorage(GatedStorage):
    """A storage that takes its time, however much there is to be kept."""

    def __init__(self, secs: float) -> None:
        super().__init__()
        self._secs = secs
        self.gate.set()

    def persist(self, group: Sequence[Change]) -> None:
        time.sleep(self._secs)
        super().persist(group)


def is_calm(server: RunningServer) -> bool:
    return server.call(lambda: server.listener.overload.calm)


class SlowClock(Clock):
    """A clock that takes a millisecond to read, and so makes every append take one."""

    def now(self) -> int:
        time.sleep(0.001)
        return super().now()


class BusyClock(Clock):
    """A clock that takes half a millisecond of processor time to read, and so makes every append take as much."""

    def now(self) -> int:
        until = time.thread_time() + 0.0005
        while time.thread_time() < until:
            pass
        return super().now()


class StarvedClock(Clock):
    """A clock after whose every fiftieth reading the process works a little and waits long for a processor."""

    def __init__(self) -> None:
        super().__init__()
        self._reads = 0

    def now(self) -> int:
        self._reads += 1
        if self._reads % 50 == 0:
            until = time.thread_time() + 0.01
            while time.thread_time() < until:
                pass
            time.sleep(0.1)
        return super().now()


def queue_up(
    start: Start, connect: Connect, path: str, overload: OverloadTuning = QUEUE
) -> tuple[GatedStorage, RunningServer, list[Wire]]:
    """Let many changes wait for a disk that stands still."""
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, ServerTuning(overload=overload), limits__overload_commit_secs=0.1)
    connect(server).create(path)
    wires = [connect(server) for _ in range(WRITERS)]
    storage.gate.clear()
    for wire in wires:
        wire.send(append_to(path) * EACH)
    return storage, server, wires


def test_a_disk_that_does_not_keep_up_makes_the_server_refuse_until_it_does(
    start: Start, connect: Connect, path: str
) -> None:
    storage, server, wires = queue_up(start, connect, path)
    assert eventually(lambda: server.call(lambda: server.listener.overload.shedding.overloaded))
    for wire in wires:
        wire.send(append_to(path))
    assert eventually(lambda: server.call(lambda: server.listener.overload.held) != set())
    storage.gate.set()
    answers = [[wire.read().status for _ in range(EACH + 1)] for wire in wires]
    assert {status for statuses in answers for status in statuses[:-1]} == {204}
    last = [statuses[-1] for statuses in answers]
    assert 503 in last
    assert len(connect(server).get(path).body) == WRITERS * EACH + last.count(204)


def test_while_too_much_waits_for_the_disk_nothing_more_is_taken_in(start: Start, connect: Connect, path: str) -> None:
    storage, server, wires = queue_up(start, connect, path, replace(QUEUE, few_changes=FEW // 2))
    others = [connect(server) for _ in range(WRITERS)]
    assert eventually(lambda: server.call(lambda: server.listener.overload.room) <= 0)
    for wire in others:
        wire.send(append_to(path))
    assert [wire.read().status for wire in others] == [503] * WRITERS
    assert connect(server).get(path).status == 200
    storage.gate.set()
    assert {wire.read().status for wire in wires for _ in range(EACH)} == {204}
    assert len(connect(server).get(path).body) == WRITERS * EACH


def test_a_full_queue_has_room_for_those_who_ask_one_thing_after_the_other(
    start: Start, connect: Connect, path: str
) -> None:
    storage, server, _ = queue_up(start, connect, path, replace(QUEUE, window_secs=60))
    patient, hasty = connect(server), connect(server)
    assert eventually(lambda: server.call(lambda: server.listener.overload.room) <= 0)
    waiting = server.engine.last_change
    hasty.send(append_to(path) * 2)
    patient.send(append_to(path))
    assert eventually(lambda: server.call(lambda: server.engine.last_change) == waiting + 2)
    storage.gate.set()
    assert patient.read().status == 204
    assert [hasty.read().status for _ in range(2)] == [204, 503]


def test_in_a_long_turn_no_more_is_taken_in_than_will_be_durable_in_good_time(
    start: Start, connect: Connect, path: str
) -> None:
    storage = GatedStorage()
    storage.gate.set()
    tuning = ServerTuning(overload=OverloadTuning(few_changes=50))
    bounds = {"limits__overload_commit_secs": 0.1, "limits__overload_wait_secs": 60}
    server = start(storage, tuning, SlowClock(), **bounds)
    connect(server).create(path)
    wires = [connect(server) for _ in range(400)]
    storage.gate.clear()
    all_sent, standing = Event(), Event()
    server.call(lambda: setattr(server.listener.overload, "in_time", 100))
    server.loop.call_soon_threadsafe(standing.set)
    server.loop.call_soon_threadsafe(all_sent.wait)
    assert standing.wait(PATIENCE_SECS)
    for wire in wires:
        wire.send(append_to(path))
    all_sent.set()
    assert eventually(lambda: server.call(lambda: server.listener.overload.held) != set())
    # There is room for 100, and for 50 more of clients that ask one thing after the other.
    assert server.call(lambda: server.engine.last_change) < len(wires) / 2
    storage.gate.set()


@pytest.mark.usefixtures("faults")
def test_a_store_that_has_failed_is_still_read(start: Start, connect: Connect, path: str) -> None:
    storage, server, _ = queue_up(start, connect, path)
    assert eventually(lambda: server.call(lambda: server.listener.overload.room) <= 0)
    storage.failure = OSError(errno.EIO, "the disk is broken")
    storage.gate.set()
    assert eventually(lambda: server.call(lambda: server.listener.overload.room) == inf)
    assert connect(server).get(path).status == 200


def test_what_was_asked_for_is_not_taken_for_what_a_disk_can_do(start: Start, connect: Connect, path: str) -> None:
    server = start(SlowStorage(0.05), ServerTuning(overload=QUEUE), limits__overload_commit_secs=0.1)
    wires = [connect(server) for _ in range(WRITERS)]
    wires[0].create(path)
    for _ in range(WRITERS):
        assert wires[0].request("POST", path, b"1", content_type="text/plain").status == 204
    for wire in wires:
        wire.send(append_to(path) * EACH)
    assert {wire.read().status for wire in wires for _ in range(EACH)} == {204}


def append_to(path: str) -> bytes:
    return render("POST", path, b"1", content_type="text/plain")


def test_a_disk_that_stands_still_for_a_few_is_no_overload(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, QUICK, limits__overload_commit_secs=0.05)
    wire = connect(server)
    wire.create(path)
    storage.gate.clear()
    wire.send(append_to(path) * 100)
    time.sleep(2 * STILL_SECS)
    wire.send(append_to(path))
    assert is_calm(server)
    storage.gate.set()
    assert {wire.read().status for _ in range(101)} == {204}


def test_a_loop_that_stands_still_is_no_overload(start: Start, connect: Connect, path: str) -> None:
    server = start(tuning=QUICK, limits__overload_wait_secs=0.05)
    wires = [connect(server) for _ in range(MANY)]
    wires[0].create(path)
    for _ in range(3):
        for wire in wires:
            wire.ask("POST", path, b"1", content_type="text/plain")
        server.call(lambda: time.sleep(STILL_SECS))
        assert {wire.read().status for wire in wires} == {204}


def test_a_loop_that_waits_for_a_processor_between_its_work_is_no_overload(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(tuning=QUICK, clock=StarvedClock(), limits__overload_wait_secs=0.25)
    wires = [connect(server) for _ in range(MANY)]
    wires[0].create(path)
    rounds = 4
    for _ in range(rounds):
        for wire in wires:
            wire.ask("POST", path, b"1", content_type="text/plain")
        time.sleep(STILL_SECS)
    assert {wire.read().status for _ in range(rounds) for wire in wires} == {204}


def test_whoever_is_alone_may_send_as_much_at_once_as_it_will(start: Start, connect: Connect, path: str) -> None:
    server = start(tuning=QUICK, limits__overload_wait_secs=0.05)
    wire = connect(server)
    wire.create(path)
    wire.send(append_to(path) * MANY * 5)
    server.call(lambda: time.sleep(STILL_SECS))
    assert {wire.read().status for _ in range(MANY * 5)} == {204}


def test_pipelined_requests_that_wait_for_later_turns_are_an_overload(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(tuning=QUICK, clock=BusyClock())
    wires = [connect(server) for _ in range(2 * WRITERS)]
    wires[0].create(path)
    flood = append_to(path) * MANY
    for wire in wires:
        wire.send(flood)
    overload = server.listener.overload
    assert eventually(lambda: server.call(lambda: overload.shedding.overloaded))
    assert server.call(lambda: overload.late_secs) < server.application.settings.limits.overload_wait_secs
    assert eventually(lambda: server.call(lambda: (overload.backlog.requests, overload.backlog.connections)) == (0, 0))


def test_a_connection_that_ends_before_its_turn_counts_no_more(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage)
    wire = connect(server)
    wire.create(path)
    storage.gate.clear()
    wire.send(append_to(path) * 100)
    overload = server.listener.overload
    assert eventually(lambda: server.call(lambda: overload.backlog.connections) == 1)
    wire.reset()
    assert eventually(lambda: server.call(lambda: (overload.backlog.requests, overload.backlog.connections)) == (0, 0))
    storage.gate.set()


def test_an_idle_server_has_no_beat(start: Start, connect: Connect) -> None:
    server = start(tuning=QUICK)
    assert connect(server).get("/healthz").status == 200
    assert server.call(lambda: server.listener.overload.beat_at) < float("inf")
    assert eventually(lambda: server.call(lambda: server.listener.overload.beat_at) == float("inf"))


def test_without_bounds_there_is_no_beat_at_all(start: Start, connect: Connect) -> None:
    server = start(limits__overload_wait_secs=0.0, limits__overload_commit_secs=0.0)
    assert connect(server).get("/healthz").status == 200
    assert not server.call(lambda: server.listener.overload.begun)
