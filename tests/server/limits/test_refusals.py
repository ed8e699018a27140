"""What clients see of the limits: 429 and 413, and nothing that leaks."""

import msgspec
import pytest

from tests.kit.server_thread import eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire, chunked
from tests.server.uploads.blobs import none_left


def test_whoever_asks_too_often_is_told_how_long_to_wait(start_either: StartEither, connect: Connect) -> None:
    wire = connect(start_either(limits__requests_per_sec_per_address=1, limits__burst_secs=3.0))
    answers = [wire.get("/v1/stream/none") for _ in range(4)]
    assert [answer.status for answer in answers] == [404, 404, 404, 429]
    assert answers[-1].refusal == (429, "too_many_requests")
    assert answers[-1].headers["retry-after"] == "1"


def test_what_can_not_be_read_counts_too(start: Start, connect: Connect) -> None:
    server = start(limits__requests_per_sec_per_address=1, limits__burst_secs=3.0)
    answers = [connect(server).send(b"BREW / HTTP/1.1\r\n\r\n").read().status for _ in range(4)]
    assert answers == [501, 501, 501, 429]


def test_whoever_asks_too_often_is_not_asked_for_a_body(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__requests_per_sec_per_address=1, limits__burst_secs=1.0))
    wire.create(path)
    wire.ask("POST", path, content_type="text/plain", content_length="5000000", expect="100-continue")
    assert wire.read().refusal == (429, "too_many_requests")


def test_probes_are_never_too_many(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__requests_per_sec_per_address=1, limits__burst_secs=1.0))
    assert [wire.get("/healthz").status for _ in range(5)] == [200] * 5


def test_whoever_appends_too_much_is_told_how_long_to_wait(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__append_bytes_per_sec_per_address=100, limits__burst_secs=1.0))
    wire.create(path)
    assert wire.append(path, b"a" * 500).status == 204
    answer = wire.append(path, b"b")
    assert answer.refusal == (429, "too_many_requests")
    assert answer.headers["retry-after"] == "4"
    assert wire.get(path).body == b"a" * 500


@pytest.mark.parametrize("framing", ["declared", "chunked"])
def test_a_snapshot_counts_as_what_is_appended(
    start_either: StartEither, connect: Connect, path: str, framing: str
) -> None:
    server = start_either(limits__append_bytes_per_sec_per_address=100, limits__burst_secs=1.0)
    connect(server).create(path)
    url, body = f"{path}/__ds/snapshot/{0:016d}", b"a" * 500
    wire = connect(server)
    if framing == "declared":
        wire.ask("PUT", url, body)
    else:
        wire.ask("PUT", url, transfer_encoding="chunked").send(chunked(body))
    assert wire.read().status == 204
    assert connect(server).append(path, b"b").refusal == (429, "too_many_requests")
    assert connect(server).request("PUT", url, b"b").refusal == (429, "too_many_requests")


def test_what_comes_of_a_snapshot_counts_though_it_never_becomes_whole(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(limits__append_bytes_per_sec_per_address=1000, limits__burst_secs=1.0)
    connect(server).create(path)
    wire = connect(server)
    wire.ask("PUT", f"{path}/__ds/snapshot/{0:016d}", content_length="1000000").send(b"a" * 500_000)
    assert eventually(lambda: connect(server).append(path, b"b").status == 429)


def test_whoever_has_appended_too_much_is_not_asked_for_more(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__append_bytes_per_sec_per_address=100, limits__burst_secs=1.0))
    wire.create(path)
    assert wire.append(path, b"a" * 500).status == 204
    wire.ask("POST", path, content_type="text/plain", content_length="5000000", expect="100-continue")
    assert wire.read().refusal == (429, "too_many_requests")


def test_one_address_has_as_many_connections_as_it_may(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections_per_address=2)
    first, second = connect(server), connect(server)
    assert [first.get("/healthz").status, second.get("/healthz").status] == [200, 200]
    assert connect(server).read().refusal == (429, "too_many_requests")
    first.reset()
    assert eventually(lambda: connect(server).get("/healthz").status == 200)


def test_connections_of_trusted_proxies_are_not_counted(start: Start, connect: Connect) -> None:
    server = start(
        limits__max_connections_per_address=1, auth__trusted_proxies="127.0.0.0/8", auth__default_scopes="admin:/"
    )
    assert [connect(server).get("/healthz").status for _ in range(3)] == [200] * 3


def test_one_address_has_as_many_live_reads_as_it_may(start_either: StartEither, connect: Connect, path: str) -> None:
    server = start_either(limits__max_readers_per_address=1)
    connect(server).create(path)
    follower = connect(server).follow(f"{path}?offset=-1&live=sse")
    assert connect(server).get(f"{path}?offset=now&live=long-poll").refusal == (429, "too_many_requests")
    follower.wire.close()
    assert eventually(lambda: _follows(connect(server), path))


def test_one_bucket_has_as_many_live_reads_as_it_may(start_either: StartEither, connect: Connect) -> None:
    server = start_either(limits__max_readers_per_bucket=1)
    wire = connect(server)
    for bucket in ("acme", "other"):
        wire.request("PUT", f"/ds/{bucket}")
        wire.create(f"/ds/{bucket}/s")
    follower = connect(server).follow("/ds/acme/s?offset=-1&live=sse")
    refused = wire.get("/ds/%61cme/s?offset=now&live=long-poll")
    assert refused.refusal == (429, "too_many_requests")
    assert _live_readers(wire) == 1
    assert _follows(connect(server), "/ds/other/s")
    follower.wire.close()
    assert eventually(lambda: _live_readers(wire) == 0)


def _live_readers(wire: Wire) -> object:
    return msgspec.json.decode(wire.get("/ds/acme").body)["live_readers"]


def test_the_base_surface_has_as_many_live_reads_as_a_bucket(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_readers_per_bucket=1)
    wire = connect(server)
    wire.create(path)
    wire.create(f"{path}/other")
    connect(server).follow(f"{path}?offset=-1&live=sse")
    assert wire.get(f"{path}/other?offset=now&live=long-poll").refusal == (429, "too_many_requests")


def _follows(wire: Wire, path: str) -> bool:
    wire.ask("GET", f"{path}?offset=-1&live=sse")
    return wire.read_head().status == 200


def test_however_live_reads_end_none_stays_counted(start: Start, connect: Connect, path: str) -> None:
    server = start(limits__max_readers_per_address=3, server__long_poll_timeout_secs=0.1)
    writer = connect(server)
    writer.create(path)
    timed_out, gone, closed = connect(server), connect(server), connect(server)
    assert timed_out.get(f"{path}?offset=now&live=long-poll").status == 204
    gone.follow(f"{path}?offset=-1&live=sse").wire.reset()
    follower = closed.follow(f"{path}?offset=-1&live=sse")
    assert writer.append(path, b"x", stream_closed="true").status == 204
    follower.events()
    concurrency = server.application.concurrency
    assert eventually(lambda: server.call(lambda: len(concurrency.readers_by_address)) == 0)


def test_no_connection_stays_counted(start: Start, connect: Connect) -> None:
    server = start(limits__max_connections_per_address=50)
    for number in range(40):
        wire = connect(server)
        wire.send(b"GARBAGE\r\n\r\n" if number % 2 else b"GET /healthz HTTP/1.1\r\n")
        wire.reset()
    concurrency = server.application.concurrency
    assert eventually(lambda: server.call(lambda: len(concurrency.connections)) == 0)


# Buckets and the whole store


def test_a_bucket_holds_as_much_as_its_quota_says(start_either: StartEither, connect: Connect) -> None:
    wire = connect(start_either())
    assert wire.request("PUT", "/ds/acme").status == 201
    assert wire.request("PUT", "/ds/acme/__ds/quota", b'{"max_bytes": 10, "max_streams": 2}').status == 200
    wire.create("/ds/acme/one", body=b"12345678")
    wire.create("/ds/acme/two")
    assert wire.append("/ds/acme/two", b"123").refusal == (413, "bucket_full")
    assert wire.request("PUT", "/ds/acme/three", content_type="text/plain").refusal == (413, "bucket_full")
    bucket = wire.get("/ds/acme").body
    assert b'"bytes":8' in bucket
    assert b'"max_bytes":10,"max_streams":2' in bucket


def test_a_snapshot_beyond_a_quota_is_not_asked_for(start_either: StartEither, connect: Connect) -> None:
    server = start_either(limits__max_bucket_bytes=1000)
    wire = connect(server)
    assert wire.request("PUT", "/ds/acme").status == 201
    wire.create("/ds/acme/one", body=b"a")
    wire.ask("PUT", f"/ds/acme/one/snapshot/{1:016d}", content_length="1001", expect="100-continue")
    assert wire.read().refusal == (413, "bucket_full")
    assert none_left(server)


@pytest.mark.parametrize(
    "limits, code", [({"max_bucket_bytes": 100_000}, "bucket_full"), ({"max_total_bytes": 100_000}, "store_full")]
)
def test_a_snapshot_is_given_up_when_it_grows_beyond_a_quota(
    start_either: StartEither, connect: Connect, limits: dict[str, int], code: str
) -> None:
    server = start_either(**{f"limits__{name}": value for name, value in limits.items()})
    wire = connect(server)
    assert wire.request("PUT", "/ds/acme").status == 201
    wire.create("/ds/acme/one", body=b"a")
    wire.ask("PUT", f"/ds/acme/one/snapshot/{1:016d}", transfer_encoding="chunked")
    wire.send(b"%x\r\n%b\r\n" % (200_000, b"a" * 200_000))
    assert wire.read().refusal == (413, code)
    assert none_left(server)


def test_a_snapshot_may_fill_a_quota_with_the_room_that_it_makes(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__max_bucket_bytes=1000))
    assert wire.request("PUT", "/ds/acme").status == 201
    wire.create("/ds/acme/one", body=b"a" * 900)
    assert wire.request("PUT", f"/ds/acme/one/snapshot/{900:016d}", b"a" * 1000).status == 204


def test_deleting_makes_room_in_a_bucket(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__max_bucket_bytes=10, limits__max_bucket_streams=1))
    assert wire.request("PUT", "/ds/acme").status == 201
    for _ in range(3):
        wire.create("/ds/acme/one", body=b"1234567890")
        assert wire.append("/ds/acme/one", b"1").refusal == (413, "bucket_full")
        assert wire.request("DELETE", "/ds/acme/one").status == 204


def test_a_quota_of_its_own_wins_and_can_be_taken_back(start: Start, connect: Connect) -> None:
    wire = connect(start(limits__max_bucket_bytes=10))
    assert wire.request("PUT", "/ds/acme").status == 201
    assert wire.request("PUT", "/ds/acme/__ds/quota", b'{"max_bytes": 20}').body == b'{"max_bytes":20}'
    wire.create("/ds/acme/one", body=b"a" * 20)
    assert wire.request("DELETE", "/ds/acme/__ds/quota").status == 204
    assert wire.get("/ds/acme/__ds/quota").body == b"{}"
    assert wire.append("/ds/acme/one", b"1").refusal == (413, "bucket_full")
    assert wire.request("POST", "/ds/acme/one", stream_closed="true").status == 204


def test_what_is_no_quota_is_refused(start: Start, connect: Connect) -> None:
    wire = connect(start())
    assert wire.request("PUT", "/ds/acme").status == 201
    for body in (b"", b"[]", b'{"max_bytes": -1}', b'{"max_byte": 1}', b'{"max_bytes": "1"}'):
        assert wire.request("PUT", "/ds/acme/__ds/quota", body).refusal == (400, "INVALID_REQUEST")
    assert wire.request("PUT", "/ds/none/__ds/quota", b"{}").refusal == (404, "bucket_not_found")


def test_the_whole_store_is_bounded(start_either: StartEither, connect: Connect, path: str) -> None:
    wire = connect(start_either(limits__max_total_bytes=1000))
    wire.create(path)
    assert wire.append(path, b"a" * 2000).refusal == (413, "store_full")
    assert wire.append(path, b"a" * 100).status == 204


def test_subscriptions_are_within_the_quota_of_their_bucket(start_either: StartEither, connect: Connect) -> None:
    wire = connect(start_either(limits__max_bucket_streams=1))
    assert wire.request("PUT", "/ds/acme").status == 201
    body = b'{"type": "pull-wake", "wake_stream": "w", "pattern": "*"}'
    answers = [wire.request("PUT", f"/ds/acme/__ds/subscriptions/{name}", body) for name in ("one", "one", "two")]
    assert [answer.status for answer in answers] == [201, 200, 413]
    assert b'"BUCKET_FULL"' in answers[-1].body
