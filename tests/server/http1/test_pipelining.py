"""Pipelining: requests without waiting, answers in the same order."""

import pytest

from everbrook.server.tuning import ConnectionTuning
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect
from tests.kit.wire import Wire, render


def test_answers_come_in_the_order_of_the_requests(wire: Wire, path: str) -> None:
    wire.create(path)
    requests = [render("POST", path, b"%d" % number, content_type="text/plain") for number in range(100)]
    wire.send(b"".join(requests))
    assert [wire.read().next_offset for _ in requests][-1] == f"{10 + 90 * 2:016d}"
    assert wire.get(path).body == b"".join(b"%d" % number for number in range(100))


def test_a_read_sees_the_append_before_it(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("POST", path, b"hello", content_type="text/plain").ask("GET", path).ask("HEAD", path)
    assert wire.read().status == 204
    assert wire.read().body == b"hello"
    assert wire.read(head_only=True).next_offset == "0000000000000005"


def test_a_fast_answer_waits_behind_a_long_poll(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll").ask("GET", "/healthz")
    assert wire.nothing_for(0.05)
    connect().append(path, b"hello")
    assert [wire.read().body, wire.read().body] == [b"hello", b"ok"]


def test_appends_behind_a_long_poll_are_made_after_it(wire: Wire, path: str, connect: Connect) -> None:
    """They are handled in order too: the poll must not be ended by what stands behind it."""
    other = connect()
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.ask("POST", path, b"b", content_type="text/plain").ask("POST", path, b"c", content_type="text/plain")
    assert wire.nothing_for(0.05)
    other.append(path, b"a")
    assert [wire.read().status for _ in range(3)] == [200, 204, 204]
    assert other.get(path).body == b"abc"


def test_long_polls_in_a_row_are_answered_in_turn(wire: Wire, path: str, connect: Connect) -> None:
    other = connect()
    wire.create(path)
    wire.ask("GET", f"{path}?offset={0:016d}&live=long-poll").ask("GET", f"{path}?offset={1:016d}&live=long-poll")
    other.append(path, b"a")
    assert wire.read().body == b"a"
    other.append(path, b"b")
    assert wire.read().body == b"b"


def test_a_request_behind_an_event_stream_is_answered_after_its_end(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    follower = wire.follow(f"{path}?offset=-1&live=sse")
    wire.ask("GET", "/healthz")
    connect().append(path, b"bye", stream_closed="true")
    assert follower.data() == b"bye"
    assert len(follower.events()) == 1
    assert wire.read().body == b"ok"


def test_more_requests_than_are_kept_waiting_are_all_answered(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll").send(render("GET", "/healthz") * 1000)
    connect().append(path, b"hello")
    assert wire.read().body == b"hello"
    assert {wire.read().body for _ in range(1000)} == {b"ok"}


def test_nothing_is_read_while_too_much_waits(server: RunningServer, wire: Wire, path: str) -> None:
    wire.create(path)
    wire.ask("GET", f"{path}?offset=now&live=long-poll").send(render("GET", "/healthz") * 1000)
    (connection,) = server.find(lambda state: state.queued)
    assert eventually(lambda: not connection.inspect().reading)


@pytest.mark.parametrize("target", ["/ds", "/ds/", "/ds/none"])
def test_requests_for_buckets_wait_for_other_turns_too(wire: Wire, target: str) -> None:
    many = 3 * ConnectionTuning().handled_at_once
    wire.send(render("GET", target) * many)
    assert len({wire.read().status for _ in range(many)}) == 1
