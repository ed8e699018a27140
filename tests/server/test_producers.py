"""Who has appended to a stream idempotently, as the stream remembers it (§5.2.1)."""

import msgspec

from tests.server.running import RunningServer
from tests.server.wire import Wire


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


def test_a_stream_that_is_not_there_has_no_producers(server: RunningServer) -> None:
    with server.connect() as wire:
        assert wire.request("GET", "/v1/stream/p/none/__ds/producers").status == 404


def test_producers_can_only_be_asked_for(server: RunningServer) -> None:
    with server.connect() as wire:
        answer = wire.request("DELETE", "/v1/stream/p/told/__ds/producers")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
