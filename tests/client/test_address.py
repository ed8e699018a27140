"""Where things are: names become URLs, and none leads out of its root."""

from urllib.parse import unquote

import httpx2
import pytest
from hypothesis import given, strategies as st

from everbrook.client.address import Server, parse_server, part_of
from everbrook.client.environment import DEFAULT_URL, server_url

SERVER = parse_server("http://host:4437")
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(
    lambda name: name.strip("/") and not name.startswith(("http", "/")) and not {".", ".."} & {*name.split("/")}
)


@pytest.mark.parametrize("url", ["http://host", " http://host/\n", "http://host/v1/stream", "http://host/v1/stream/"])
def test_a_server_is_known_by_its_origin_or_its_stream_root(url: str) -> None:
    assert parse_server(url).streams.stream("chat/1") == "http://host/v1/stream/chat/1"


@pytest.mark.parametrize(
    "given, variables, expected",
    [
        ("http://given", {"FIRST_URL": "http://first", "EVERBROOK_URL": "http://usual"}, "http://given"),
        (None, {"FIRST_URL": "http://first", "EVERBROOK_URL": "http://usual"}, "http://first"),
        (None, {"FIRST_URL": "", "EVERBROOK_URL": "http://usual"}, "http://usual"),
        ("", {"FIRST_URL": "", "EVERBROOK_URL": ""}, DEFAULT_URL),
    ],
)
def test_the_url_of_the_server_is_given_or_from_the_environment(
    given: str | None, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert server_url(given, "FIRST_URL") == expected


def test_a_server_may_be_below_a_path() -> None:
    assert parse_server("https://host/eb/v1/stream").bucket("agents").stream("a") == "https://host/eb/ds/agents/a"


@pytest.mark.parametrize("url", ["", "host:4437", "ftp://host", "http://", "http://host?a=1", "http://host#a", "/v1"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the URL of a server"):
        parse_server(url)


@given(NAMES)
def test_every_name_is_one_path_below_the_root(name: str) -> None:
    url = httpx2.URL(SERVER.streams.stream(name))
    assert url.query == b""
    assert unquote(url.raw_path.decode()) == f"/v1/stream/{name}"


@given(NAMES)
def test_a_name_in_a_bucket_is_one_segment(name: str) -> None:
    url = httpx2.URL(SERVER.bucket("agents").stream(name))
    assert url.raw_path.count(b"/") == 3
    assert unquote(url.raw_path.decode().rpartition("/")[2]) == name


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "../../ds/other/x", "a/."])
def test_a_name_that_http_takes_for_a_way_up_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"no segment '\.' or '\.\.'"):
        SERVER.streams.stream(name)
    with pytest.raises(ValueError, match=r"no segment '\.' or '\.\.'"):
        SERVER.streams.linked("orders", name)


@pytest.mark.parametrize("name", ["", "/", "//"])
def test_everything_has_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="the name of a stream must not be empty"):
        SERVER.streams.stream(name)
    with pytest.raises(ValueError, match="the name of a bucket must not be empty"):
        SERVER.bucket(name)
    with pytest.raises(ValueError, match="the name of a subscription must not be empty"):
        SERVER.streams.subscription(name)


def test_a_stream_may_be_named_by_a_url_of_its_own() -> None:
    assert SERVER.streams.stream("https://other/v1/stream/a") == "https://other/v1/stream/a"
    assert SERVER.streams.stream("HTTP://other/v1/stream/a") == "HTTP://other/v1/stream/a"


def test_the_url_of_a_stream_has_no_query() -> None:
    with pytest.raises(ValueError, match="the URL of a stream must have no query"):
        SERVER.streams.stream("https://other/v1/stream/a?token=1")


def test_control_resources_are_below_their_root() -> None:
    assert SERVER.streams.subscription("a b") == "http://host:4437/v1/stream/__ds/subscriptions/a%20b"
    assert SERVER.bucket("agents").control("streams") == "http://host:4437/ds/agents/__ds/streams"
    assert SERVER.streams.linked("s", "a/b c") == "http://host:4437/v1/stream/__ds/subscriptions/s/streams/a/b%20c"


def test_a_part_of_a_stream_belongs_to_an_offset() -> None:
    assert part_of("http://host/a/__ds", "snapshot", "0042") == "http://host/a/__ds/snapshot/0042"
    with pytest.raises(ValueError, match="segment"):
        part_of("http://host/a", "snapshot", "..")


def test_buckets_have_a_root_of_their_own() -> None:
    assert Server("http://host").buckets == "http://host/ds"
