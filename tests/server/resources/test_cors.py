"""What browsers are told: who may read across origins, and that nothing is to be run (§12.7)."""

from collections.abc import Callable

import pytest

from tests.kit.server_thread import RunningServer
from tests.kit.servers import Connect, Start
from tests.kit.wire import Answer, Wire, render

REQUEST_HEADERS = {
    "Authorization",
    "Content-Type",
    "If-None-Match",
    "Last-Event-ID",
    "Producer-Epoch",
    "Producer-Id",
    "Producer-Seq",
    "Stream-Closed",
    "Stream-Expires-At",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Stream-Forked-From",
    "Stream-Seq",
    "Stream-TTL",
}
RESPONSE_HEADERS = {
    "ETag",
    "Location",
    "Producer-Epoch",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "Producer-Seq",
    "Retry-After",
    "Stream-Closed",
    "Stream-Cursor",
    "Stream-Expires-At",
    "Stream-Next-Offset",
    "Stream-SSE-Data-Encoding",
    "Stream-TTL",
    "Stream-Up-To-Date",
}

Exchange = Callable[[Wire, str], Answer]

# One of every kind of answer; the stream exists and is empty.
EXCHANGES: dict[str, Exchange] = {
    "create": lambda wire, path: wire.create(f"{path}/new"),
    "create again": lambda wire, path: wire.request("PUT", path, content_type="text/plain"),
    "append": lambda wire, path: wire.append(path, b"a"),
    "read": lambda wire, path: wire.get(path),
    "not modified": lambda wire, path: wire.get(path, if_none_match="*"),
    "describe": lambda wire, path: wire.request("HEAD", path),
    "delete": lambda wire, path: wire.request("DELETE", path),
    "options": lambda wire, path: wire.request("OPTIONS", path),
    "event stream": lambda wire, path: wire.follow(f"{path}?offset=-1&live=sse").head,
    "probe": lambda wire, _path: wire.get("/healthz"),
    "nothing there": lambda wire, _path: wire.get("/nothing"),
    "no such stream": lambda wire, path: wire.get(f"{path}/missing"),
    "bad offset": lambda wire, path: wire.get(f"{path}?offset=bad"),
    "conflict": lambda wire, path: wire.append(path, b"a", "text/html"),
    "method not allowed": lambda wire, path: wire.request("PATCH", path),
    "malformed": lambda wire, _path: wire.send(b"\r\nnonsense\r\n\r\n").read(),
    "too large a head": lambda wire, _path: wire.get("/healthz", x="a" * 40_000),
    "too large a body": lambda wire, path: wire.ask("POST", path, content_length="100000000").read(),
}


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
def test_a_browser_that_opens_any_answer_runs_nothing(wire: Wire, path: str, exchange: Exchange) -> None:
    wire.create(path)
    headers = exchange(wire, path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"] == "sandbox"
    assert headers["cross-origin-resource-policy"] == "cross-origin"


@pytest.mark.parametrize("exchange", EXCHANGES.values(), ids=EXCHANGES)
def test_every_answer_may_be_read_by_every_page_unless_told_otherwise(
    wire: Wire, path: str, exchange: Exchange
) -> None:
    wire.create(path)
    headers = exchange(wire, path).headers
    assert headers["access-control-allow-origin"] == "*"
    assert set(headers["access-control-expose-headers"].split(", ")) >= RESPONSE_HEADERS


def test_a_preflight_allows_what_the_protocol_sends(wire: Wire, path: str) -> None:
    answer = wire.request(
        "OPTIONS",
        path,
        origin="https://app.example",
        access_control_request_method="PUT",
        access_control_request_headers="stream-ttl, if-none-match",
    )
    assert answer.status == 204
    assert set(answer.headers["access-control-allow-methods"].split(", ")) >= {"GET", "HEAD", "PUT", "POST", "DELETE"}
    assert set(answer.headers["access-control-allow-headers"].split(", ")) >= REQUEST_HEADERS
    assert int(answer.headers["access-control-max-age"]) > 0


def test_a_stream_of_a_page_runs_nothing_either(wire: Wire, path: str) -> None:
    wire.create(path, "text/html", b"<script>alert(1)</script>")
    headers = wire.get(path).headers
    assert (headers["content-type"], headers["content-security-policy"]) == ("text/html", "sandbox")


@pytest.fixture
def choosy(start: Start) -> RunningServer:
    return start(http__cors_origins="https://one.example, https://two.example:8443")


@pytest.mark.parametrize("origin", ["https://one.example", "https://two.example:8443"])
def test_a_listed_origin_is_named_in_the_answer(
    choosy: RunningServer, connect: Connect, path: str, origin: str
) -> None:
    headers = connect(choosy).create(path, origin=origin).headers
    assert headers["access-control-allow-origin"] == origin
    assert "Origin" in headers["vary"]


@pytest.mark.parametrize("origin", ["https://three.example", "http://one.example", "null", "https://one.example.evil"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_another_origin_gets_no_leave(choosy: RunningServer, connect: Connect, origin: str, method: str) -> None:
    headers = connect(choosy).request(method, "/v1/stream/a", origin=origin).headers
    assert "access-control-allow-origin" not in headers
    assert "Origin" in headers["vary"]
    assert headers["content-security-policy"] == "sandbox"


def test_whoever_names_no_origin_is_served(choosy: RunningServer, connect: Connect, path: str) -> None:
    headers = connect(choosy).create(path).headers
    assert "access-control-allow-origin" not in headers
    assert "Origin" in headers["vary"]


def test_a_compressed_answer_depends_on_both(choosy: RunningServer, connect: Connect, path: str) -> None:
    wire = connect(choosy)
    wire.create(path, body=b"a" * 5000)
    vary = wire.get(path, origin="https://one.example", accept_encoding="gzip").headers["vary"]
    assert set(vary.split(", ")) == {"Origin", "Accept-Encoding"}


def test_a_page_can_read_why_its_body_was_refused(choosy: RunningServer, connect: Connect, path: str) -> None:
    origin = "https://one.example"
    wire = connect(choosy).send(render("POST", path, origin=origin, content_length="100000000"))
    answer = wire.read()
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (413, origin)
