"""The application mounted in FastAPI, in Starlette, below a root path, and on its own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from everbrook.server.asgi import AsgiApplication, create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import configured
from tests.kit.wire import Wire, chunked

Outer = Callable[[AsgiApplication], object]


def in_fastapi(streams: AsgiApplication) -> object:
    app = FastAPI(lifespan=streams.lifespan)
    app.get("/hello")(lambda: "hello")
    app.mount("/api/streams", streams)
    return app


def in_starlette(streams: AsgiApplication) -> object:
    return Starlette(routes=[Mount("/api/streams", streams)], lifespan=streams.lifespan)


def nested(streams: AsgiApplication) -> object:
    inner = Starlette(routes=[Mount("/streams", streams)])
    return Starlette(routes=[Mount("/api", inner)], lifespan=streams.lifespan)


def without_lifespan(streams: AsgiApplication) -> object:
    return Starlette(routes=[Mount("/api/streams", streams)])


OUTERS: list[Outer] = [in_fastapi, in_starlette, nested, without_lifespan]


@pytest.fixture(params=OUTERS, ids=lambda outer: outer.__name__, scope="module")
def mounted(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    streams = create_app(configured(server__long_poll_timeout_secs=0.05, limits__max_append_bytes=100_000))
    with Mounted(streams, request.param(streams)) as server:
        yield server


@pytest.fixture
def wire(mounted: Mounted) -> Iterator[Wire]:
    with mounted.connect() as wire:
        yield wire


@pytest.fixture
def url(path: str) -> str:
    return f"/api/streams{path}"


def test_location_has_the_mount_path(mounted: Mounted, wire: Wire, url: str) -> None:
    assert wire.create(url).headers["location"] == f"{mounted.origin}{url}"


def test_what_is_appended_is_read(wire: Wire, url: str) -> None:
    wire.create(url, body=b"a")
    assert wire.append(url, b"b").next_offset == f"{2:016d}"
    assert wire.get(url).body == b"ab"
    assert wire.request("HEAD", url).next_offset == f"{2:016d}"
    assert wire.request("DELETE", url).status == 204
    assert wire.get(url).refusal == (404, "stream_not_found")


def test_a_source_is_named_by_its_mounted_path(wire: Wire, url: str) -> None:
    wire.create(url, body=b"hello")
    fork = wire.create(f"{url}/fork", stream_forked_from=url)
    assert fork.headers["location"].endswith(f"{url}/fork")
    assert wire.get(f"{url}/fork").body == b"hello"


def test_a_long_poll_waits_and_times_out(wire: Wire, url: str) -> None:
    wire.create(url)
    assert wire.get(f"{url}?offset=now&live=long-poll").status == 204


def test_an_event_stream_follows(mounted: Mounted, wire: Wire, url: str) -> None:
    wire.create(url, body=b"one")
    with mounted.connect() as reader:
        follower = reader.follow(f"{url}?offset=-1&live=sse")
        assert follower.head.headers["content-type"] == "text/event-stream"
        assert follower.data() == b"one"
        wire.append(url, b"two")
        assert follower.data() == b"two"
        wire.request("POST", url, stream_closed="true")
        assert follower.control()["upToDate"]
        assert follower.control()["streamClosed"]
        assert follower.event() is None


def test_a_chunked_body_is_one_append(wire: Wire, url: str) -> None:
    wire.create(url)
    wire.ask("POST", url, content_type="text/plain", transfer_encoding="chunked").send(chunked(b"he", b"llo"))
    assert wire.read().next_offset == f"{5:016d}"


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_body_that_is_too_large_is_a_413(mounted: Mounted, wire: Wire, url: str, framing: str) -> None:
    wire.create(url)
    body = b"a" * 100_001
    if framing == "declared":
        wire.ask("POST", url, body, content_type="text/plain")
    else:
        wire.ask("POST", url, content_type="text/plain", transfer_encoding="chunked").send(chunked(body))
    assert wire.read().refusal == (413, "payload_too_large")
    with mounted.connect() as other:
        assert other.request("HEAD", url).next_offset == f"{0:016d}"


@pytest.mark.parametrize("bad", ["a/../b", "a//b", "a%00b", "a%5cb", "a%2F%2Fb", "%zz", "a%ff"])
def test_paths_are_as_strict_as_unmounted(wire: Wire, bad: str) -> None:
    assert wire.get(f"/api/streams/v1/stream/{bad}").refusal == (400, "invalid_path")


def test_an_encoded_path_is_the_same_stream(wire: Wire, url: str) -> None:
    wire.create(f"{url}/caf%C3%A9%20a", body=b"hello")
    assert wire.get(f"{url}/%63af%c3%a9%20a").body == b"hello"


def test_every_answer_has_the_safety_headers(wire: Wire, url: str) -> None:
    for answer in (wire.create(url), wire.get(url), wire.get(f"{url}/missing"), wire.request("OPTIONS", url)):
        assert answer.headers["content-security-policy"] == "sandbox"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_page_is_compressed_and_may_be_unmodified(wire: Wire, url: str) -> None:
    wire.create(url, body=b"a" * 50_000)
    answer = wire.get(url, accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    assert wire.get(url, if_none_match=answer.headers["etag"]).status == 304


def test_a_method_that_is_not_known_is_a_405(wire: Wire, url: str) -> None:
    assert wire.request("PATCH", url).refusal == (405, "method_not_allowed")


def test_probes_are_below_the_mount(wire: Wire) -> None:
    assert wire.get("/api/streams/healthz").body == b"ok"
    assert wire.get("/api/streams/readyz").body == b"ok"


def test_what_is_not_below_the_mount_is_the_outer_applications(wire: Wire, path: str) -> None:
    assert "content-security-policy" not in wire.get(path).headers


@pytest.fixture
def serve() -> Iterator[Callable[..., Mounted]]:
    with ExitStack() as stack:

        def begin(streams: AsgiApplication, outer: object, **options: object) -> Mounted:
            return stack.enter_context(Mounted(streams, outer, **options))

        yield begin


Serve = Callable[..., Mounted]


@pytest.mark.parametrize("options", [{}, {"root_path": "/behind"}], ids=["alone", "root path"])
def test_an_application_on_its_own_serves_too(serve: Serve, path: str, options: dict[str, str]) -> None:
    streams = create_app(configured())
    mounted = serve(streams, streams, **options)
    with mounted.connect() as wire:
        location = wire.create(path, body=b"hello").headers["location"]
        assert location == f"{mounted.origin}{options.get('root_path', '')}{path}"
        assert wire.get(path).body == b"hello"


@pytest.mark.parametrize("mount", ["/my streams", "/flüsse"])
def test_a_mount_path_may_need_encoding(serve: Serve, path: str, mount: str) -> None:
    streams = create_app(configured())
    mounted = serve(streams, Starlette(routes=[Mount(mount, streams)]))
    prefix = {"/my streams": "/my%20streams", "/flüsse": "/fl%C3%BCsse"}[mount]
    with mounted.connect() as wire:
        location = wire.create(prefix + path, body=b"hello").headers["location"]
        assert location == f"{mounted.origin}{prefix}{path}"
        wire.create(f"{prefix}{path}/fork", stream_forked_from=prefix + path)
        assert wire.get(f"{prefix}{path}/fork").body == b"hello"


def test_a_mount_with_a_parameter_is_one_application(serve: Serve, path: str) -> None:
    streams = create_app(configured())
    mounted = serve(streams, Starlette(routes=[Mount("/tenants/{tenant}", streams)]))
    with mounted.connect() as wire:
        assert wire.create(f"/tenants/a{path}").headers["location"] == f"{mounted.origin}/tenants/a{path}"


def test_the_public_url_wins_over_the_mount(serve: Serve, path: str) -> None:
    streams = create_app(configured(server__public_url="https://example.com/ds"))
    mounted = serve(streams, Starlette(routes=[Mount("/api", streams)]))
    with mounted.connect() as wire:
        assert wire.create(f"/api{path}").headers["location"] == f"https://example.com/ds{path}"


def test_the_lifespan_starts_and_ends_the_engine(serve: Serve) -> None:
    streams = create_app(configured())
    mounted = serve(streams, FastAPI(lifespan=streams.lifespan))
    assert streams.application is not None
    mounted.stop()
    assert streams.application is None
