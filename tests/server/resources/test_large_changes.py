"""Large changes: a tenant that appends megabytes waits for its own, and nobody else for all of them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.server.limits.large_changes import SHARE_BYTES
from everbrook.settings.sections.storage import StorageMode
from tests.server.stepped_server import HandServer

LARGE = b"x" * (SHARE_BYTES // 2 + 1)
BATCH = b"[" + b"1," * (SHARE_BYTES // 6) + b"1]"


def render(method: bytes, path: bytes, body: bytes = b"", content_type: bytes = b"text/plain") -> bytes:
    head = b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
    return head % (method, path, content_type, len(body), body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HandServer]:
    async def made() -> HandServer:
        return HandServer(tmp_path, StorageMode.ACID)

    with asyncio.Runner() as runner:
        server = runner.run(made())
        for bucket in (b"/ds/greedy", b"/ds/modest"):
            server.ask(render(b"PUT", bucket))
            server.ask(render(b"PUT", bucket + b"/text"))
            server.ask(render(b"PUT", bucket + b"/json", content_type=b"application/json"))
        yield server
        while server.commit():
            server.take_turns()
        server.engine.close()


def send(server: HandServer, *requests: bytes) -> int:
    """Send each over a connection of its own. Gives how many changes were decided then."""
    before = server.engine.last_change
    for request in requests:
        server.connect()[1].data_received(request)
        server.take_turns()
    return server.engine.last_change - before


def test_a_bucket_has_a_share_of_what_is_on_its_way(server: HandServer) -> None:
    large = render(b"POST", b"/ds/greedy/text", LARGE)
    assert send(server, large, large, large) == 1
    assert send(server, render(b"POST", b"/ds/greedy/text", b"little")) == 1
    assert send(server, render(b"POST", b"/ds/modest/text", LARGE)) == 1


def test_large_changes_follow_each_other(server: HandServer) -> None:
    large = render(b"POST", b"/ds/greedy/text", LARGE)
    assert send(server, large, large, large) == 1
    decided = server.engine.last_change
    while server.commit():
        server.take_turns()
    assert server.engine.durable_change == decided + 2


def test_a_small_change_goes_before_the_next_large_one(server: HandServer) -> None:
    send(server, *[render(b"POST", b"/ds/greedy/text", LARGE)] * 2, render(b"POST", b"/ds/modest/text", b"little"))
    small = server.engine.last_change
    server.commit()
    server.take_turns()
    server.commit()
    server.take_turns()
    assert server.engine.durable_change == small


def commit_in_turns(server: HandServer, secs: float) -> None:
    """Make the next group durable, which takes so long."""
    server.advance(secs)
    server.commit()
    server.take_turns()


@pytest.mark.parametrize("secs, pause_secs", [(0.1, 0.3), (5, 1)])
def test_while_others_write_a_bucket_pauses_between_large_changes(
    server: HandServer, secs: float, pause_secs: float
) -> None:
    large, little = render(b"POST", b"/ds/greedy/text", LARGE), render(b"POST", b"/ds/modest/text", b"little")
    send(server, large, large, little)
    before = server.engine.last_change
    commit_in_turns(server, secs)
    assert server.engine.last_change == before
    server.advance(pause_secs - 0.01)
    assert server.engine.last_change == before
    server.advance(0.02)
    assert server.engine.last_change == before + 1


def test_a_request_that_waits_for_the_end_of_a_pause_continues_after_it(server: HandServer) -> None:
    """Two changes are under way when a third one has to wait. The second becomes durable during the pause."""
    large, quarter = (render(b"POST", b"/ds/greedy/text", LARGE[:size]) for size in (len(LARGE), SHARE_BYTES // 4))
    assert send(server, large, quarter, large, render(b"POST", b"/ds/modest/text", b"little")) == 3
    before = server.engine.last_change
    commit_in_turns(server, 0.1)
    commit_in_turns(server, 0.1)
    assert (server.engine.last_change, server.engine.durable_change) == (before, before)
    server.advance(1)
    assert server.engine.last_change == before + 1


def test_a_bucket_does_not_pause_for_changes_of_its_own(server: HandServer) -> None:
    large, quarter = (render(b"POST", b"/ds/greedy/text", LARGE[:size]) for size in (len(LARGE), SHARE_BYTES // 4))
    assert send(server, large, quarter, large) == 2
    before = server.engine.last_change
    commit_in_turns(server, 1)
    assert server.engine.last_change == before + 1


def test_a_bucket_that_writes_alone_does_not_pause(server: HandServer) -> None:
    large = render(b"POST", b"/ds/greedy/text", LARGE)
    send(server, large, large)
    before = server.engine.last_change
    commit_in_turns(server, 1)
    assert server.engine.last_change == before + 1


def test_the_lengths_of_a_batch_count(server: HandServer) -> None:
    batch = render(b"POST", b"/ds/greedy/json", BATCH, b"application/json")
    assert send(server, batch, batch, batch) == 1


def test_as_many_as_fit_go_together(server: HandServer) -> None:
    assert send(server, *[render(b"POST", b"/ds/greedy/text", LARGE[: SHARE_BYTES // 4])] * 5) == 4


def test_batches_that_come_together_are_stored_one_after_the_other(server: HandServer) -> None:
    """Small appends move the tail while the ends of a batch are computed."""
    size, little = 70_000, render(b"POST", b"/ds/greedy/json", b"[1,1]", b"application/json")
    batch = render(b"POST", b"/ds/greedy/json", b"[" + b"1," * (size - 1) + b"1]", b"application/json")
    connections = [server.connect() for _ in range(4)]
    for _, connection in connections:
        connection.data_received(batch)
    count = 0
    while server.take_turn():
        server.connect()[1].data_received(little)
        count += 1
    while server.commit():
        server.take_turns()
    assert all(b" 204 " in wire.written for wire, _ in connections)
    wire, connection = server.connect()
    connection.data_received(render(b"HEAD", b"/ds/greedy/json"))
    assert b"Stream-Next-Offset: %016d\r\n" % (2 * (4 * size + 2 * count)) in wire.written
