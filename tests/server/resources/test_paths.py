"""Paths that could be read as other ones name no stream."""

import pytest

from tests.kit.wire import Wire

ROOT = "/v1/stream/"

BAD_PATHS = {
    "nothing": "",
    "parent": "a/../b",
    "parent at the end": "a/..",
    "parent, encoded": "a/%2e%2e/b",
    "parent, half encoded": "a/.%2E/b",
    "slashes of a parent, encoded": "a%2f..%2fb",
    "current": "a/./b",
    "empty segment": "a//b",
    "empty segment, encoded": "a/%2Fb",
    "empty segment at the end": "a/",
    "empty segment at the beginning": "/a",
    "NUL": "a%00b",
    "line feed": "a%0ab",
    "carriage return": "a%0Db",
    "delete": "a%7fb",
    "escape": "a%1Bb",
    "backslash, encoded": "a%5cb",
    "backslash": "a\\b",
    "percent sign alone": "a%",
    "percent sign with one digit": "a%2",
    "percent sign with letters": "a%zz",
    "Latin-1": "a%E9",
    "half a character": "a%C3",
    "overlong slash": "a%C0%AFb",
    "surrogate": "a%ED%A0%80",
    "too long": "a" * 401,
    "too long in bytes": "%C3%A9" * 201,
}


@pytest.mark.parametrize("bad", BAD_PATHS.values(), ids=BAD_PATHS)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_a_bad_path_is_a_400_and_the_connection_goes_on(wire: Wire, method: str, bad: str) -> None:
    body = None if method in {"GET", "DELETE"} else b"x"
    answer = wire.request(method, ROOT + bad, body, content_type="text/plain")
    assert answer.refusal == (400, "invalid_path")
    assert wire.get("/healthz").status == 200


@pytest.mark.parametrize("bad", ["a/../b", "a%00b", "a//b", "/etc/passwd"])
def test_a_bad_source_path_is_a_400(wire: Wire, path: str, bad: str) -> None:
    assert wire.request("PUT", path, stream_forked_from=ROOT + bad).refusal == (400, "invalid_path")


@pytest.mark.parametrize("source", ["other", "/other/stream/a", "http://localhost/v1/stream/a", ""])
def test_a_source_is_named_by_its_url_path(wire: Wire, path: str, source: str) -> None:
    assert wire.request("PUT", path, stream_forked_from=source).refusal == (400, "invalid_path")


@pytest.mark.parametrize("name", ["a%20b", "caf%C3%A9", "a.b", "...", "a/b/c", "~a!$&'()*+,;=:@", "a%25b", "a" * 300])
def test_other_paths_name_streams(wire: Wire, path: str, name: str) -> None:
    target = f"{path}/{name}"
    wire.create(target, body=b"hello")
    assert wire.get(target).body == b"hello"


def test_the_same_name_spelt_differently_is_the_same_stream(wire: Wire, path: str) -> None:
    wire.create(f"{path}/a-b", body=b"hello")
    assert wire.get(f"{path}/%61%2db").body == b"hello"
    assert wire.get(path.replace("stream/test", "stream/%74est") + "/a-b").body == b"hello"


def test_a_path_of_the_greatest_length_names_a_stream(wire: Wire, path: str) -> None:
    name = path + "/" + "a" * (399 + len(ROOT) - len(path))
    wire.create(name, body=b"hello")
    assert wire.get(name).body == b"hello"


@pytest.mark.parametrize("name", ["__ds", "__ds/x", "a/__ds/x", "a/__ds/snapshot/1/2"])
def test_control_paths_are_no_streams(wire: Wire, name: str) -> None:
    assert wire.request("PUT", ROOT + name).refusal == (404, "not_found")
