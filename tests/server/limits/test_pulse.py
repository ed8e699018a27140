"""The pulse of a real server: a disk that stands still is noticed, and that it goes on again is too."""

import time

from tests.server.conftest import Connect, Start
from tests.server.running import GatedStorage, RunningServer, eventually

WRITERS = 20


def is_calm(server: RunningServer) -> bool:
    return server.call(lambda: server.listener.pulse.calm)


def test_a_disk_that_stands_still_makes_the_server_refuse_until_it_goes_on(
    start: Start, connect: Connect, path: str
) -> None:
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage, limits__overload_commit_secs=0.1)
    connect(server).create(path)
    wires = [connect(server) for _ in range(WRITERS)]
    storage.gate.clear()
    for wire in wires:
        wire.ask("POST", path, b"1", content_type="text/plain")
    assert eventually(lambda: not is_calm(server))
    for wire in wires:
        wire.ask("POST", path, b"2", content_type="text/plain")
    time.sleep(0.3)
    storage.gate.set()
    answers = [(wire.read().status, wire.read().status) for wire in wires]
    assert {first for first, _ in answers} == {204}
    assert {second for _, second in answers} == {204, 503}
    assert eventually(lambda: is_calm(server))
    assert len(connect(server).get(path).body) == WRITERS + sum(second == 204 for _, second in answers)


def test_an_idle_server_has_no_pulse(start: Start, connect: Connect) -> None:
    server = start()
    assert connect(server).get("/healthz").status == 200
    assert server.call(lambda: server.listener.pulse.beat_at) < float("inf")
    assert eventually(lambda: server.call(lambda: server.listener.pulse.beat_at) == float("inf"))


def test_without_bounds_there_is_no_pulse_at_all(start: Start, connect: Connect) -> None:
    server = start(limits__overload_wait_secs=0.0, limits__overload_commit_secs=0.0)
    assert connect(server).get("/healthz").status == 200
    assert server.call(lambda: server.listener.pulse._timer) is None
