"""The pulse of a real server: a disk that stands still is noticed, and that it goes on again is too."""

import time

from tests.server.conftest import Connect, Start
from tests.server.running import GatedStorage, RunningServer, eventually
from tests.server.wire import render

WRITERS = 20
EACH = 120
MANY = 200


def is_calm(server: RunningServer) -> bool:
    return server.call(lambda: server.listener.pulse.calm)


def test_a_disk_that_does_not_keep_up_makes_the_server_refuse_until_it_does(
    start: Start, connect: Connect, path: str
) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, limits__overload_commit_secs=0.1)
    connect(server).create(path)
    wires = [connect(server) for _ in range(WRITERS)]
    storage.gate.clear()
    for wire in wires:
        wire.send(append_to(path) * EACH)
    assert eventually(lambda: not server.call(lambda: server.listener.pulse.overload.calm))
    for wire in wires:
        wire.send(append_to(path))
    assert eventually(lambda: server.call(lambda: server.listener.pulse.held) > 0)
    storage.gate.set()
    answers = [[wire.read().status for _ in range(EACH + 1)] for wire in wires]
    assert {status for statuses in answers for status in statuses[:-1]} == {204}
    last = [statuses[-1] for statuses in answers]
    assert 503 in last
    assert len(connect(server).get(path).body) == WRITERS * EACH + last.count(204)


def test_while_too_much_waits_for_the_disk_nothing_more_is_taken_in(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, limits__overload_commit_secs=0.1)
    connect(server).create(path)
    wires, others = [[connect(server) for _ in range(WRITERS)] for _ in range(2)]
    storage.gate.clear()
    for wire in wires:
        wire.send(append_to(path) * EACH)
    assert eventually(lambda: server.call(lambda: server.listener.pulse.room) <= 0)
    for wire in others:
        wire.send(append_to(path))
    assert [wire.read().status for wire in others] == [503] * WRITERS
    storage.gate.set()
    assert {wire.read().status for wire in wires for _ in range(EACH)} == {204}
    assert len(connect(server).get(path).body) == WRITERS * EACH


def append_to(path: str) -> bytes:
    return render("POST", path, b"1", content_type="text/plain")


def test_a_disk_that_stands_still_for_a_few_is_no_overload(start: Start, connect: Connect, path: str) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, limits__overload_commit_secs=0.05)
    wire = connect(server)
    wire.create(path)
    storage.gate.clear()
    wire.send(append_to(path) * 100)
    time.sleep(1.0)
    wire.send(append_to(path))
    assert is_calm(server)
    storage.gate.set()
    assert {wire.read().status for _ in range(101)} == {204}


def test_a_loop_that_stands_still_is_no_overload(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__overload_wait_secs=0.05)
    wires = [connect(server) for _ in range(MANY)]
    wires[0].create(path)
    for _ in range(3):
        for wire in wires:
            wire.ask("POST", path, b"1", content_type="text/plain")
        server.call(lambda: time.sleep(0.7))
        assert {wire.read().status for wire in wires} == {204}


def test_whoever_is_alone_may_send_as_much_at_once_as_it_will(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__overload_wait_secs=0.05)
    wire = connect(server)
    wire.create(path)
    wire.send(append_to(path) * MANY * 5)
    server.call(lambda: time.sleep(0.7))
    assert {wire.read().status for _ in range(MANY * 5)} == {204}


def test_an_idle_server_has_no_pulse(start: Start, connect: Connect) -> None:
    server = start()
    assert connect(server).get("/healthz").status == 200
    assert server.call(lambda: server.listener.pulse.beat_at) < float("inf")
    assert eventually(lambda: server.call(lambda: server.listener.pulse.beat_at) == float("inf"))


def test_without_bounds_there_is_no_pulse_at_all(start: Start, connect: Connect) -> None:
    server = start(limits__overload_wait_secs=0.0, limits__overload_commit_secs=0.0)
    assert connect(server).get("/healthz").status == 200
    assert server.call(lambda: server.listener.pulse._timer) is None
