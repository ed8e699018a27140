"""Clients that take their time: senders get a 408, the silent are let go."""

import threading

import pytest

from tests.kit.server_thread import QUICK_TICKS, RunningServer
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, render

POST = {"content_type": "text/plain"}


@pytest.fixture
def hasty(start: Start) -> RunningServer:
    return start(tuning=QUICK_TICKS, server__request_timeout_secs=0.2)


@pytest.fixture
def wire(hasty: RunningServer, connect: Connect, path: str) -> Wire:
    wire = connect(hasty)
    wire.create(path)
    return wire


@pytest.mark.parametrize("beginning", [b"G", b"GET /healthz HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nHost: a\r\nX"])
def test_a_head_that_stops_coming_is_a_408(wire: Wire, beginning: bytes) -> None:
    answer = wire.send(beginning).read()
    assert answer.refusal == (408, "request_timeout")
    assert answer.headers["connection"] == "close"
    assert wire.ended()


def test_a_head_that_trickles_is_a_408(wire: Wire) -> None:
    """Bytes alone do not buy time: the head as a whole has to be there."""
    wire.send(b"GET /healthz HTTP/1.1\r\nX: ")
    wire.send_slowly([b"a"] * 50, 0.01)
    assert wire.read().status == 408


@pytest.mark.parametrize("sent", [b"", b"a", b"a" * 100])
def test_a_body_that_stops_coming_is_a_408(wire: Wire, path: str, sent: bytes) -> None:
    wire.ask("POST", path, content_length="1000", **POST).send(sent)
    assert wire.read().refusal == (408, "request_timeout")
    assert wire.ended()


def test_a_body_that_stops_coming_is_a_408_however_much_came_before(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_length="5000000", **POST).send(b"a" * 4_000_000)
    assert wire.read().refusal == (408, "request_timeout")


def test_a_body_that_trickles_is_a_408(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_length="100000", **POST)
    wire.send_slowly([b"a"] * 60, 0.01)
    assert wire.read().status == 408


def test_a_chunked_body_that_trickles_is_a_408(wire: Wire, path: str) -> None:
    wire.ask("POST", path, transfer_encoding="chunked", **POST)
    wire.send_slowly([b"1\r\na\r\n"] * 60, 0.01)
    assert wire.read().status == 408


def test_a_body_that_makes_progress_may_take_longer(wire: Wire, path: str) -> None:
    """The bound is on the rate, not on the size."""
    wire.ask("POST", path, content_length="50000", **POST)
    wire.send_slowly([b"a" * 1000] * 50, 0.01)
    assert wire.read().status == 204


@pytest.mark.parametrize("rate, status", [(10_000_000, 408), (0, 204)])
def test_the_rate_that_a_body_needs_is_a_setting(
    start: Start, connect: Connect, path: str, rate: int, status: int
) -> None:
    """With no rate, any progress will do."""
    wire = connect(start(tuning=QUICK_TICKS, server__request_timeout_secs=0.2, server__min_body_bytes_per_sec=rate))
    wire.create(path)
    wire.ask("POST", path, content_length="60", **POST)
    wire.send_slowly([b"a"] * 60, 0.01)
    assert wire.read().status == status


def test_nothing_of_a_slow_body_is_stored(wire: Wire, path: str, hasty: RunningServer, connect: Connect) -> None:
    wire.ask("POST", path, content_length="1000", **POST).send(b"a" * 10)
    assert wire.read().status == 408
    assert connect(hasty).get(path).body == b""


def test_a_slow_sender_disturbs_no_other(wire: Wire, path: str, hasty: RunningServer, connect: Connect) -> None:
    wire.ask("POST", path, content_length="1000", **POST)
    assert connect(hasty).append(path, b"hello").status == 204


def test_what_precedes_a_slow_request_is_answered_first(wire: Wire) -> None:
    wire.send(render("GET", "/healthz") + b"GET /he")
    assert [wire.read().status, wire.read().status] == [200, 408]


def test_a_connection_without_a_request_is_let_go(start: Start, connect: Connect) -> None:
    assert connect(start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.1)).ended()


def test_a_connection_is_let_go_when_idle_after_an_answer(start: Start, connect: Connect) -> None:
    wire = connect(start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.1))
    assert wire.get("/healthz").status == 200
    assert wire.ended()


def test_empty_lines_do_not_keep_a_connection_from_being_idle(start: Start, connect: Connect) -> None:
    server = start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.2)
    connect(server).send_slowly([b"\r\n"] * 40, 0.02)
    assert not server.connections


def test_requests_keep_a_connection_from_being_idle(start: Start, connect: Connect) -> None:
    wire = connect(start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.15))
    for _ in range(6):
        assert wire.nothing_for(0.05)
        assert wire.get("/healthz").status == 200


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_live_reader_is_not_idle(start: Start, connect: Connect, path: str, live: str) -> None:
    server = start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.1, server__request_timeout_secs=0.1)
    reader, writer = connect(server), connect(server)
    writer.create(path)
    reader.ask("GET", f"{path}?offset=now&live={live}")
    assert reader.nothing_for(0.3) is (live == "long-poll")
    connect(server).append(path, b"hello")
    assert b"hello" in reader.read_until(b"hello") + b"hello"


def test_an_answer_that_came_late_begins_the_idle_time_anew(start: Start, connect: Connect, path: str) -> None:
    server = start(tuning=QUICK_TICKS, server__idle_timeout_secs=0.15, server__long_poll_timeout_secs=0.3)
    wire = connect(server)
    wire.create(path)
    assert wire.get(f"{path}?offset=now&live=long-poll").status == 204
    assert wire.get("/healthz").status == 200


def test_a_client_is_not_blamed_for_what_the_server_did_not_read(start: Start, connect: Connect, path: str) -> None:
    """Behind a long-poll the server stops reading; the time that takes is not the sender's."""
    server = start(tuning=QUICK_TICKS, server__request_timeout_secs=0.2, server__long_poll_timeout_secs=0.8)
    wire = connect(server)
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    sender = threading.Thread(target=wire.send, args=(render("POST", path, b"a" * 700_000, **POST) * 6,))
    sender.start()
    assert [wire.read().status for _ in range(7)] == [204] * 7
    sender.join()
