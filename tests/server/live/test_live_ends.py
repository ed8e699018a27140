"""Streams that end under those who read them."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect
from tests.kit.wire import Answer, Follower, Wire


def soon(secs: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=secs)).isoformat().replace("+00:00", "Z")


def follow(connect: Connect, path: str) -> Follower:
    follower = connect().follow(f"{path}?offset=-1&live=sse")
    follower.control()
    return follower


def waiting_poll(server: RunningServer, connect: Connect, path: str) -> Wire:
    reader = connect().ask("GET", f"{path}?offset=now&live=long-poll")
    assert eventually(lambda: server.waiting(path) > 0)
    return reader


def ended_properly(follower: Follower) -> bool:
    """Whether the last chunk came, and the connection goes on."""
    return follower.event() is None and follower.wire.get("/healthz").status == 200


def refusal(reader: Wire) -> tuple[int, object]:
    answer: Answer = reader.read()
    return answer.refusal


def test_deleting_a_stream_ends_its_event_streams(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"hello")
    followers = [follow(connect, path) for _ in range(3)]
    assert wire.request("DELETE", path).status == 204
    assert all(ended_properly(follower) for follower in followers)


def test_deleting_a_stream_answers_its_long_polls_with_404(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    reader = waiting_poll(server, connect, path)
    wire.request("DELETE", path)
    assert refusal(reader) == (404, "stream_not_found")


def test_deleting_a_stream_that_has_forks_answers_its_long_polls_with_410(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    wire.create(f"{path}/fork", stream_forked_from=path)
    reader = waiting_poll(server, connect, path)
    wire.request("DELETE", path)
    assert refusal(reader) == (410, "stream_gone")


def test_deleting_a_source_does_not_disturb_the_readers_of_its_forks(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"old")
    wire.create(f"{path}/fork", stream_forked_from=path)
    follower = follow(connect, f"{path}/fork")
    wire.request("DELETE", path)
    wire.append(f"{path}/fork", b"new")
    assert follower.data() == b"new"


def test_a_stream_deleted_and_created_again_is_another_one(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    follower = follow(connect, path)
    wire.request("DELETE", path)
    wire.create(path, body=b"other")
    assert ended_properly(follower)


def test_an_absolute_expiry_ends_a_live_reader(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    """`Stream-Expires-At` never moves, whoever reads."""
    wire.create(path, stream_expires_at=soon(0.3))
    follower, reader = follow(connect, path), waiting_poll(server, connect, path)
    assert ended_properly(follower)
    assert refusal(reader) == (404, "stream_not_found")
    assert wire.get(path).status == 404


@pytest.mark.timing
def test_an_absolute_expiry_under_a_reader_costs_no_cpu(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, stream_expires_at=soon(0.1))
    follow(connect, path)
    before = time.process_time()
    assert wire.nothing_for(0.5)
    assert time.process_time() - before < 0.25


def test_an_expiry_ends_the_reader_of_a_forked_stream_with_410(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path, stream_expires_at=soon(0.3))
    wire.create(f"{path}/fork", stream_forked_from=path, stream_ttl="60")
    reader = waiting_poll(server, connect, path)
    assert refusal(reader) == (410, "stream_gone")


def test_a_live_reader_keeps_a_sliding_lifetime_from_running_out(wire: Wire, path: str, connect: Connect) -> None:
    """§5.1: a stream with active live readers will not expire."""
    wire.create(path, stream_ttl="1")
    follower = follow(connect, path)
    assert wire.nothing_for(1.5)
    assert wire.request("HEAD", path).status == 200
    wire.append(path, b"hello")
    assert follower.data() == b"hello"


def test_the_lifetime_runs_out_when_the_last_reader_has_gone(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, stream_ttl="1")
    follow(connect, path).wire.close()
    assert eventually(lambda: wire.request("HEAD", path).status == 404)


def test_a_slow_reader_of_a_deleted_stream_is_ended_when_it_reads_on(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    for _ in range(9):
        wire.append(path, b"a" * 1_000_000)
    follower = connect(server, 4096).follow(f"{path}?offset=-1&live=sse")
    wire.request("DELETE", path)
    assert len(follower.events()) < 18
    assert follower.wire.get("/healthz").status == 200
