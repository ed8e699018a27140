"""POST: appends, closes, producers (§5.2, §5.3)."""

import pytest

from tests.kit.wire import Wire

CLAIM = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}


def test_an_append_is_a_204_with_the_new_tail(wire: Wire, path: str) -> None:
    wire.create(path)
    answer = wire.append(path, b"hello")
    assert (answer.status, answer.next_offset) == (204, "0000000000000005")


def test_a_producers_append_is_a_200_and_its_duplicate_a_204(wire: Wire, path: str) -> None:
    wire.create(path)
    first, again = wire.append(path, b"a", **CLAIM), wire.append(path, b"a", **CLAIM)
    assert (first.status, first.headers["producer-epoch"], first.headers["producer-seq"]) == (200, "0", "0")
    assert (again.status, again.next_offset) == (204, first.next_offset)
    assert wire.get(path).body == b"a"


def test_an_empty_200_has_a_length(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.append(path, b"a", **CLAIM).headers["content-length"] == "0"


@pytest.mark.parametrize("headers", [{}, {"content_type": "text/html"}, CLAIM])
def test_a_close_alone_is_a_204(wire: Wire, path: str, headers: dict[str, str]) -> None:
    wire.create(path)
    for _ in range(2):
        answer = wire.request("POST", path, stream_closed="true", **headers)
        assert (answer.status, answer.headers["stream-closed"]) == (204, "true")


def test_an_append_to_a_closed_stream_tells_the_last_offset(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello", stream_closed="true")
    answer = wire.append(path, b"more")
    assert answer.refusal == (409, "stream_closed")
    assert (answer.headers["stream-closed"], answer.next_offset) == ("true", "0000000000000005")


@pytest.mark.parametrize("headers", [{}, {"content_type": ""}])
def test_a_body_needs_a_content_type(wire: Wire, path: str, headers: dict[str, str]) -> None:
    wire.create(path)
    assert wire.request("POST", path, b"a", **headers).refusal == (400, "missing_content_type")


def test_another_content_type_is_a_409(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.append(path, b"a", "text/html").refusal == (409, "content_type_mismatch")
    assert wire.append(path, b"a", "Text/Plain; charset=utf-8").status == 204


@pytest.mark.parametrize("headers", [{}, CLAIM])
def test_an_append_of_nothing_is_a_400(wire: Wire, path: str, headers: dict[str, str]) -> None:
    wire.create(path)
    assert wire.append(path, b"", **headers).refusal == (400, "empty_append")


def test_a_stale_epoch_is_a_403_even_on_a_closed_stream(wire: Wire, path: str) -> None:
    wire.create(path)
    new = {"producer_id": "p", "producer_epoch": "1", "producer_seq": "0"}
    assert wire.append(path, b"a", stream_closed="true", **new).status == 200
    answer = wire.append(path, b"b", **CLAIM)
    assert answer.refusal == (403, "stale_epoch")
    assert answer.headers["producer-epoch"] == "1"


def test_a_gap_tells_what_is_missing(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.append(path, b"a", **CLAIM)
    answer = wire.append(path, b"c", **{**CLAIM, "producer_seq": "2"})
    assert answer.refusal == (409, "sequence_gap")
    assert (answer.headers["producer-expected-seq"], answer.headers["producer-received-seq"]) == ("1", "2")


def test_the_sequence_is_the_streams_whoever_writes(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.append(path, b"a", stream_seq="b").status == 204
    assert wire.append(path, b"b", stream_seq="a", **CLAIM).refusal == (409, "sequence_regression")


@pytest.mark.parametrize("missing", CLAIM)
def test_producer_headers_come_together(wire: Wire, path: str, missing: str) -> None:
    wire.create(path)
    claim = {name: value for name, value in CLAIM.items() if name != missing}
    assert wire.append(path, b"a", **claim).refusal == (400, "invalid_header")


@pytest.mark.parametrize("value", ["-1", "+1", "1.0", "1e3", "0x1", "", "9007199254740992", "9" * 40])
def test_a_number_of_a_producer_is_an_exact_integer(wire: Wire, path: str, value: str) -> None:
    wire.create(path)
    assert wire.append(path, b"a", **{**CLAIM, "producer_epoch": value}).refusal == (400, "invalid_header")
    assert wire.append(path, b"a", **{**CLAIM, "producer_seq": value}).refusal == (400, "invalid_header")


def test_a_header_given_twice_is_not_taken_by_half(wire: Wire, path: str) -> None:
    wire.create(path)
    wire.send(
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n"
        "Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0\r\nProducer-Seq: 1\r\n\r\na".encode()
    )
    assert wire.read().refusal == (400, "invalid_header")


def test_appending_to_nothing_is_a_404(wire: Wire, path: str) -> None:
    assert wire.append(path, b"a").refusal == (404, "stream_not_found")
    assert wire.request("POST", path, stream_closed="true").refusal == (404, "stream_not_found")
