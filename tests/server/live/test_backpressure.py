"""A client that does not read: bounded in memory, then dropped, and nobody else notices."""

import pytest

from everbrook.server.tuning import ConnectionTuning, ListenerTuning, ServerTuning
from tests.kit.server_thread import QUICK_TICKS, RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, render

MB = 1_000_000
TINY_BUFFER = 4096


def fill(wire: Wire, path: str, megabytes: int, content_type: str = "text/plain") -> None:
    wire.create(path, content_type)
    for number in range(megabytes):
        assert wire.append(path, b"%d" % (number % 10) * MB, content_type).status == 204


def dropped_readers(server: RunningServer) -> int:
    counters = server.application.observer.counters
    return server.call(lambda: counters.of("slow_ended").get("reader", 0))


def test_pipelined_reads_wait_while_the_client_does_not_read(start: Start, connect: Connect, path: str) -> None:
    server = start()
    fill(connect(server), path, 1)
    connect(server, TINY_BUFFER).send(render("GET", path) * 500)
    assert eventually(server.unsent_bytes)
    assert server.unsent_bytes() < 3 * MB


def test_pipelined_reads_are_all_answered_when_the_client_reads_on(
    server: RunningServer, connect: Connect, path: str
) -> None:
    fill(connect(), path, 1)
    wire = connect(server, TINY_BUFFER).send(render("GET", path) * 30 + render("HEAD", path))
    assert {len(wire.read().body) for _ in range(30)} == {MB}
    assert wire.read(head_only=True).status == 200


def test_an_event_stream_holds_little_for_a_reader_that_stops(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_stream_bytes=20 * MB)
    fill(connect(server), path, 20)
    connect(server, TINY_BUFFER).ask("GET", f"{path}?offset=-1&live=sse")
    assert eventually(server.unsent_bytes)
    assert server.unsent_bytes() < 3 * MB


def test_a_follower_that_stops_reading_holds_little(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_stream_bytes=20 * MB)
    writer = connect(server)
    writer.create(path)
    connect(server, TINY_BUFFER).follow(f"{path}?offset=-1&live=sse").control()
    for _ in range(20):
        writer.append(path, b"a" * MB)
    assert server.unsent_bytes() < 3 * MB
    assert server.waiting(path) == 0


@pytest.mark.parametrize("query", ["", "?offset=-1&live=sse"])
def test_a_reader_that_stops_reading_is_dropped(start: Start, connect: Connect, path: str, query: str) -> None:
    server = start(tuning=QUICK_TICKS, server__slow_reader_timeout_secs=0.2)
    writer = connect(server)
    writer.create(path, body=b"a" * 9 * MB)
    slow = connect(server, TINY_BUFFER).ask("GET", path + query)
    assert eventually(lambda: dropped_readers(server))
    with pytest.raises((ConnectionResetError, EOFError)):
        slow.read_exactly(9 * MB)
    assert writer.get("/healthz").status == 200


def test_a_slow_reader_that_makes_progress_is_not_dropped(start: Start, connect: Connect, path: str) -> None:
    server = start(tuning=QUICK_TICKS, server__slow_reader_timeout_secs=0.3)
    fill(connect(server), path, 8)
    wire = connect(server, TINY_BUFFER).ask("GET", path)
    body = bytearray(wire.read_exactly(1000))
    while len(body) < 500_000:
        assert wire.nothing_for(0.01) in {True, False}
        body += wire.read_exactly(20_000)
    assert len(server.connections) == 2


def test_a_slow_reader_gets_the_whole_answer_before_the_connection_closes(
    start: Start, connect: Connect, path: str
) -> None:
    tuning = ListenerTuning(tick_secs=0.02, connection=ConnectionTuning(linger_secs=0.05))
    server = start(tuning=ServerTuning(listener=tuning))
    connect(server).create(path, body=b"a" * 9 * MB)
    wire = connect(server, TINY_BUFFER).ask("GET", path, connection="close")
    assert not wire.nothing_for(0.3)
    assert not wire.nothing_for(0.3)
    assert len(wire.read().body) == 9 * MB
    assert wire.ended()


def test_a_reader_that_stops_is_dropped_although_the_answer_is_the_last(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(tuning=QUICK_TICKS, server__slow_reader_timeout_secs=0.2)
    connect(server).create(path, body=b"a" * 9 * MB)
    connect(server, TINY_BUFFER).ask("GET", path, connection="close")
    assert eventually(lambda: dropped_readers(server))


def test_bodies_behind_a_long_poll_are_bounded(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_append_bytes=MB)
    wire = connect(server)
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.send_until_blocked(render("POST", path, b"a" * MB, content_type="text/plain"), 60 * MB)
    (held,) = server.connections
    assert server.call(held.inspect).queued_bytes <= 3 * MB


def test_what_waited_behind_a_long_poll_is_appended_whole(connect: Connect, path: str) -> None:
    wire, other = connect(), connect()
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    for _ in range(8):
        wire.ask("POST", path, b"a" * 100_000, content_type="text/plain")
    other.append(path, b"b")
    assert [wire.read().status for _ in range(9)] == [200] + [204] * 8
    assert len(other.get(path).body) == 800_001


def test_a_reader_that_stops_delays_nobody(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_stream_bytes=20 * MB)
    writer = connect(server)
    writer.create(path)
    connect(server, TINY_BUFFER).follow(f"{path}?offset=-1&live=sse").control()
    quick = connect(server).follow(f"{path}?offset=-1&live=sse")
    for number in range(10):
        writer.append(path, b"%d" % number * MB)
        assert quick.data() == b"%d" % number * MB
