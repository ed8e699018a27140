"""A whole server with a policy: by each transport, mounted in FastAPI, and as clients meet it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from everbrook import Client, Forbidden, Unauthorized
from everbrook.server.asgi import create_app
from everbrook.server.auth.signed_urls import UrlKeyFile, format_file, make_key, sign
from tests.kit.asgi_mount import Mounted
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer, configured
from tests.kit.servers import Connect, Start, StartEither

PATH = "/v1/stream/chats/1"
SCOPES = "read+create+append:/v1/stream/chats"
Server = RunningServer | Mounted


@pytest.fixture
def key(keys: Keyring) -> str:
    return keys.give(SCOPES)


@pytest.fixture
def reader(keys: Keyring) -> str:
    return keys.give("read:/v1/stream/chats")


# Keys that are asked for before the server are there when it starts.


@pytest.fixture
def guarded(start_either: StartEither, keys: Keyring, key: str, reader: str) -> Server:
    assert key != reader
    return start_either(auth__api_keys_path=str(keys.path), auth__public_read="/v1/stream/news")


@pytest.fixture
def mounted(keys: Keyring, key: str) -> Iterator[Mounted]:
    assert key
    streams = create_app(configured(auth__api_keys_path=str(keys.path)))
    app = FastAPI(lifespan=streams.lifespan)
    app.mount("/api/streams", streams)
    with Mounted(streams, app) as server:
        yield server


def test_each_transport_asks_for_credentials(guarded: Server, connect: Connect, key: str) -> None:
    wire = connect(guarded)
    assert wire.request("PUT", PATH).status == 401
    wire.create(PATH, authorization=key)
    assert wire.request("DELETE", PATH, authorization=key).refusal == (403, "forbidden")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_are_answered(guarded: Server, connect: Connect, path: str) -> None:
    assert connect(guarded).get(path, authorization="Bearer nonsense").status == 200


def test_a_browser_may_ask_beforehand(guarded: Server, connect: Connect) -> None:
    asked = {"origin": "https://app.example.com", "access_control_request_method": "POST"}
    answer = connect(guarded).request("OPTIONS", PATH, **asked)
    assert answer.status == 204
    assert "Authorization" in answer.headers["access-control-allow-headers"]


@pytest.mark.parametrize("path", ["/metrics", "/admin/backups", "/ui"])
def test_asking_beforehand_gives_nothing_away(guarded: Server, connect: Connect, path: str) -> None:
    answer = connect(guarded).request("OPTIONS", path)
    assert answer.status in {204, 404, 405}
    assert b"everbrook_" not in answer.body


@pytest.mark.parametrize("method, path", [("GET", "/metrics"), ("POST", "/admin/backups"), ("GET", "/admin/backups/x")])
def test_what_is_of_the_whole_server_is_for_who_administers_it(
    guarded: Server, connect: Connect, key: str, method: str, path: str
) -> None:
    assert connect(guarded).request(method, path).status == 401
    assert connect(guarded).request(method, path, authorization=key).refusal == (403, "forbidden")


def test_a_refusal_can_be_read_across_origins(guarded: Server, connect: Connect) -> None:
    answer = connect(guarded).get(PATH, origin="https://app.example.com")
    assert answer.status == 401
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["cache-control"] == "no-store"


def test_a_snapshot_that_comes_piece_by_piece_is_refused_before_it_has_come(guarded: Server, connect: Connect) -> None:
    head = f"PUT {PATH}/__ds/snapshot/0 HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n".encode()
    assert connect(guarded).send(head + b"x" * 1000).read().status == 401


def test_a_snapshot_is_for_those_who_may_append(guarded: Server, connect: Connect, key: str, reader: str) -> None:
    wire, url = connect(guarded), f"{PATH}/__ds/snapshot/{0:016d}"
    wire.create(PATH, authorization=key)
    assert wire.request("PUT", url, b"s", authorization=reader).status == 403
    assert wire.request("PUT", url, b"s", authorization=key, stream_snapshot_history="keep").status == 204
    answer = wire.get(url, authorization=reader)
    assert (answer.body, answer.headers["cache-control"]) == (b"s", "private, no-cache")


def test_live_answers_are_for_who_asked(guarded: Server, connect: Connect, key: str) -> None:
    wire = connect(guarded)
    wire.create(PATH, body=b"x", authorization=key)
    poll = wire.get(f"{PATH}?offset=-1&live=long-poll", authorization=key)
    assert poll.headers["cache-control"].startswith("private,")
    follower = connect(guarded).follow(f"{PATH}?offset=-1&live=sse", authorization=key)
    assert follower.head.headers["cache-control"] == "private, no-cache"
    assert "Authorization" in follower.head.headers["vary"]


@pytest.mark.parametrize("query", ["?offset=-1", "?offset=-1&live=long-poll"])
def test_what_a_proxy_asked_for_somebody_is_private_without_a_policy_too(
    start_either: StartEither, connect: Connect, query: str
) -> None:
    wire = connect(start_either())
    wire.create(PATH, body=b"x")
    assert wire.get(PATH + query, x_jwt_sub="alice").headers["cache-control"].startswith("private,")
    assert wire.get(PATH + query).headers["cache-control"].startswith("public,")


def test_mounted_it_asks_as_well(mounted: Mounted, connect: Connect, key: str) -> None:
    wire = connect(mounted)
    assert wire.request("PUT", f"/api/streams{PATH}").status == 401
    wire.create(f"/api/streams{PATH}", authorization=key)
    assert wire.get(f"/api/streams{PATH}", authorization=key).status == 200
    assert wire.get("/api/streams/v1/stream/other", authorization=key).refusal == (403, "forbidden")


@pytest.mark.parametrize(
    "target",
    [
        "/api/streams/../streams/v1/stream/other",
        "/api/streams/v1/stream/chats%2f..%2fother",
        "/api/%73treams/v1/stream/other",
        "/api/streams//v1/stream/other",
        "/api/streams/api/streams/v1/stream/other",
        "/api/streams/healthz/../v1/stream/other",
    ],
)
def test_mounted_no_spelling_leads_elsewhere(mounted: Mounted, connect: Connect, key: str, target: str) -> None:
    before = mounted.call(lambda: mounted.engine.listing.living(b"", b"", 100))
    assert connect(mounted).request("PUT", target, authorization=key).status >= 400
    assert mounted.call(lambda: mounted.engine.listing.living(b"", b"", 100)) == before


def test_mounted_a_fork_needs_to_read_its_source(mounted: Mounted, connect: Connect, key: str) -> None:
    for source in ("/api/streams/v1/stream/other", "/v1/stream/other"):
        forked = {"stream_forked_from": source, "authorization": key}
        assert connect(mounted).request("PUT", f"/api/streams{PATH}", **forked).refusal == (403, "forbidden")


def test_the_client_meets_the_same_refusals(guarded: Server, key: str) -> None:
    with Client(guarded.origin) as nobody, pytest.raises(Unauthorized):
        nobody.stream("chats/1").create(content_type="text/plain")
    with Client(guarded.origin, token=key.split(" ")[1]) as known:
        known.stream("chats/1").create(content_type="text/plain")
        with pytest.raises(Forbidden, match="it needs the scope delete:/v1/stream/chats/1"):
            known.stream("chats/1").delete()


@pytest.fixture
def signed(start_either: StartEither, keys: Keyring, key: str, tmp_path: Path) -> tuple[Server, str]:
    """A server, and the parameters that let whoever has them read one stream of it."""
    url_key = make_key(int(time.time()))
    path = tmp_path / "urls.json"
    path.write_bytes(format_file(UrlKeyFile((url_key,))))
    server = start_either(auth__api_keys_path=str(keys.path), auth__url_keys_path=str(path))
    with server.connect() as wire:
        for name in (PATH, f"{PATH}/below"):
            wire.create(name, body=b"signed", authorization=key)
    return server, sign(PATH.encode(), int(time.time()) + 60, url_key)


def test_a_signed_url_reads_its_stream_alone(signed: tuple[Server, str], connect: Connect) -> None:
    server, parameters = signed
    wire = connect(server)
    assert wire.get(f"{PATH}?{parameters}").body == b"signed"
    assert wire.get(f"{PATH}?{parameters}").headers["cache-control"].startswith("private,")
    for other in (f"{PATH}/below", "/v1/stream/chats", "/v1/stream/__registry__", "/v1/stream/__ds/streams"):
        assert wire.get(f"{other}?{parameters}").status == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_signed_url_only_reads(signed: tuple[Server, str], connect: Connect, method: str) -> None:
    server, parameters = signed
    answer = connect(server).request(method, f"{PATH}?{parameters}", b"x", content_type="text/plain")
    assert answer.status in {401, 403}


def test_a_signed_url_of_the_latest_snapshot_leads_to_it(
    signed: tuple[Server, str], connect: Connect, key: str
) -> None:
    server, parameters = signed
    wire, url = connect(server), f"{PATH}/__ds/snapshot"
    kept = {"authorization": key, "stream_snapshot_history": "keep"}
    assert wire.request("PUT", f"{url}/{len('signed'):016d}", b"state", **kept).status == 204
    led = wire.get(f"{url}?{parameters}&mine=1").headers["location"]
    assert wire.get(led.removeprefix(server.origin)).body == b"state"
    assert "mine" not in led
    assert "?" not in wire.get(url, authorization=key).headers["location"]


def test_guests_with_signed_urls_are_not_bounded_as_one(
    start: Start, connect: Connect, keys: Keyring, key: str, tmp_path: Path
) -> None:
    url_key = make_key(int(time.time()))
    (tmp_path / "urls.json").write_bytes(format_file(UrlKeyFile((url_key,))))
    bounds = {"limits__max_connections_per_identity": 2, "limits__requests_per_sec_per_identity": 2}
    server = start(auth__api_keys_path=str(keys.path), auth__url_keys_path=str(tmp_path / "urls.json"), **bounds)
    connect(server).create(PATH, authorization=key)
    target = f"{PATH}?{sign(PATH.encode(), int(time.time()) + 60, url_key)}"
    assert [connect(server).get(target).status for _ in range(10)] == [200] * 10
