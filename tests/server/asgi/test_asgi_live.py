"""Live reads through ASGI: slow readers, readers that go, and the end of the server."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured, eventually

TINY_BUFFER = 4096
MB = 1_000_000

Serve = Callable[..., Mounted]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start the application with settings of its own, mounted at /api."""
    with ExitStack() as stack:

        def begin(**settings: object) -> Mounted:
            streams = create_app(configured(**settings))
            outer = Starlette(routes=[Mount("/api", streams)], lifespan=streams.lifespan)
            return stack.enter_context(Mounted(streams, outer))

        yield begin


def test_an_event_stream_of_many_pages_arrives_whole(serve: Serve, path: str) -> None:
    server = serve(limits__max_page_bytes=100)
    with server.connect() as wire:
        wire.create(f"/api{path}")
        for number in range(200):
            wire.append(f"/api{path}", b"%05d" % number * 10)
        follower = wire.follow(f"/api{path}?offset=-1&live=sse")
        received = b""
        while len(received) < 200 * 50:
            received += follower.data()
    assert received == b"".join(b"%05d" % number * 10 for number in range(200))


def test_a_batch_of_many_pages_arrives_whole(serve: Serve, path: str) -> None:
    server = serve(limits__max_page_bytes=10)
    with server.connect() as wire, server.connect() as reader:
        wire.create(f"/api{path}", "application/json")
        follower = reader.follow(f"/api{path}?offset=-1&live=sse")
        follower.control()
        wire.append(f"/api{path}", b"[" + b",".join([b'"12345"'] * 100) + b"]", "application/json")
        assert sum(follower.data().count(b"12345") for _ in range(100)) == 100
        wire.append(f"/api{path}", b"1", "application/json")
        assert follower.data() == b"[1]"


def test_a_reader_that_falls_behind_catches_up_without_loss_or_repetition(serve: Serve, path: str) -> None:
    server = serve(limits__max_stream_bytes=50 * MB)
    messages = [b"%06d" % number * 20_000 for number in range(60)]
    with server.connect() as wire, server.connect(TINY_BUFFER) as slow:
        wire.create(f"/api{path}")
        follower = slow.follow(f"/api{path}?offset=-1&live=sse")
        follower.control()
        for message in messages:
            wire.append(f"/api{path}", message)
        received = b""
        while len(received) < 60 * 120_000:
            received += follower.data()
    assert received == b"".join(messages)


def test_a_reader_that_stops_reading_holds_little(serve: Serve, path: str) -> None:
    server = serve(limits__max_stream_bytes=50 * MB)
    with server.connect() as wire, server.connect(TINY_BUFFER) as slow:
        wire.create(f"/api{path}")
        slow.follow(f"/api{path}?offset=-1&live=sse").control()
        for _ in range(40):
            wire.append(f"/api{path}", b"a" * MB)
        assert eventually(lambda: server.waiting(path) == 0)
        (exchange,) = server.streams.exchanges.values()
        assert exchange.queued_bytes < 3 * MB
        assert wire.get("/api/healthz").status == 200


def test_a_reader_that_stops_reading_is_dropped(serve: Serve, path: str) -> None:
    server = serve(limits__max_stream_bytes=50 * MB, server__slow_reader_timeout_secs=0.2)
    with server.connect() as wire, server.connect(TINY_BUFFER) as slow:
        wire.create(f"/api{path}")
        slow.follow(f"/api{path}?offset=-1&live=sse").control()
        for _ in range(20):
            wire.append(f"/api{path}", b"a" * MB)
        assert eventually(lambda: not server.streams.exchanges)


@pytest.mark.parametrize("live", ["sse", "long-poll"])
def test_readers_that_go_leave_nothing_behind(serve: Serve, path: str, live: str) -> None:
    server = serve()
    with server.connect() as wire:
        wire.create(f"/api{path}")
        tasks = server.tasks()
        for _ in range(100):
            with server.connect() as reader:
                reader.ask("GET", f"/api{path}?offset=now&live={live}")
                assert eventually(lambda: server.waiting(path) == 1)
                reader.reset()
            assert eventually(lambda: server.waiting(path) == 0)
        assert not server.streams.exchanges
        assert eventually(lambda: server.tasks() <= tasks)


def test_senders_that_go_leave_nothing_behind(serve: Serve, path: str) -> None:
    server = serve()
    with server.connect() as wire:
        wire.create(f"/api{path}")
        tasks = server.tasks()
        for _ in range(100):
            with server.connect() as sender:
                sender.ask("POST", f"/api{path}", content_type="text/plain", content_length="10").send(b"a").reset()
        assert eventually(lambda: server.tasks() <= tasks)
        assert wire.get(f"/api{path}").body == b""


def test_a_long_poll_is_answered_by_an_append(serve: Serve, path: str) -> None:
    server = serve()
    with server.connect() as wire, server.connect() as reader:
        wire.create(f"/api{path}")
        reader.ask("GET", f"/api{path}?offset=now&live=long-poll")
        assert eventually(lambda: server.waiting(path) == 1)
        wire.append(f"/api{path}", b"hello")
        assert reader.read().body == b"hello"
        assert reader.get("/api/healthz").status == 200


def test_after_the_interval_the_answer_ends_properly(serve: Serve, path: str) -> None:
    server = serve(server__sse_reconnect_interval_secs=0.1)
    with server.connect() as wire:
        wire.create(f"/api{path}", body=b"hello")
        assert len(wire.follow(f"/api{path}?offset=-1&live=sse").events()) == 2
        assert wire.get("/api/healthz").status == 200


def test_deleting_a_stream_ends_its_readers(serve: Serve, path: str) -> None:
    server = serve()
    with server.connect() as wire, server.connect() as reader, server.connect() as poller:
        wire.create(f"/api{path}")
        follower = reader.follow(f"/api{path}?offset=-1&live=sse")
        follower.control()
        poller.ask("GET", f"/api{path}?offset=now&live=long-poll")
        assert eventually(lambda: server.waiting(path) == 2)
        wire.request("DELETE", f"/api{path}")
        assert follower.event() is None
        assert poller.read().refusal == (404, "stream_not_found")


def test_silence_is_broken_by_a_comment(serve: Serve, path: str) -> None:
    server = serve(server__sse_keepalive_secs=0.05)
    with server.connect() as wire:
        wire.create(f"/api{path}")
        follower = wire.follow(f"/api{path}?offset=-1&live=sse")
        follower.control()
        assert follower.piece() == b": keep-alive\n\n"


@pytest.mark.timing
def test_a_stop_ends_event_streams_properly(serve: Serve, path: str) -> None:
    server = serve()
    with server.connect() as wire, server.connect() as reader:
        wire.create(f"/api{path}", body=b"hello")
        follower = reader.follow(f"/api{path}?offset=-1&live=sse")
        follower.control()
        began = time.monotonic()
        server.uvicorn.should_exit = True
        assert follower.event() is None
        assert time.monotonic() - began < 5
