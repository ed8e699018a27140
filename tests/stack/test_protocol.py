"""The protocol on the server of a stack, as any HTTP client sees it: a walk through the life of a stream."""

from collections.abc import Iterator
from itertools import count

import httpx2
import pytest

from tests.stack.stacks import up

SERVER_ONLY = ("--without", "postgres", "--without", "pipeline", "--without", "heartbeat", "--without", "envoy")
TEXT = {"Content-Type": "text/plain"}
_numbers = count()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server of a stack that has no other part."""
    with up(tmp_path_factory.mktemp("server") / "stack", *SERVER_ONLY, parts=1) as stack:
        stack.wait()
        yield stack.urls["server"]


@pytest.fixture
def http(root: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=root, timeout=30) as client:
        yield client


@pytest.fixture
def stream(http: httpx2.Client) -> str:
    """The path of a new stream of text."""
    path = f"/v1/stream/walk-{next(_numbers)}"
    assert http.put(path, headers=TEXT).status_code == 201
    return path


def test_the_server_is_well(http: httpx2.Client) -> None:
    assert (http.get("/healthz").status_code, http.get("/healthz").text) == (200, "ok")


def test_the_streams_of_both_directions_are_there(http: httpx2.Client) -> None:
    types = [http.head(f"/v1/stream/{name}").headers["Content-Type"] for name in ("pg-items", "session-events")]
    assert types == ["application/json", "application/json"]


def test_a_stream_is_created_once_as_it_is_described(http: httpx2.Client, stream: str) -> None:
    assert http.put(stream, headers=TEXT).status_code == 200
    assert http.put(stream, headers={"Content-Type": "application/json"}).status_code == 409


def test_what_is_appended_is_read_back_from_where_the_reader_was(http: httpx2.Client, stream: str) -> None:
    first = http.post(stream, headers=TEXT, content="hello ")
    http.post(stream, headers=TEXT, content="world")
    assert http.get(stream, params={"offset": "-1"}).text == "hello world"
    assert http.get(stream, params={"offset": first.headers["Stream-Next-Offset"]}).text == "world"


def test_a_live_reader_gets_the_data_and_where_it_is(http: httpx2.Client, stream: str) -> None:
    http.post(stream, headers=TEXT, content="hello")
    with http.stream("GET", stream, params={"offset": "-1", "live": "sse"}) as events:
        lines = events.iter_lines()
        received = [line.partition(":")[::2] for line in (next(lines) for _ in range(5)) if line]
    assert ("event", "data") in [(field, text.strip()) for field, text in received]
    assert ("data", "hello") in [(field, text.strip()) for field, text in received]


def test_a_closed_stream_takes_nothing_more(http: httpx2.Client, stream: str) -> None:
    assert http.post(stream, headers={"Stream-Closed": "true"}).status_code == 204
    refused = http.post(stream, headers=TEXT, content="too late")
    assert (refused.status_code, refused.headers["Stream-Closed"]) == (409, "true")


def test_a_deleted_stream_is_gone(http: httpx2.Client, stream: str) -> None:
    assert http.delete(stream).status_code == 204
    assert http.get(stream).status_code == 404
