"""Who has appended to a stream idempotently, as the stream remembers it (§5.2.1)."""

import msgspec
import pytest

from tests.kit.server_thread import RunningServer
from tests.kit.wire import Answer, Wire


def append(wire: Wire, path: str, producer: str, epoch: int, seq: int) -> None:
    claim = {"producer_id": producer, "producer_epoch": str(epoch), "producer_seq": str(seq)}
    assert wire.request("POST", path, b"x", content_type="text/plain", **claim).status == 200


def test_producers_are_told_with_how_far_they_came_the_last_one_first(server: RunningServer) -> None:
    with server.connect() as wire:
        wire.request("PUT", "/v1/stream/p/told", content_type="text/plain")
        append(wire, "/v1/stream/p/told", "a", 0, 0)
        append(wire, "/v1/stream/p/told", "b", 3, 0)
        append(wire, "/v1/stream/p/told", "b", 3, 1)
        answer = wire.request("GET", "/v1/stream/p/told/__ds/producers")
    told = msgspec.json.decode(answer.body)
    assert (answer.status, told["producer_count"]) == (200, 2)
    assert [(each["producer_id"], each["epoch"], each["seq"]) for each in told["producers"]] == [
        ("b", 3, 1),
        ("a", 0, 0),
    ]


def position(wire: Wire, path: str, seq: int, position: str, *, epoch: int = 0, resumes_from: str = "") -> Answer:
    headers = {"producer_id": "p", "producer_epoch": str(epoch), "producer_seq": str(seq)}
    if not seq:
        headers["producer_resumes_from"] = resumes_from
    return wire.append(path, b"x", producer_position=position, **headers)


def test_a_position_is_told_by_every_answer_about_its_producer(server: RunningServer) -> None:
    path = "/v1/stream/p/placed"
    with server.connect() as wire:
        wire.create(path)
        assert position(wire, path, 0, "line 5").headers["producer-position"] == "line 5"
        assert position(wire, path, 1, "line 9").headers["producer-position"] == "line 9"
        duplicate = position(wire, path, 0, "line 5")
        assert (duplicate.status, duplicate.headers["producer-position"]) == (204, "line 9")
        head = wire.request("HEAD", path, producer_id="p").headers
        assert (head["producer-epoch"], head["producer-seq"], head["producer-position"]) == ("0", "1", "line 9")
        told = msgspec.json.decode(wire.get(f"{path}/__ds/producers").body)["producers"]
    assert [each["position"] for each in told] == ["line 9"]


def test_a_writer_that_resumes_from_another_position_is_told_the_stored_one(server: RunningServer) -> None:
    path = "/v1/stream/p/resumed"
    with server.connect() as wire:
        wire.create(path)
        position(wire, path, 0, "5")
        refused = position(wire, path, 0, "9", epoch=1, resumes_from="4")
        assert (refused.status, msgspec.json.decode(refused.body)["code"]) == (412, "position_moved")
        assert refused.headers["producer-position"] == "5"
        assert position(wire, path, 0, "9", epoch=1, resumes_from="5").status == 200


def test_a_producer_that_is_not_known_is_told_apart_from_one_without_a_position(server: RunningServer) -> None:
    path = "/v1/stream/p/unplaced"
    with server.connect() as wire:
        wire.create(path)
        append(wire, path, "plain", 0, 0)
        known, unknown = (wire.request("HEAD", path, producer_id=name).headers for name in ("plain", "other"))
    assert "producer-epoch" in known
    assert "producer-position" not in known
    assert "producer-epoch" not in unknown


@pytest.mark.parametrize("header", ["producer_position", "producer_resumes_from"])
def test_a_position_needs_a_producer(server: RunningServer, header: str) -> None:
    with server.connect() as wire:
        wire.create(path := f"/v1/stream/p/{header}")
        refused = wire.append(path, b"x", **{header: "5"})
    assert (refused.status, msgspec.json.decode(refused.body)["code"]) == (400, "invalid_header")


def test_a_stream_that_is_not_there_has_no_producers(server: RunningServer) -> None:
    with server.connect() as wire:
        assert wire.request("GET", "/v1/stream/p/none/__ds/producers").status == 404


def test_producers_can_only_be_asked_for(server: RunningServer) -> None:
    with server.connect() as wire:
        answer = wire.request("DELETE", "/v1/stream/p/told/__ds/producers")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
