"""Early decision, late answer: nothing is told, and nothing shown, before it is durable."""

import pytest

from tests.kit.server_thread import GatedStorage, RunningServer
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire


@pytest.fixture
def storage() -> GatedStorage:
    storage = GatedStorage()
    storage.gate.set()
    return storage


@pytest.fixture
def gated(start: Start, storage: GatedStorage) -> RunningServer:
    return start(storage)


@pytest.fixture
def other(gated: RunningServer, connect: Connect) -> Wire:
    return connect(gated)


@pytest.fixture
def wire(gated: RunningServer, storage: GatedStorage, connect: Connect, path: str) -> Wire:
    """A connection, a stream that is durable, and a disk that waits."""
    wire = connect(gated)
    wire.create(path, body=b"a")
    storage.gate.clear()
    return wire


def test_an_append_is_answered_when_it_is_durable(wire: Wire, path: str, storage: GatedStorage) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain")
    assert wire.nothing_for(0.05)
    storage.gate.set()
    assert wire.read().status == 204


def test_others_do_not_see_an_append_before_it_is_durable(
    wire: Wire, path: str, storage: GatedStorage, other: Wire
) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain")
    assert wire.nothing_for(0.02)
    assert other.get(path).body == b"a"
    assert other.request("HEAD", path).next_offset == f"{1:016d}"
    storage.gate.set()
    assert wire.read().status == 204
    assert other.get(path).body == b"ab"


def test_a_refusal_waits_for_what_it_rests_on(wire: Wire, path: str, storage: GatedStorage, other: Wire) -> None:
    """A crash could take the close back; then the 409 would have been wrong."""
    wire.ask("POST", path, stream_closed="true")
    assert wire.nothing_for(0.02)
    other.ask("POST", path, b"b", content_type="text/plain")
    assert other.nothing_for(0.02)
    storage.gate.set()
    assert (wire.read().status, other.read().status) == (204, 409)


def test_a_read_behind_an_append_sees_it(wire: Wire, path: str, storage: GatedStorage) -> None:
    """RFC 9112 §9.3.2: only safe requests in a row may be handled together."""
    wire.ask("POST", path, b"b", content_type="text/plain").ask("GET", path).ask("HEAD", path)
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert wire.read().status == 204
    assert wire.read().body == b"ab"
    assert wire.read(head_only=True).next_offset == f"{2:016d}"


def test_a_long_poll_behind_an_append_is_answered_by_it(wire: Wire, path: str, storage: GatedStorage) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain").ask("GET", f"{path}?offset={1:016d}&live=long-poll")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert [wire.read().status, wire.read().body] == [204, b"b"]


def test_an_event_stream_behind_an_append_begins_after_its_answer(wire: Wire, path: str, storage: GatedStorage) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain").ask("GET", f"{path}?offset=-1&live=sse")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert wire.read().status == 204
    assert b"data:b\n" in wire.read_until(b'"upToDate":true')


def test_appends_that_wait_are_answered_in_order(wire: Wire, path: str, storage: GatedStorage) -> None:
    for _ in range(5):
        wire.ask("POST", path, b"b", content_type="text/plain")
    wire.ask("GET", "/healthz")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert [int(wire.read().next_offset) for _ in range(5)] == [2, 3, 4, 5, 6]
    assert wire.read().body == b"ok"


def test_a_client_that_stops_sending_still_learns_of_its_append(wire: Wire, path: str, storage: GatedStorage) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain").stop_sending()
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert wire.read().status == 204
    assert wire.ended()


def test_a_client_that_goes_away_takes_nothing_back(wire: Wire, path: str, storage: GatedStorage, other: Wire) -> None:
    wire.ask("POST", path, b"b", content_type="text/plain")
    assert wire.nothing_for(0.02)
    wire.reset()
    storage.gate.set()
    poll = other.get(f"{path}?offset={1:016d}&live=long-poll")
    assert poll.body == b"b"


@pytest.mark.usefixtures("faults")
def test_a_failed_commit_is_a_503_for_all_that_rests_on_it(
    wire: Wire, path: str, storage: GatedStorage, other: Wire
) -> None:
    storage.failure = OSError("no space left")
    wire.ask("POST", path, b"b", content_type="text/plain").ask("POST", path, b"c", content_type="text/plain")
    assert wire.nothing_for(0.02)
    storage.gate.set()
    assert [wire.read().refusal, wire.read().refusal] == [(503, "unavailable")] * 2
    assert wire.append(path, b"d").refusal == (503, "unavailable")
    assert other.get(path).body == b"a"
