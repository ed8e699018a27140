"""Backups over HTTP: who gets one, what a lease means, and what is refused."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from everbrook.protocol.errors import Forbidden
from everbrook.server.assembly import open_storage
from everbrook.server.auth.scopes import Identity
from everbrook.server.exchange import Peer, Request
from everbrook.server.resources.backups import MAX_BACKUPS, require_administrator
from everbrook.server.routes import BACKUPS
from everbrook.settings import StorageMode
from everbrook.storage import Asked, Piece, State, parse_pieces
from tests.kit.server_thread import RunningServer, configured, eventually
from tests.kit.wire import Answer, Wire

MODES = [StorageMode.ACID, StorageMode.FILE_FAST, StorageMode.FILE_DURABLE]
PLACE = BACKUPS.decode()
WHO = Identity("somebody", "key")


@pytest.fixture(params=MODES, ids=lambda mode: mode.value)
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    settings = configured(storage__mode=request.param, storage__data_dir=str(tmp_path))
    with RunningServer(settings, open_storage(settings)) as server:
        yield server


@pytest.fixture
def wire(served: RunningServer) -> Iterator[Wire]:
    with served.connect() as wire:
        wire.create("/v1/stream/a", body=b"hello")
        yield wire


def begin(wire: Wire, body: bytes | None = None) -> str:
    answer = wire.request("POST", PLACE, body)
    assert answer.status == 201, answer
    return answer.headers["location"]


def ask(wire: Wire, place: str, *asked: Asked) -> list[Piece]:
    answer = wire.request("POST", f"{place}/pieces", msgspec.json.encode(asked))
    assert answer.status == 200, answer
    return parse_pieces(answer.body)


def decoded(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return msgspec.json.decode(answer.body, type=list[str])


def pins(server: RunningServer) -> int:
    return server.call(lambda: len(server.application.backups.leases))


def test_a_backup_is_begun_listed_read_and_released(wire: Wire, served: RunningServer) -> None:
    place = begin(wire)
    assert "" in decoded(wire.get(place))
    (manifest, *_) = [file for file in msgspec.json.decode(wire.get(f"{place}/files").body) if "manif" in file["name"]]
    (piece,) = ask(wire, place, Asked(manifest["name"], 0, manifest["size"]))
    assert (piece.state, piece.digest) == (State.GIVEN, sha256(piece.data).digest())
    assert wire.request("DELETE", place).status == 204
    assert pins(served) == 0


def test_who_has_a_piece_already_is_told_so_and_gets_no_bytes(wire: Wire) -> None:
    place = begin(wire)
    (piece,) = ask(wire, place, Asked("manifest.json", 0, 1000))
    known = Asked("manifest.json", 0, 1000, piece.digest.hex())
    assert ask(wire, place, known) == [Piece(State.SAME, piece.digest)]


def test_a_file_that_is_not_of_the_store_is_gone(wire: Wire) -> None:
    (piece,) = ask(wire, begin(wire), Asked("../../etc/passwd", 0, 10))
    assert piece.state is State.GONE


def test_a_lease_ends_when_its_client_says_no_more(wire: Wire, served: RunningServer) -> None:
    place = begin(wire, b'{"lease_secs": 1}')
    assert pins(served) == 1
    assert eventually(lambda: pins(served) == 0)
    assert wire.get(place).refusal == (404, "backup_not_found")


def test_what_is_asked_for_renews_the_lease(wire: Wire, served: RunningServer) -> None:
    place = begin(wire, b'{"lease_secs": 1}')
    lease = served.call(lambda: served.application.backups.leases.find(place.rpartition("/")[2].encode()))
    before = lease.timer
    assert wire.get(place).status == 200
    assert lease.timer is not before


def test_a_server_stops_though_a_backup_is_under_way(wire: Wire, served: RunningServer) -> None:
    begin(wire)
    served.stop()
    assert not served.running


def test_so_many_backups_at_once_are_too_many(wire: Wire, served: RunningServer) -> None:
    for _ in range(MAX_BACKUPS):
        begin(wire)
    assert wire.request("POST", PLACE).refusal == (503, "unavailable")
    assert pins(served) == MAX_BACKUPS


@pytest.mark.parametrize("body", [b"[]", b"{", b'[["a",-1,1]]', b'[["a",0,99999999]]', b'[["a"]]', b'[["a",0,1]]x'])
def test_pieces_that_make_no_sense_are_refused(wire: Wire, body: bytes) -> None:
    assert wire.request("POST", f"{begin(wire)}/pieces", body).status == 400


@pytest.mark.parametrize("body", [b"{", b'{"lease_secs": 0}', b'{"lease_secs": 9999}', b'{"other": 1}'])
def test_a_lease_that_makes_no_sense_is_refused(wire: Wire, body: bytes) -> None:
    assert wire.request("POST", PLACE, body).refusal == (400, "bad_request")


def test_methods_and_parts_that_there_are_not_are_refused(wire: Wire) -> None:
    place = begin(wire)
    assert wire.get(PLACE).status == 405
    assert wire.request("PUT", place, b"").headers["allow"] == "GET, DELETE"
    assert wire.get(f"{place}/pieces").status == 405
    assert wire.get(f"{place}/other").status == 404


def test_memory_has_no_backup_but_an_export(server: RunningServer) -> None:
    with server.connect() as wire:
        answer = wire.request("POST", PLACE)
    assert answer.refusal == (409, "nothing_to_back_up")
    assert "everbrook export" in str(answer.problem["detail"])


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "x_real_ip", "via", "origin"])
def test_what_came_through_a_proxy_or_a_browser_gets_none(wire: Wire, header: str) -> None:
    answer = wire.request("POST", PLACE, **{header: "http://example.com"})
    assert answer.refusal == (403, "forbidden")


@pytest.mark.parametrize("address", ["10.0.0.7", "2001:db8::1", "", "unix", "::ffff:10.0.0.7"])
def test_who_is_elsewhere_and_not_known_gets_none(address: str) -> None:
    with pytest.raises(Forbidden):
        require_administrator(Request(b"POST", BACKUPS, b"", {b"host": b"localhost"}, b"", peer=Peer(address)))


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", [b"localhost:4437", b"127.0.0.1", b"[::1]:4437"])
def test_a_program_on_this_machine_is_admitted(address: str, host: bytes) -> None:
    require_administrator(Request(b"POST", BACKUPS, b"", {b"host": host}, b"", peer=Peer(address)))


@pytest.mark.parametrize(
    "headers",
    [
        {b"host": b"streams.example.com"},
        {b"host": b"localhost.example.com"},
        {b"host": b"[::1].example.com"},
        {b"host": b"a@127.0.0.1"},
        {b"host": b"a.localhost"},
        {b"host": b"[::1"},
        {b"host": b"10.0.0.7:4437"},
        {},
        {b"host": b"127.0.0.1:4437", b"connection": b"close"},
    ],
    ids=str,
)
def test_a_proxy_that_says_nothing_of_itself_gets_none(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Forbidden):
        require_administrator(Request(b"POST", BACKUPS, b"", headers, b"", peer=Peer("127.0.0.1")))


def test_who_is_known_has_passed_the_gates() -> None:
    request = Request(b"POST", BACKUPS, b"", {b"via": b"x"}, b"", peer=Peer("10.0.0.7"), identity=WHO)
    require_administrator(request)
