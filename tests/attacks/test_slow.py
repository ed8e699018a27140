"""Slow attacks: connections that send next to nothing hold no one up.

The count is small here; `python -m bench.slow` does it with 2,000 sockets and compares the latencies.
"""

import socket
import time

import pytest

from tests.kit.server_thread import QUICK_TICKS, RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import render

SOCKETS = 200


def trickle(server: RunningServer, count: int, beginning: bytes) -> list[socket.socket]:
    """Open connections that each send the beginning of a request."""
    sockets = []
    for _ in range(count):
        opened = socket.create_connection(server.address)
        opened.sendall(beginning)
        sockets.append(opened)
    return sockets


def p99_ms(server: RunningServer, connect: Connect, path: str, count: int = 300) -> float:
    """How long one append after the other takes."""
    wire, took = connect(server), []
    for _ in range(count):
        began = time.perf_counter()
        assert wire.append(path, b"hello").status == 204
        took.append(time.perf_counter() - began)
    return sorted(took)[int(count * 0.98)] * 1000


@pytest.mark.timing
@pytest.mark.parametrize(
    "beginning",
    [
        b"GET /v1/stream/a HTTP/1.1\r\nHost: a\r\nX-a: ",
        b"POST /v1/stream/a HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\na",
        b"POST /v1/stream/a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n",
    ],
)
def test_slow_senders_hold_no_one_up(start: Start, connect: Connect, path: str, beginning: bytes) -> None:
    server = start()
    connect(server).create(path)
    sockets = trickle(server, SOCKETS, beginning)
    try:
        assert eventually(lambda: len(server.connections) > SOCKETS)
        for each in sockets:
            each.sendall(b"a")
        assert p99_ms(server, connect, path) < 1000
    finally:
        for each in sockets:
            each.close()


def test_slow_senders_are_all_sent_away(start: Start) -> None:
    server = start(tuning=QUICK_TICKS, server__request_timeout_secs=0.2)
    sockets = trickle(server, SOCKETS, b"GET /v1/stream/a HTTP/1.1\r\nHo")
    try:
        assert all(each.recv(100).startswith(b"HTTP/1.1 408 ") for each in sockets)
    finally:
        for each in sockets:
            each.close()
    assert eventually(lambda: len(server.connections) == 0)


def test_bodies_that_are_held_are_bounded_over_all_connections(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_buffered_bytes=1_000_000)
    connect(server).create(path)
    answers = []
    for _ in range(8):
        wire = connect(server).ask("POST", path, content_length="500000", content_type="text/plain")
        answers.append(wire.send(b"a" * 300_000))
    assert eventually(lambda: server.call(lambda: 500_000 < server.listener.buffered_bytes <= 1_000_000))
    refused = [wire for wire in answers if not wire.nothing_for(0.1)]
    assert [wire.read().refusal for wire in refused] == [(503, "overloaded")] * len(refused)
    assert len(refused) >= 5


def test_readers_that_do_not_read_are_dropped_for_room(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_buffered_bytes=4_000_000)
    connect(server).create(path, body=b"a" * 900_000)
    for _ in range(12):
        wire = connect(server, 4096)
        wire.send(render("GET", path) * 3)
    assert eventually(lambda: server.call(lambda: server.listener.buffered_bytes) <= 4_000_000)
    assert server.unsent_bytes() <= 5_000_000
    assert connect(server).get("/healthz").status == 200


def test_who_is_dropped_for_room_is_counted_once(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_buffered_bytes=4_000_000)
    connect(server).create(path, body=b"a" * 900_000)
    connect(server, 4096).send(render("GET", path) * 20)
    assert eventually(lambda: server.unsent_bytes() > 0)

    def relieve_often() -> dict[str, int]:
        server.listener.max_buffered_bytes = -1
        for _ in range(5):
            server.listener.relieve()
        return server.application.observer.counters.of("slow_ended")

    assert server.call(relieve_often)["dropped_for_room"] == 1


def test_nothing_stays_counted_of_connections_that_went(start: Start, connect: Connect, path: str) -> None:
    server = start()
    connect(server).create(path)
    wires = [connect(server) for _ in range(10)]
    for wire in wires:
        wire.ask("POST", path, content_length="500000", content_type="text/plain").send(b"a" * 100_000)
    assert eventually(lambda: server.call(lambda: server.listener.buffered_bytes) == 1_000_000)
    for wire in wires:
        wire.reset()
    assert eventually(lambda: server.call(lambda: server.listener.buffered_bytes) == 0)
