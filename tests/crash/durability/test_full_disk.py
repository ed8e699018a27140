"""A full disk refuses what does not fit, loses nothing, and works again when there is room."""

import pytest

from tests.crash.durability.conftest import Restart
from tests.kit.faulty_disk import Faults, fill_disk
from tests.kit.server_thread import RunningServer
from tests.kit.wire import Wire

PATH = "/v1/stream/s"
# What is left of an allocated file when the smallest append does not fit can't hold these.
SMALL, LARGE = b"b", b"b" * 100_000


@pytest.fixture
def wire(server: RunningServer, faults: Faults, servers: object) -> Wire:
    """A connection, a stream that holds `a`, and no room for the next record."""
    wire = server.connect()
    wire.create(PATH)
    assert wire.append(PATH, b"a").status == 204
    fill_disk(wire, faults)
    return wire


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_an_append_without_room_is_refused_for_now(wire: Wire, body: bytes) -> None:
    with wire:
        answer = wire.append(PATH, body)
        assert answer.refusal == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0


def test_reads_go_on(wire: Wire) -> None:
    with wire:
        assert wire.append(PATH, b"b").status == 503
        assert wire.get(PATH).body == b"a"


def test_it_works_again_without_a_restart_when_there_is_room(wire: Wire, faults: Faults) -> None:
    with wire:
        assert [wire.append(PATH, b"b").status for _ in range(3)] == [503] * 3
        faults.room_bytes = None
        assert wire.append(PATH, b"c").next_offset == f"{2:016d}"
        assert wire.get(PATH).body == b"ac"


def test_what_was_refused_for_want_of_room_is_not_there_after_a_restart(
    wire: Wire, faults: Faults, restart: Restart
) -> None:
    with wire:
        assert wire.append(PATH, b"b").status == 503
        faults.room_bytes = None
        assert wire.append(PATH, b"c").status == 204
    with restart().connect() as later:
        assert later.get(PATH).body == b"ac"


def test_a_restart_on_a_full_disk_loses_nothing(wire: Wire, restart: Restart) -> None:
    with wire:
        assert wire.append(PATH, b"b").status == 503
    with restart().connect() as later:
        assert later.get(PATH).body == b"a"
        assert later.append(PATH, b"c").status == 204


def test_a_stream_that_found_no_room_was_never_created(wire: Wire, faults: Faults) -> None:
    with wire:
        new = "/v1/stream/new"
        assert wire.request("PUT", new, content_type="text/plain").status == 503
        assert wire.get(new).status == 404
        faults.room_bytes = None
        assert wire.request("PUT", new, content_type="text/plain").status == 201


def test_a_producer_refused_for_want_of_room_may_repeat_itself(wire: Wire, faults: Faults) -> None:
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    with wire:
        assert wire.append(PATH, b"b", **claim).status == 503
        faults.room_bytes = None
        assert wire.append(PATH, b"b", **claim).status == 200
        assert wire.append(PATH, b"b", **claim).status == 204
        assert wire.get(PATH).body == b"ab"


@pytest.mark.parametrize("torn_bytes", [0, 20])
def test_a_write_that_is_torn_for_want_of_room_is_refused_and_undone(
    server: RunningServer, faults: Faults, restart: Restart, torn_bytes: int
) -> None:
    """A disk that copies on write may be full although the room was allocated."""
    with server.connect() as wire:
        wire.create(PATH)
        faults.torn_bytes = torn_bytes
        assert wire.append(PATH, b"b").refusal == (503, "unavailable")
        assert wire.append(PATH, b"c").status == 204
    with restart().connect() as later:
        assert later.get(PATH).body == b"c"


def test_a_full_disk_leaves_the_server_ready_for_reads(wire: Wire) -> None:
    with wire:
        assert wire.append(PATH, b"b").status == 503
        assert wire.get("/readyz").status == 200
