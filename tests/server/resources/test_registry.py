"""The first read of the registry, in each mode: it waits until everything is told of."""

import threading
from collections.abc import Iterator

import msgspec
import pytest

from everbrook.protocol import REGISTRY
from tests.kit.server_thread import GatedStorage, RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Follower, Wire

PATH = REGISTRY.decode()
STREAMS = 700
"""More than are told of in one turn."""


@pytest.fixture
def wire(start_either: StartEither) -> Iterator[Wire]:
    with start_either(server__long_poll_timeout_secs=0.1).connect() as wire:
        for number in range(STREAMS):
            wire.create(f"/v1/stream/s/{number}")
        yield wire


def told(body: bytes) -> int:
    return len(msgspec.json.decode(body))


def test_the_first_read_is_complete(wire: Wire) -> None:
    answer = wire.get(PATH)
    assert (told(answer.body), answer.headers["stream-up-to-date"]) == (STREAMS, "true")
    assert wire.get(PATH).body == answer.body


def test_the_first_look_tells_the_tail_of_the_complete_one(wire: Wire) -> None:
    assert wire.request("HEAD", PATH).next_offset == wire.get(PATH).next_offset


def test_a_first_long_poll_is_complete(wire: Wire) -> None:
    assert told(wire.get(f"{PATH}?offset=-1&live=long-poll").body) == STREAMS


def test_a_first_long_poll_from_now_on_finds_nothing_new(wire: Wire) -> None:
    assert wire.get(f"{PATH}?offset=now&live=long-poll").status == 204


def test_a_first_event_stream_begins_with_the_complete_one_and_follows(wire: Wire) -> None:
    follower = wire.follow(f"{PATH}?offset=-1&live=sse")
    assert told(follower.data()) == STREAMS


def test_what_a_first_read_asks_wrongly_is_refused(wire: Wire) -> None:
    assert wire.get(f"{PATH}?offset={3:016d}").refusal == (400, "invalid_offset")
    assert wire.get(f"{PATH}?offset=nonsense").refusal == (400, "invalid_offset")
    assert wire.get("/healthz").status == 200


@pytest.fixture
def gated(start: Start, connect: Connect) -> RunningServer:
    """A server with a stream, on a disk that stands still."""
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage)
    connect(server).create("/v1/stream/a")
    storage.gate.clear()
    return server


def open_gate(server: RunningServer) -> None:
    assert isinstance(server.storage, GatedStorage)
    server.storage.gate.set()


def test_a_reader_that_leaves_before_it_is_complete_is_in_nobodys_way(gated: RunningServer, connect: Connect) -> None:
    reader = connect(gated).ask("GET", f"{PATH}?offset=-1&live=sse")
    assert eventually(lambda: gated.answering)
    reader.close()
    assert eventually(lambda: not gated.answering)
    open_gate(gated)
    assert told(connect(gated).get(PATH).body) == 1
    assert gated.waiting(PATH) == 0


def test_an_event_stream_that_begins_as_the_server_stops_ends_properly(gated: RunningServer, connect: Connect) -> None:
    idle, reader = connect(gated), connect(gated).ask("GET", f"{PATH}?offset=-1&live=sse")
    assert idle.get("/healthz").status == 200
    assert eventually(lambda: gated.answering)
    stopping = threading.Thread(target=gated.stop)
    stopping.start()
    assert idle.ended()
    open_gate(gated)
    events = Follower(reader).events()
    assert [event.type for event in events] == [b"data", b"control"]
    stopping.join()
