"""Bodies of strangers: who may not send one is told so before it is taken."""

import pytest

from tests.kit.asgi_mount import Mounted
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither, start_either

__all__ = ["start_either"]

PATH = "/v1/stream/chats/1"
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\n"
LARGE = 50_000_000
ANNOUNCED = {
    "length": f"Content-Length: {LARGE}\r\n\r\n",
    "chunks": f"Transfer-Encoding: chunked\r\n\r\n{1000:x}\r\n{'x' * 1000}\r\n",
    "expected": "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n",
}
Server = RunningServer | Mounted


@pytest.fixture
def key(keys: Keyring) -> str:
    return keys.give("read+append+create:/v1/stream/chats")


@pytest.fixture
def guarded(start_either: StartEither, keys: Keyring, key: str) -> Server:
    assert key
    return start_either(auth__api_keys_path=str(keys.path))


@pytest.mark.parametrize("announced", ANNOUNCED)
def test_no_body_is_taken_of_a_stranger(guarded: Server, connect: Connect, announced: str) -> None:
    answer = connect(guarded).send((HEAD + ANNOUNCED[announced]).encode()).read()
    assert answer.refusal == (401, "UNAUTHORIZED")


@pytest.mark.parametrize("announced", ANNOUNCED)
def test_nor_of_somebody_who_may_not_send_it(guarded: Server, connect: Connect, keys: Keyring, announced: str) -> None:
    head = f"{HEAD.replace('chats', 'other')}Authorization: {keys.give('read:/v1/stream/other')}\r\n"
    assert eventually(
        lambda: connect(guarded).send((head + ANNOUNCED[announced]).encode()).read().refusal == (403, "forbidden")
    )


OPEN = ["POST /healthz", "GET /readyz", "PUT /ui/", "OPTIONS /v1/stream/chats/1", "GET /v1/stream/public/1"]


@pytest.mark.parametrize("route", OPEN)
@pytest.mark.parametrize("announced", ["length", "chunks"])
def test_no_body_is_taken_of_a_stranger_on_a_route_that_asks_nobody(
    start_either: StartEither, connect: Connect, keys: Keyring, key: str, route: str, announced: str
) -> None:
    assert key
    guarded = start_either(auth__api_keys_path=str(keys.path), auth__public_read="/v1/stream/public")
    head = f"{route} HTTP/1.1\r\nHost: h\r\n"
    answer = connect(guarded).send((head + ANNOUNCED[announced]).encode()).read()
    assert answer.refusal == (413, "payload_too_large")


def test_a_little_of_a_stranger_is_read_on_an_open_route(guarded: Server, connect: Connect) -> None:
    assert connect(guarded).request("GET", "/healthz", b"x" * 1000).status == 200


def test_who_may_sends_as_much_as_ever(guarded: Server, connect: Connect, key: str) -> None:
    wire = connect(guarded)
    wire.create(PATH, authorization=key)
    for _ in range(2):
        wire.append(PATH, b"x" * 200_000, authorization=key)
    assert len(wire.get(PATH, authorization=key).body) == 400_000


def test_what_is_refused_whole_leaves_the_connection_open(guarded: Server, connect: Connect, key: str) -> None:
    wire = connect(guarded)
    small = wire.request("POST", PATH, b"x" * 1000, content_type="text/plain")
    assert small.status == 401
    assert wire.get("/healthz").status == 200


def test_a_large_body_is_one_request(start: Start, connect: Connect, keys: Keyring, key: str) -> None:
    bounds = {"limits__requests_per_sec_per_identity": 1, "limits__burst_secs": 3.0}
    wire = connect(start(auth__api_keys_path=str(keys.path), **bounds))
    wire.create(PATH, authorization=key)
    statuses = [
        wire.request("POST", PATH, b"x" * 50_000, content_type="text/plain", authorization=key).status for _ in range(3)
    ]
    assert statuses == [204, 204, 429]


def test_the_bytes_of_a_large_body_count(start: Start, connect: Connect, keys: Keyring, key: str) -> None:
    bounds = {"limits__append_bytes_per_sec_per_identity": 1000, "limits__burst_secs": 1.0}
    wire = connect(start(auth__api_keys_path=str(keys.path), **bounds))
    wire.create(PATH, authorization=key)
    sent = {"content_type": "text/plain", "authorization": key}
    assert [wire.request("POST", PATH, b"x" * 50_000, **sent).status for _ in range(2)] == [204, 429]
