"""PUT (§5.1)."""

import pytest

from tests.kit.wire import Wire


def test_a_new_stream_is_a_201_that_tells_where_it_stands(wire: Wire, path: str) -> None:
    answer = wire.create(path, body=b"hello")
    assert (answer.next_offset, answer.headers["content-type"]) == ("0000000000000005", "text/plain")
    assert "stream-closed" not in answer.headers


def test_the_same_stream_again_is_a_200(wire: Wire, path: str) -> None:
    wire.create(path, stream_ttl="60")
    assert wire.request("PUT", path, content_type="TEXT/plain", stream_ttl="60").status == 200


@pytest.mark.parametrize(
    "other",
    [
        {"content_type": "text/html"},
        {"content_type": "text/plain", "stream_ttl": "61"},
        {"content_type": "text/plain", "stream_expires_at": "2099-01-01T00:00:00Z"},
        {"content_type": "text/plain", "stream_closed": "true"},
    ],
)
def test_the_same_path_with_another_configuration_is_a_409(wire: Wire, path: str, other: dict[str, str]) -> None:
    wire.create(path)
    assert wire.request("PUT", path, **other).refusal == (409, "stream_exists")


@pytest.mark.parametrize("headers", [{}, {"content_type": ""}])
def test_no_content_type_means_bytes(wire: Wire, path: str, headers: dict[str, str]) -> None:
    answer = wire.request("PUT", path, **headers)
    assert (answer.status, answer.headers["content-type"]) == (201, "application/octet-stream")


@pytest.mark.parametrize("content_type", ["text", "text/", "/plain", "text/pl ain", "text/plain, text/html"])
def test_a_content_type_that_is_none_is_a_400(wire: Wire, path: str, content_type: str) -> None:
    assert wire.request("PUT", path, content_type=content_type).refusal == (400, "invalid_header")


@pytest.mark.parametrize("value", ["true", "TRUE", "True"])
def test_a_stream_may_be_created_closed(wire: Wire, path: str, value: str) -> None:
    answer = wire.create(path, body=b"all", stream_closed=value)
    assert answer.headers["stream-closed"] == "true"
    assert wire.append(path, b"more").refusal == (409, "stream_closed")


@pytest.mark.parametrize("value", ["false", "1", "yes", "", "truee"])
def test_any_other_stream_closed_is_as_if_absent(wire: Wire, path: str, value: str) -> None:
    wire.create(path, stream_closed=value)
    assert wire.append(path, b"a", stream_closed=value).status == 204
    assert wire.append(path, b"b").status == 204


def test_the_body_of_a_stream_that_was_there_is_not_appended(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    assert wire.request("PUT", path, b"hello", content_type="text/plain").status == 200
    assert wire.get(path).body == b"hello"


def test_a_deleted_stream_may_be_created_anew_at_once(wire: Wire, path: str) -> None:
    wire.create(path, body=b"old")
    wire.append(path, b"x", producer_id="p", producer_epoch="5", producer_seq="0", stream_seq="9")
    wire.request("DELETE", path)
    wire.create(path, "text/html")
    assert wire.get(path).body == b""
    claim = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0", "stream_seq": "1"}
    assert wire.append(path, b"new", "text/html", **claim).status == 200


@pytest.mark.parametrize("ttl", ["abc", "-1", "00060", "+60", "60.5", "1e3", "", " ", "6_0", "9" * 12, "9" * 40])
def test_a_ttl_that_is_no_number_or_beyond_all_dates_is_a_400(wire: Wire, path: str, ttl: str) -> None:
    assert wire.request("PUT", path, stream_ttl=ttl).refusal == (400, "invalid_header")
    assert wire.request("HEAD", path).status == 404


@pytest.mark.parametrize(
    "moment", ["tomorrow", "2099-01-01", "2099-13-01T00:00:00Z", "2099-01-01T00:00:00", "9999-12-31T23:59:59-01:00"]
)
def test_an_expiry_that_is_no_moment_is_a_400(wire: Wire, path: str, moment: str) -> None:
    assert wire.request("PUT", path, stream_expires_at=moment).refusal == (400, "invalid_header")


def test_two_lifetimes_are_a_400(wire: Wire, path: str) -> None:
    answer = wire.request("PUT", path, stream_ttl="60", stream_expires_at="2099-01-01T00:00:00Z")
    assert answer.refusal == (400, "bad_request")


def test_head_tells_the_configured_window(wire: Wire, path: str) -> None:
    wire.create(path, stream_ttl="3600")
    assert wire.request("HEAD", path).headers["stream-ttl"] == "3600"


def test_head_tells_the_absolute_expiry(wire: Wire, path: str) -> None:
    wire.create(path, stream_expires_at="2099-01-01T01:00:00.5+01:00")
    assert wire.request("HEAD", path).headers["stream-expires-at"] == "2099-01-01T00:00:00.500Z"
