"""The paths under which streams live: a setting, and an alias."""

import pytest

from everbrook.protocol.errors import InvalidPath
from everbrook.server.exchange import Request
from everbrook.server.location import StreamRoots
from everbrook.settings import ServerSettings
from tests.kit.keyring import Keyring
from tests.kit.server_thread import RunningServer
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire


def aliased(path: str, root: str = "/v1/streams/") -> str:
    return path.replace("/v1/stream/", root)


def test_streams_are_found_under_the_alias(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either())
    wire.create(aliased(path), body=b"one")
    wire.append(path, b"two")
    assert (wire.get(path).body, wire.get(aliased(path)).body) == (b"onetwo", b"onetwo")


def test_the_parts_of_streams_are_found_under_the_alias(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either())
    wire.create(path, body=b"one")
    published = wire.request(
        "PUT", f"{aliased(path)}/__ds/snapshot/0000000000000003", b"state", content_type="text/plain"
    )
    assert published.status == 204
    assert wire.get(f"{path}/__ds/snapshot/0000000000000003").body == b"state"
    assert wire.get("/v1/streams/__ds/jwks.json").status == 200


def test_a_source_may_be_named_by_the_alias(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either())
    wire.create(path, body=b"one")
    wire.create(f"{path}-fork", stream_forked_from=aliased(path))
    assert wire.get(f"{path}-fork").body == b"one"


def test_location_names_the_root_of_the_setting(wire: Wire, server: RunningServer, path: str) -> None:
    assert wire.create(aliased(path)).headers["location"] == f"{server.origin}{path}"


def test_the_alias_can_be_switched_off(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__stream_root_alias=""))
    assert wire.request("PUT", aliased(path)).refusal == (404, "not_found")


@pytest.mark.parametrize("root", ["/streams/", "/a/b/c/", "/"])
def test_the_root_is_a_setting(start_either: StartEither, connect: Connect, path: str, root: str) -> None:
    server = start_either(server__stream_root=root)
    wire = connect(server)
    created = wire.create(aliased(path, root), body=b"one")
    assert created.headers["location"] == f"{server.origin}{aliased(path, root)}"
    assert wire.get(created.headers["location"].removeprefix(server.origin)).body == b"one"
    assert wire.get(path).body == b"one"


@pytest.mark.parametrize("own", ["/healthz", "/readyz", "/metrics", "/ui/", "/ds", "/admin/backups"])
def test_what_the_server_has_itself_is_no_stream_under_the_root_of_everything(
    start: Start, connect: Connect, own: str
) -> None:
    plain, rooted = (
        connect(start(metrics__enabled=True)),
        connect(start(metrics__enabled=True, server__stream_root="/")),
    )
    assert rooted.get(own).status == plain.get(own).status
    assert "stream-next-offset" not in rooted.get(own).headers


def test_webhooks_are_told_the_root_of_the_setting(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either(
        server__stream_root="/", server__public_url="https://a.example", webhooks__allow_loopback_http=True
    )
    body = b'{"type":"webhook","pattern":"a/*","webhook":{"url":"http://127.0.0.1:1/"}}'
    answer = connect(server).request("PUT", "/__ds/subscriptions/one", body, content_type="application/json")
    assert answer.status == 201
    assert b'"https://a.example/__ds/jwks.json"' in answer.body


@pytest.mark.parametrize("root", ["/v1/streams/", "/"])
def test_no_root_leads_past_the_policy(
    start_either: StartEither, connect: Connect, keys: Keyring, path: str, root: str
) -> None:
    """A key for one stream opens no other, by whatever path, and forks none."""
    key = keys.give(f"read+create:{path}")
    wire = connect(start_either(auth__api_keys_path=str(keys.path), server__stream_root=root))
    assert wire.get(aliased(f"{path}-other", root), authorization=key).status == 403
    assert wire.get(aliased(f"{path}-other", root)).status == 401
    forked = aliased(f"{path}-other", root)
    answer = wire.request("PUT", aliased(path, root), stream_forked_from=forked, authorization=key)
    assert answer.status == 403
    assert wire.request("PUT", aliased(path, root), authorization=key).status == 201


def _put(headers: dict[bytes, bytes], root: bytes = b"", method: bytes = b"PUT") -> Request:
    return Request(method, b"/v1/stream/a", b"", headers, b"", root=root)


ROOTS = StreamRoots(ServerSettings(stream_root="/s/"))


@pytest.mark.parametrize("source", [b"/v1/stream/%73ource", b"/v1/streams/source", b"/s/source"])
def test_a_fork_names_the_stream_that_it_reads(source: bytes) -> None:
    assert ROOTS.source_of(_put({b"stream-forked-from": source})) == b"/v1/stream/source"
    mounted = _put({b"stream-forked-from": b"/mount" + source}, root=b"/mount")
    assert ROOTS.source_of(mounted) == b"/v1/stream/source"


def test_a_fork_in_a_bucket_names_a_source_there() -> None:
    mounted = _put({b"stream-forked-from": b"/streams/ds/acme/s"}, root=b"/streams")
    assert ROOTS.source_of(mounted) == b"/ds/acme/s"


def test_what_forks_nothing_reads_nothing() -> None:
    assert ROOTS.source_of(_put({})) is None
    assert ROOTS.source_of(_put({b"stream-forked-from": b"/v1/stream/s"}, method=b"POST")) is None


@pytest.mark.parametrize("source", [b"/v1/stream/a/../b", b"/v1/streams/a/../b", b"/t/source", b"source"])
def test_a_source_that_names_nothing_is_refused(source: bytes) -> None:
    with pytest.raises(InvalidPath):
        ROOTS.source_of(_put({b"stream-forked-from": source}))


def test_of_two_roots_that_fit_the_longer_one_is_meant() -> None:
    roots = StreamRoots(ServerSettings(stream_root="/", stream_root_alias="/a/b/"))
    assert roots.inward(b"/a/b/c") == b"/v1/stream/c"
    assert roots.inward(b"/a/c") == b"/v1/stream/a/c"
