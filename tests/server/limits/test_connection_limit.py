"""More connections than the server takes."""

import time

import pytest

from everbrook.server.tuning import ConnectionTuning, ListenerTuning, ServerTuning
from tests.kit.server_thread import eventually
from tests.kit.servers import Connect, Start


def test_one_connection_too_many_is_a_503_with_retry_after(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections=2)
    others = [connect(server), connect(server)]
    assert [wire.get("/healthz").status for wire in others] == [200, 200]
    refused = connect(server)
    answer = refused.ask("GET", "/healthz").read()
    assert answer.refusal == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert refused.ended()


def test_those_who_are_in_do_not_notice(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_connections=2)
    wire = connect(server)
    wire.create(path)
    follower = connect(server).follow(f"{path}?offset=-1&live=sse")
    assert connect(server).read().status == 503
    wire.append(path, b"hello")
    assert follower.data() == b"hello"


def test_room_that_becomes_free_is_given(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections=1)
    first = connect(server)
    assert first.get("/healthz").status == 200
    stays = connect(server)
    assert stays.read().status == 503
    first.close()
    assert eventually(lambda: connect(server).get("/healthz").status == 200)


def test_of_many_that_are_turned_away_the_oldest_go_at_once(start: Start, connect: Connect) -> None:
    server = start(tuning=ServerTuning(listener=ListenerTuning(max_turned_away=3)), limits__max_connections=1)
    assert connect(server).get("/healthz").status == 200
    refused = [connect(server) for _ in range(20)]
    assert refused[-1].read().status == 503
    assert eventually(lambda: len(server.connections) == 1 + 3)


@pytest.mark.timing
def test_who_is_turned_away_and_stays_is_ended_soon(start: Start, connect: Connect) -> None:
    tuning = ListenerTuning(tick_secs=0.02, turned_away_secs=0.1)
    server = start(tuning=ServerTuning(listener=tuning), limits__max_connections=1)
    assert connect(server).get("/healthz").status == 200
    stays = connect(server)
    assert stays.read().status == 503
    began = time.monotonic()
    assert eventually(lambda: len(server.connections) == 1)
    assert time.monotonic() - began < ConnectionTuning().linger_secs - 1


def test_refused_connections_leave_nothing_behind(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections=1)
    first = connect(server)
    assert first.get("/healthz").status == 200
    for _ in range(50):
        with server.connect() as refused:
            assert refused.read().status == 503
    assert eventually(lambda: len(server.connections) == 1)
