"""Clients that are killed leave nothing behind: no connection, no waiter, no task, no timer, no memory."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from everbrook.server.exchange import Response
from everbrook.server.http1.connection import Connection
from everbrook.settings.sections.storage import StorageMode
from tests.kit.server_thread import RunningServer, eventually, resident_bytes
from tests.kit.servers import Start
from tests.kit.wire import Wire
from tests.server.stepped_server import HandServer

# More than any noise in the counts below: whatever one client leaves behind is seen.
KILLS = 300
MANY_KILLS = 1_200
"""Threads that compress take up to 7 MB from the system, in steps, and keep it. So many leaks of 8 kB are larger."""
CROWD = 1000

Kill = Callable[[Wire, str], None]


def mid_head(wire: Wire, path: str) -> None:
    wire.send(f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-".encode()).reset()


def mid_body(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_type="text/plain", content_length="5000").send(b"a" * 1000).reset()


def mid_chunk(wire: Wire, path: str) -> None:
    wire.ask("POST", path, content_type="text/plain", transfer_encoding="chunked").send(b"ff\r\naa").reset()


def mid_answer(wire: Wire, path: str) -> None:
    wire.ask("GET", path).reset()


def mid_compression(wire: Wire, path: str) -> None:
    wire.ask("GET", path, accept_encoding="gzip").reset()


def mid_event_stream(wire: Wire, path: str) -> None:
    wire.follow(f"{path}?offset=now&live=sse").control()
    wire.reset()


def mid_event_stream_politely(wire: Wire, path: str) -> None:
    wire.follow(f"{path}?offset=now&live=sse").control()
    wire.close()


def mid_catch_up(wire: Wire, path: str) -> None:
    wire.ask("GET", f"{path}?offset=-1&live=sse").reset()


def mid_long_poll(wire: Wire, path: str) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll").reset()


def mid_pipeline(wire: Wire, path: str) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.ask("GET", "/healthz").ask("GET", f"{path}?offset=now&live=sse").reset()


KILLERS: list[Kill] = [
    mid_head,
    mid_body,
    mid_chunk,
    mid_answer,
    mid_compression,
    mid_event_stream,
    mid_event_stream_politely,
    mid_catch_up,
    mid_long_poll,
    mid_pipeline,
]


def kill_many(server: RunningServer, path: str, kill: Kill, times: int) -> None:
    for _ in range(times):
        with server.connect() as wire:
            kill(wire, path)
    # The kernel hands connections over in their order: all that were killed are accepted before this one.
    with server.connect() as last:
        assert last.get("/healthz").status == 200
    assert eventually(lambda: not server.connections)


def objects(server: RunningServer) -> int:
    def count() -> int:
        gc.collect()
        return len(gc.get_objects())

    return server.call(count)


@pytest.mark.parametrize("kill", KILLERS, ids=lambda kill: kill.__name__)
def test_killed_clients_leave_nothing_behind(start: Start, path: str, kill: Kill) -> None:
    server = start()
    with server.connect() as wire:
        wire.create(path, body=b"a" * 50_000)
    kill_many(server, path, kill, KILLS)
    objects_before, resident_before = objects(server), resident_bytes()
    kill_many(server, path, kill, MANY_KILLS)
    assert server.waiting(path) == 0
    assert server.call(lambda: len(asyncio.all_tasks())) <= 2
    assert objects(server) - objects_before < 200
    assert resident_bytes() - resident_before < 8_000 * MANY_KILLS


def connections_of(server: RunningServer) -> list[Connection]:
    """Give those that take memory, ended ones too."""
    return [each for each in gc.get_referrers(server.listener) if isinstance(each, Connection)]


@pytest.mark.parametrize("kill", KILLERS, ids=lambda kill: kill.__name__)
def test_the_memory_of_a_killed_client_is_free_at_once(start: Start, path: str, kill: Kill) -> None:
    """And not when the collector has time: of many readers that come and go it would hold a quarter more."""
    server = start()
    with server.connect() as wire:
        wire.create(path, body=b"a" * 50_000)
        assert len(connections_of(server)) == 1
    gc.collect()
    gc.disable()
    try:
        kill_many(server, path, kill, 20)
        assert eventually(lambda: not connections_of(server))
    finally:
        gc.enable()


def test_an_answer_that_comes_after_its_client_has_gone_is_dropped(tmp_path: Path) -> None:
    async def answer_late() -> None:
        server = HandServer(tmp_path, StorageMode.MEMORY)
        wire, connection = server.connect()
        exchange = connection.responder
        connection.connection_lost(None)
        exchange.respond(Response(200, b""))
        assert not wire.writes
        server.engine.close()

    asyncio.run(answer_late())


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_a_thousand_readers_killed_while_they_wait_leave_nothing_behind(start: Start, path: str, live: str) -> None:
    server = start()
    with server.connect() as writer, ExitStack() as stack:
        writer.create(path)
        readers = [stack.enter_context(server.connect()) for _ in range(CROWD)]
        for reader in readers:
            reader.ask("GET", f"{path}?offset=now&live={live}")
        assert eventually(lambda: server.waiting(path) == CROWD)
        for reader in readers:
            reader.reset()
        assert eventually(lambda: server.waiting(path) == 0)
        assert eventually(lambda: len(server.connections) == 1)
        assert server.stream(path).feed is None


def test_the_stream_is_as_good_as_before(start: Start, path: str) -> None:
    server = start()
    with server.connect() as wire:
        wire.create(path, body=b"a")
    for kill in KILLERS:
        kill_many(server, path, kill, 20)
    with server.connect() as reader, server.connect() as writer:
        follower = reader.follow(f"{path}?offset=now&live=sse")
        follower.control()
        assert writer.append(path, b"b").next_offset == f"{2:016d}"
        assert follower.data() == b"b"


def test_clients_killed_while_data_comes_disturb_nobody(start: Start, path: str) -> None:
    server = start()
    with server.connect() as writer, server.connect() as reader:
        writer.create(path)
        follower = reader.follow(f"{path}?offset=now&live=sse")
        for number in range(200):
            with server.connect() as victim:
                victim.ask("GET", f"{path}?offset=now&live={'sse' if number % 2 else 'long-poll'}").reset()
            writer.append(path, b"%d" % number)
            assert follower.data() == b"%d" % number
        assert eventually(lambda: server.waiting(path) == 1)


def test_long_targets_are_not_remembered(start: Start, path: str) -> None:
    server = start()
    with server.connect() as wire:
        wire.create(path)
        wire.get(f"{path}?{'a' * 30_000}")
        before = resident_bytes()
        for number in range(1500):
            assert wire.get(f"{path}?offset=-1&{number}={'a' * 30_000}", accept_encoding=f"{number}").status == 200
    assert resident_bytes() - before < 20_000_000


def test_ended_event_streams_leave_nothing_behind(start: Start, path: str) -> None:
    server = start(server__sse_reconnect_interval_secs=0.001)
    with server.connect() as wire:
        wire.create(path)
        for _ in range(50):
            wire.follow(f"{path}?offset=-1&live=sse").events()
        before = objects(server)
        for _ in range(300):
            wire.follow(f"{path}?offset=-1&live=sse").events()
    assert server.waiting(path) == 0
    assert objects(server) - before < 200


def test_created_and_deleted_streams_leave_nothing_behind(start: Start, path: str) -> None:
    server = start()
    empty_bytes = server.call(server.engine.inspect).memory_bytes

    def create_and_delete(wire: Wire, times: int) -> int:
        for number in range(times):
            wire.create(f"{path}/{number % 7}", body=b"a", stream_ttl="60")
            wire.request("DELETE", f"{path}/{number % 7}")
        return objects(server)

    with server.connect() as wire:
        before = create_and_delete(wire, 500)
        assert create_and_delete(wire, 1500) - before < 1000
    assert server.call(server.engine.inspect).memory_bytes == empty_bytes
