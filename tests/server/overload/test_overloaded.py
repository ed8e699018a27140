"""What clients see of an overloaded server. The strain is put on by hand; what follows from it is real."""

from collections.abc import Iterator

import pytest

from everbrook.server.limits.overload import HARD, MOST_AT_ONCE
from everbrook.server.tuning import DEFAULT_TUNING
from tests.kit.server_thread import GatedStorage, RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, render

CROWD = 100


def strain(server: RunningServer, strain: float = 2.0, crowd: int = CROWD) -> None:
    """Let a server believe that it is asked for more than it can do, by a crowd."""

    def put_on() -> None:
        overload, bound_secs = server.listener.overload, server.application.settings.limits.overload_wait_secs
        overload.stop()
        overload.shedding.overloaded = strain > 0
        overload.calm = not overload.shedding.overloaded
        overload.beat_at, overload.limit_secs = 0.0, float("inf")
        overload.late_secs = strain * bound_secs
        overload.before = set(range(crowd))

    server.call(put_on)


@pytest.fixture
def strained(start: Start, connect: Connect, path: str) -> Iterator[RunningServer]:
    server = start()
    connect(server).create(path, body=b"there")
    strain(server)
    yield server
    assert eventually(lambda: server.call(lambda: server.listener.overload.held) == set())


@pytest.fixture
def wire(strained: RunningServer, connect: Connect) -> Wire:
    return connect(strained)


def test_an_append_is_refused_with_a_time_to_come_back(wire: Wire, path: str) -> None:
    answer = wire.append(path, b"more")
    assert answer.refusal == (503, "overloaded")
    assert answer.headers["retry-after"] == "1"
    assert "connection" not in answer.headers


@pytest.mark.parametrize("method, target", [("GET", "?offset=-1"), ("PUT", "/new"), ("GET", "/__ds/streams")])
def test_reads_of_the_past_and_creations_are_refused_too(wire: Wire, path: str, method: str, target: str) -> None:
    assert wire.request(method, path + target).refusal == (503, "overloaded")


@pytest.mark.parametrize("method, target", [("GET", "/healthz"), ("GET", "/readyz"), ("DELETE", "/v1/stream/none")])
def test_probes_and_deletions_pass(wire: Wire, method: str, target: str) -> None:
    assert wire.request(method, target).status in {200, 404}


@pytest.mark.parametrize("target", ["?offset=-1&olive=sse", "?offset=-1&live=", "/__ds/bootstrap?live=sse"])
def test_what_only_looks_like_a_reader_that_follows_is_refused(wire: Wire, path: str, target: str) -> None:
    assert wire.get(path + target).refusal == (503, "overloaded")


def test_readers_that_follow_go_on(wire: Wire, path: str) -> None:
    assert wire.follow(f"{path}?offset=-1&live=sse").data() == b"there"


def test_readers_that_follow_are_refused_where_nothing_else_helps(
    strained: RunningServer, wire: Wire, path: str
) -> None:
    strain(strained, 2 * HARD)
    assert wire.get(f"{path}?offset=-1&live=sse").refusal == (503, "overloaded")


def test_nothing_of_a_refused_append_is_stored(
    strained: RunningServer, wire: Wire, connect: Connect, path: str
) -> None:
    assert wire.append(path, b"more").status == 503
    strain(strained, 0.0)
    assert connect(strained).get(path).body == b"there"


def test_a_refused_connection_waits_and_is_then_served(wire: Wire, path: str) -> None:
    assert wire.append(path, b"1").status == 503
    wire.ask("POST", path, b"2", content_type="text/plain")
    assert wire.nothing_for(0.1)
    assert wire.read().status == 204


def test_who_sends_more_behind_it_gets_one_answer_for_all_and_the_end(wire: Wire, path: str) -> None:
    wire.send(render("POST", path, b"a", content_type="text/plain") * 1000)
    assert wire.read().refusal == (503, "overloaded")
    assert wire.ended()


def test_answers_stay_in_order_when_a_later_request_is_refused(wire: Wire, path: str) -> None:
    wire.send(render("GET", "/healthz") + render("POST", path, b"a", content_type="text/plain"))
    assert [wire.read().status, wire.read().status] == [200, 503]


def test_a_refusal_comes_after_the_answers_to_requests_that_wait_for_another_turn(wire: Wire, path: str) -> None:
    before = DEFAULT_TUNING.listener.connection.handled_at_once * 2
    wire.send(render("GET", "/healthz") * before + render("POST", path, b"a", content_type="text/plain"))
    assert [wire.read().status for _ in range(before + 1)] == [200] * before + [503]
    assert wire.ended()


def test_a_long_poll_that_begins_during_a_hold_is_answered_before_the_refusal(wire: Wire, path: str) -> None:
    before = DEFAULT_TUNING.listener.connection.handled_at_once * 2
    long_poll = render("GET", f"{path}?offset=now&live=long-poll")
    wire.send(render("GET", "/healthz") * before + long_poll + render("POST", path, b"a", content_type="text/plain"))
    assert [wire.read().status for _ in range(before + 2)] == [200] * before + [204, 503]
    assert wire.ended()


@pytest.mark.parametrize("connections", [1, 2])
def test_a_flood_of_another_bucket_refuses_nobody_who_pipelines_a_little(
    start: Start, connect: Connect, connections: int
) -> None:
    """Buckets take turns, so a bucket waits for its own backlog and for as much of that of each other one."""
    server = start()
    wires = [connect(server) for _ in range(connections)]
    for bucket in ("busy", "calm"):
        wires[0].request("PUT", f"/ds/{bucket}")
    strain(server, strain=0)
    path = "/ds/calm/s"
    wires[0].create(path)

    def flood() -> None:
        overload = server.listener.overload
        overload.backlog.connections = 10
        overload.backlog.add(b"busy", 10_000_000)
        overload.calm = False

    server.call(flood)
    many = 3 * MOST_AT_ONCE
    for wire in wires:
        wire.send(render("POST", path, b"a", content_type="text/plain") * many)
    for wire in wires:
        assert [wire.read().status for _ in range(many)] == [204] * many
    server.call(lambda: server.listener.overload.backlog.add(b"busy", -10_000_000))


def test_whoever_floods_is_refused_for_the_backlog_of_the_own_bucket(start: Start, connect: Connect) -> None:
    server = start()
    wire = connect(server)
    wire.request("PUT", "/ds/busy")
    wire.create("/ds/busy/s")

    def flood() -> None:
        overload = server.listener.overload
        overload.backlog.connections = 10
        overload.backlog.add(b"busy", 10_000_000)
        overload.calm = False

    server.call(flood)
    append = render("POST", "/ds/busy/s", b"a", content_type="text/plain")
    wire.send(append * (MOST_AT_ONCE + 1))
    assert [wire.read().status for _ in range(MOST_AT_ONCE + 1)] == [204] * MOST_AT_ONCE + [503]
    server.call(lambda: server.listener.overload.backlog.add(b"busy", -10_000_000))


def test_nothing_that_follows_a_refusal_is_handled_or_answered(start: Start, connect: Connect, path: str) -> None:
    storage, append = GatedStorage(), render("POST", path, b"a", content_type="text/plain")
    storage.gate.set()
    server = start(storage)
    wire = connect(server)
    wire.create(path)
    storage.gate.clear()
    wire.send(append)
    pending = server.engine.durable_change + 1
    assert eventually(lambda: server.call(lambda: server.engine.last_change) == pending)
    strain(server)
    wire.send(append + render("GET", "/healthz") + append)
    assert eventually(lambda: server.call(lambda: server.listener.overload.held) != set())
    storage.gate.set()
    assert [wire.read().status, wire.read().status] == [204, 503]
    assert wire.ended()
    assert server.call(lambda: server.engine.last_change) == pending


def test_a_connection_that_ends_while_it_is_held_is_not_counted(wire: Wire, path: str) -> None:
    assert wire.append(path, b"1").status == 503
    wire.reset()


def test_who_asks_on_a_new_connection_each_time_is_one_client_and_not_a_crowd(
    strained: RunningServer, connect: Connect, path: str
) -> None:
    strain(strained, crowd=0)
    for _ in range(5):
        wire = connect(strained)
        assert wire.append(path, b"more").status == 204
        wire.close()
        assert eventually(lambda: strained.call(lambda: strained.listener.overload.busy) == 0)


def test_who_comes_and_goes_is_not_counted_out_for_those_who_stay(strained: RunningServer, connect: Connect) -> None:
    for _ in range(5):
        wire = connect(strained)
        assert wire.get("/healthz").status == 200
        wire.close()
    assert eventually(lambda: strained.call(lambda: strained.listener.overload.active) == set())
    assert strained.call(lambda: strained.listener.overload.busy) == CROWD
