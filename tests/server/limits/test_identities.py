"""Limits of identities: wherever one comes from, it is one; and nobody pays for another."""

import pytest

from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Answer, Wire

BEHIND_PROXY = {"auth__trusted_proxies": "127.0.0.0/8", "auth__default_scopes": "admin:/"}
FOLLOWING = "?offset=-1&live=sse"


def get(wire: Wire, target: str, subject: str) -> Answer:
    return wire.get(target, x_jwt_sub=subject)


def test_an_identity_that_asks_too_often_is_told_how_long_to_wait(
    start_either: StartEither, connect: Connect, path: str
) -> None:
    server = start_either(**BEHIND_PROXY, limits__requests_per_sec_per_identity=1, limits__burst_secs=2.0)
    statuses = [get(connect(server), path, "alice").status for _ in range(2)]
    refused = get(connect(server), path, "alice")
    assert statuses == [404, 404]
    assert refused.refusal == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "1"
    assert get(connect(server), path, "bob").status == 404


def test_an_identity_that_appends_too_much_is_told_how_long_to_wait(start: Start, connect: Connect, path: str) -> None:
    server = start(**BEHIND_PROXY, limits__append_bytes_per_sec_per_identity=100, limits__burst_secs=1.0)
    wire = connect(server)
    assert wire.request("PUT", path, content_type="text/plain", x_jwt_sub="alice").status == 201
    assert wire.append(path, b"a" * 500, x_jwt_sub="alice").status == 204
    assert wire.append(path, b"b", x_jwt_sub="alice").refusal == (429, "too_many_requests")
    assert wire.append(path, b"c", x_jwt_sub="bob").status == 204


def test_who_proves_nothing_has_no_identity_to_be_bounded(start: Start, connect: Connect, path: str) -> None:
    server = start(
        **BEHIND_PROXY, auth__public_read="/", limits__requests_per_sec_per_identity=1, limits__burst_secs=1.0
    )
    assert [connect(server).get(path).status for _ in range(5)] == [404] * 5


@pytest.fixture
def alice(keys: Keyring) -> str:
    return keys.give("admin:/")


@pytest.fixture
def bob(keys: Keyring) -> str:
    return keys.give("admin:/")


@pytest.fixture
def crowded(start: Start, keys: Keyring, alice: str, bob: str) -> RunningServer:
    assert alice != bob
    return start(auth__api_keys_path=str(keys.path), limits__max_connections_per_identity=2)


def test_one_identity_has_as_many_connections_as_it_may(
    crowded: RunningServer, connect: Connect, path: str, alice: str, bob: str
) -> None:
    first, second, third = (connect(crowded) for _ in range(3))
    assert [wire.get(path, authorization=alice).status for wire in (first, second, first)] == [404] * 3
    assert third.get(path, authorization=alice).refusal == (429, "too_many_requests")
    assert third.get(path, authorization=bob).status == 404


def test_a_connection_that_ends_makes_room_for_another_of_its_identity(
    crowded: RunningServer, connect: Connect, path: str, alice: str
) -> None:
    first, second = connect(crowded), connect(crowded)
    assert [wire.get(path, authorization=alice).status for wire in (first, second)] == [404, 404]
    first.reset()
    assert eventually(lambda: connect(crowded).get(path, authorization=alice).status == 404)


def test_a_connection_counts_for_the_identity_that_used_it_last(
    crowded: RunningServer, connect: Connect, path: str, alice: str, bob: str
) -> None:
    wires = [connect(crowded) for _ in range(4)]
    for key in (alice, bob):
        assert [wire.get(path, authorization=key).status for wire in wires[:2]] == [404, 404]
    assert [wire.get(path, authorization=alice).status for wire in wires[2:]] == [404, 404]
    assert wires[2].get(path, authorization=bob).refusal == (429, "too_many_requests")


def test_the_connections_of_a_trusted_proxy_count_for_nobody(start: Start, connect: Connect, path: str) -> None:
    server = start(**BEHIND_PROXY, limits__max_connections_per_identity=2)
    assert [get(connect(server), path, "alice").status for _ in range(5)] == [404] * 5


def test_one_identity_has_as_many_live_reads_as_it_may(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either(**BEHIND_PROXY, limits__max_readers_per_identity=1)
    assert connect(server).request("PUT", path, content_type="text/plain", x_jwt_sub="alice").status == 201
    follower = connect(server)
    assert follows(follower, path, "alice")
    assert get(connect(server), f"{path}?offset=now&live=long-poll", "alice").refusal == (429, "too_many_requests")
    assert follows(connect(server), path, "bob")
    follower.close()
    assert eventually(lambda: follows(connect(server), path, "alice"))


def follows(wire: Wire, path: str, subject: str) -> bool:
    wire.ask("GET", path + FOLLOWING, x_jwt_sub=subject)
    return wire.read_head().status == 200
