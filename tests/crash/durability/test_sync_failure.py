"""After a failed sync nobody knows what the disk holds: nothing more is acknowledged, and nothing that was is lost."""

import errno

import pytest

from tests.crash.durability.conftest import Restart
from tests.kit.faulty_disk import Faults
from tests.kit.server_thread import RunningServer

PATH = "/v1/stream/s"
# Where space is set aside late, a full disk shows itself in the sync: that is a failed sync like any other.
ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


@pytest.fixture(params=ERRORS, ids=errno.errorcode.__getitem__)
def failed(request: pytest.FixtureRequest, server: RunningServer, faults: Faults) -> RunningServer:
    """A server that has acknowledged `a`, and whose disk then failed to sync `b`."""
    with server.connect() as wire:
        wire.create(PATH)
        assert wire.append(PATH, b"a").status == 204
        faults.sync_error = request.param
        assert wire.append(PATH, b"b").refusal == (503, "unavailable")
    return server


def test_later_writes_are_refused_even_when_the_disk_would_sync_again(failed: RunningServer, faults: Faults) -> None:
    faults.sync_error = None
    with failed.connect() as wire:
        assert wire.append(PATH, b"c").refusal == (503, "unavailable")
        assert wire.request("PUT", "/v1/stream/new", content_type="text/plain").refusal == (503, "unavailable")
        assert wire.request("DELETE", PATH).refusal == (503, "unavailable")


def test_no_descriptor_is_synced_again(failed: RunningServer, faults: Faults) -> None:
    """Where there was no room, the write is overwritten, and that is synced once."""
    with failed.connect() as wire:
        assert wire.append(PATH, b"c").status == 503
    assert faults.refused_syncs == (1 if faults.sync_error == errno.EIO else 2)


def test_reads_go_on_and_show_what_was_acknowledged(failed: RunningServer) -> None:
    with failed.connect() as wire:
        assert wire.get(PATH).body == b"a"
        assert wire.request("HEAD", PATH).next_offset == f"{1:016d}"


def test_the_server_says_that_it_is_not_ready(failed: RunningServer) -> None:
    with failed.connect() as wire:
        assert wire.get("/readyz").status == 503
        assert wire.get("/healthz").status == 200


def test_after_a_restart_nothing_acknowledged_is_lost(failed: RunningServer, restart: Restart) -> None:
    with restart().connect() as wire:
        body = wire.get(PATH).body
        assert body in {b"a", b"ab"}  # what was refused may be there: it was never said that it is not
        assert wire.append(PATH, b"c").status == 204
        assert wire.get(PATH).body == body + b"c"


def test_a_producer_that_was_refused_settles_it_by_repeating(
    server: RunningServer, faults: Faults, restart: Restart
) -> None:
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    with server.connect() as wire:
        wire.create(PATH)
        faults.sync_error = errno.EIO
        assert wire.append(PATH, b"b", **claim).status == 503
    with restart().connect() as wire:
        assert wire.append(PATH, b"b", **claim).status in {200, 204}
        assert wire.get(PATH).body == b"b"


def test_everything_that_waited_for_the_sync_is_refused(server: RunningServer, faults: Faults) -> None:
    with server.connect() as wire:
        wire.create(PATH)
        faults.sync_error = errno.EIO
        for _ in range(10):
            wire.ask("POST", PATH, b"b", content_type="text/plain")
        assert {wire.read().status for _ in range(10)} == {503}
        assert wire.get(PATH).body == b""
