"""A snapshot that can't be stored is refused, and nothing else: what was published before stays, and appends go on."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.server.resources.snapshots import PIECE_BYTES
from tests.crash.durability.conftest import Restart
from tests.kit.damage import flip
from tests.kit.faulty_disk import Faults, fill_disk
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.wire import Answer, Wire

PATH = "/v1/stream/s"
SNAPSHOT = PATH + "/__ds/snapshot"
ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)
# The sync of the file, and that of its folder.
SYNCS_BEFORE = (0, 1)


def publish(wire: Wire, offset: int, body: bytes) -> Answer:
    return wire.request("PUT", f"{SNAPSHOT}/{offset:016d}", body, content_type="text/plain")


def published(wire: Wire) -> bytes:
    """The bytes of the latest snapshot, as a client finds them."""
    found = wire.get(SNAPSHOT)
    assert found.status == 307, found
    return wire.get(f"{SNAPSHOT}/{found.headers['stream-snapshot-offset']}").body


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    """A connection, and a stream that holds `ab`, of which a snapshot covers `a`."""
    with server.connect() as wire:
        wire.create(PATH)
        assert [wire.append(PATH, body).status for body in (b"a", b"b")] == [204, 204]
        assert publish(wire, 1, b"old").status == 204
        yield wire


def assert_nothing_else_is_lost(wire: Wire) -> None:
    assert published(wire) == b"old"
    assert wire.append(PATH, b"c").next_offset == f"{3:016d}"
    assert wire.get(f"{PATH}?offset={1:016d}").body == b"bc"
    assert wire.get("/readyz").status == 200


def blobs_in(folder: Path) -> int:
    return sum(1 for _ in folder.rglob("*.blob"))


@pytest.mark.parametrize("size", [3, 100, 6_000_000])
def test_a_snapshot_without_room_is_refused_for_now(wire: Wire, blob_faults: Faults, tmp_path: Path, size: int) -> None:
    blob_faults.room_bytes = 2
    answer = publish(wire, 2, b"n" * size)
    assert answer.refusal == (503, "unavailable")
    assert int(answer.headers["retry-after"]) > 0
    assert_nothing_else_is_lost(wire)
    assert eventually(lambda: blobs_in(tmp_path) == 1)


def test_it_can_be_published_when_there_is_room_again(wire: Wire, blob_faults: Faults, restart: Restart) -> None:
    blob_faults.room_bytes = 2
    assert publish(wire, 2, b"new").status == 503
    blob_faults.room_bytes = None
    assert publish(wire, 2, b"new").status == 204
    with restart().connect() as later:
        assert published(later) == b"new"


@pytest.mark.parametrize("error", ERRORS, ids=errno.errorcode.__getitem__)
@pytest.mark.parametrize("syncs", SYNCS_BEFORE)
def test_a_snapshot_that_is_not_synced_is_refused_and_poisons_nothing(
    wire: Wire, blob_faults: Faults, tmp_path: Path, error: int, syncs: int
) -> None:
    blob_faults.sync_error, blob_faults.syncs_before_error = error, syncs
    assert publish(wire, 2, b"new").refusal == (503, "unavailable")
    assert blob_faults.refused_syncs == 1
    assert_nothing_else_is_lost(wire)
    assert eventually(lambda: blobs_in(tmp_path) == 1)


def test_after_a_failed_sync_the_snapshot_is_written_anew(wire: Wire, blob_faults: Faults, restart: Restart) -> None:
    blob_faults.sync_error = errno.EIO
    assert publish(wire, 2, b"new").status == 503
    blob_faults.sync_error = None
    assert publish(wire, 2, b"new").status == 204
    with restart().connect() as later:
        assert published(later) == b"new"
        assert later.append(PATH, b"c").status == 204


def test_a_snapshot_whose_change_finds_no_room_is_not_there(
    wire: Wire, faults: Faults, tmp_path: Path, restart: Restart
) -> None:
    fill_disk(wire, faults)
    assert publish(wire, 2, b"new").refusal == (503, "unavailable")
    faults.room_bytes = None
    assert_nothing_else_is_lost(wire)
    assert eventually(lambda: blobs_in(tmp_path) == 1)
    with restart().connect() as later:
        assert published(later) == b"old"


def test_a_snapshot_whose_change_is_not_synced_is_there_entirely_or_not_at_all(
    wire: Wire, faults: Faults, restart: Restart
) -> None:
    """Nobody knows whether the change is durable: neither blob may go."""
    faults.sync_error = errno.EIO
    assert publish(wire, 2, b"new").refusal == (503, "unavailable")
    assert published(wire) == b"old"
    with restart().connect() as later:
        found = published(later)
        assert found in {b"old", b"new"}
        assert later.request("HEAD", PATH).headers["stream-earliest-offset"] == f"{1 if found == b'old' else 2:016d}"


def test_retention_without_room_keeps_everything(wire: Wire, faults: Faults, restart: Restart) -> None:
    assert publish(wire, 2, b"all").status == 204
    wire.append(PATH, b"c")
    assert wire.request("PUT", f"{SNAPSHOT}/{3:016d}", b"x", stream_snapshot_history="keep").status == 204
    fill_disk(wire, faults)
    retain = f"{PATH}/__ds/retention/{3:016d}"
    assert wire.request("PUT", retain).refusal == (503, "unavailable")
    faults.room_bytes = None
    assert wire.get(f"{PATH}?offset={2:016d}").body == b"c"
    with restart().connect() as later:
        assert later.get(f"{PATH}?offset={2:016d}").body == b"c"
        assert later.request("PUT", retain).status == 204
        assert later.get(f"{PATH}?offset={2:016d}").status == 410


# Damage


def flip_in_blob(folder: Path, position: int) -> None:
    [path] = folder.rglob("*.blob")
    flip(path, position)


def test_a_flipped_bit_is_not_served_and_its_stream_is_damaged_from_then_on(
    wire: Wire, tmp_path: Path, restart: Restart
) -> None:
    assert eventually(lambda: blobs_in(tmp_path) == 1)
    flip_in_blob(tmp_path, 1)
    assert wire.get(f"{SNAPSHOT}/{1:016d}").refusal == (500, "stream_damaged")
    assert eventually(lambda: wire.get("/readyz").body == b"degraded: 1 damaged streams")
    with restart().connect() as later:
        assert later.get("/readyz").body == b"degraded: 1 damaged streams"
        answer = later.append(PATH, b"c")
        assert answer.refusal == (500, "stream_damaged")
        assert later.get(f"{PATH}?offset={1:016d}").body == b"b"
        assert later.request("DELETE", PATH).status == 204
        assert later.get("/readyz").body == b"ok"


def test_a_snapshot_that_is_gone_is_damage(wire: Wire, tmp_path: Path) -> None:
    assert eventually(lambda: blobs_in(tmp_path) == 1)
    next(tmp_path.rglob("*.blob")).unlink()
    assert wire.get(f"{SNAPSHOT}/{1:016d}").refusal == (500, "stream_damaged")
    assert wire.get("/readyz").body == b"degraded: 1 damaged streams"


def test_what_is_sent_before_the_damage_is_right_and_the_rest_is_not_sent(
    server: RunningServer, wire: Wire, tmp_path: Path
) -> None:
    body = bytes(range(256)) * 4096
    assert publish(wire, 2, body).status == 204
    assert eventually(lambda: blobs_in(tmp_path) == 1)
    flip_in_blob(tmp_path, 700_000)
    with server.connect() as reader:
        reader.ask("GET", f"{SNAPSHOT}/{2:016d}").read_head()
        assert reader.rest() == body[: 2 * PIECE_BYTES]
    assert eventually(lambda: wire.get("/readyz").body == b"degraded: 1 damaged streams")


def test_a_bootstrap_ends_before_a_damaged_snapshot(server: RunningServer, wire: Wire, tmp_path: Path) -> None:
    assert publish(wire, 2, b"the sum of it").status == 204
    assert eventually(lambda: blobs_in(tmp_path) == 1)
    flip_in_blob(tmp_path, 2)
    with server.connect() as reader:
        reader.ask("GET", f"{PATH}/__ds/bootstrap").read_head()
        assert b"sum" not in reader.rest()
    assert eventually(lambda: wire.get("/readyz").body == b"degraded: 1 damaged streams")
