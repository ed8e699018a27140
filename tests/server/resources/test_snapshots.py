"""Publishing, finding, reading and deleting snapshots, and retention on wish (002 §2)."""

from collections.abc import Iterator

import pytest

from everbrook.server.asgi import create_app
from tests.kit.asgi_mount import Mounted
from tests.kit.server_thread import RunningServer, configured
from tests.kit.wire import Answer, Wire
from tests.server.uploads.blobs import Server, digest_of, etag_of


@pytest.fixture(params=["http1", "asgi"], scope="module")
def either(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One server of each kind for all tests here."""
    if request.param == "http1":
        with RunningServer(configured()) as running:
            yield running
    else:
        streams = create_app(configured())
        with Mounted(streams, streams, root_path="/behind") as mounted:
            yield mounted


@pytest.fixture
def wire(either: Server) -> Iterator[Wire]:
    with either.connect() as wire:
        yield wire


@pytest.fixture
def stream(wire: Wire, path: str) -> "Snapshots":
    """A stream of three messages: its boundaries are 0, 3, 6 and 11."""
    wire.create(path)
    for message in (b"one", b"two", b"three"):
        wire.append(path, message)
    return Snapshots(wire, path)


class Snapshots:
    """The snapshots of one stream."""

    def __init__(self, wire: Wire, path: str) -> None:
        self.wire = wire
        self.path = path

    def url(self, offset: int | str) -> str:
        return f"{self.path}/__ds/snapshot/{offset:016d}" if isinstance(offset, int) else self.url(0)[:-16] + offset

    def begin(self, wire: Wire, offset: int) -> Wire:
        """Begin to publish six bytes: all that the server needs to decide on is there."""
        wire.ask("PUT", self.url(offset), content_length="6", expect="100-continue")
        assert wire.read().status == 100
        return wire

    def publish(self, offset: int | str, body: bytes = b"folded", /, **headers: str) -> Answer:
        return self.wire.request("PUT", self.url(offset), body, **headers)

    def read(self, offset: int | str, **headers: str) -> Answer:
        return self.wire.get(self.url(offset), **headers)

    def latest(self, method: str = "GET") -> Answer:
        return self.wire.request(method, f"{self.path}/__ds/snapshot")

    def delete(self, offset: int | str) -> Answer:
        return self.wire.request("DELETE", self.url(offset))

    def retain(self, offset: int | str) -> Answer:
        return self.wire.request("PUT", self.url(offset).replace("snapshot", "retention"))


# Publishing (§2.2)


def test_publishing_tells_what_was_stored(stream: Snapshots) -> None:
    answer = stream.publish(6)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["stream-snapshot-offset"] == f"{6:016d}"
    assert answer.headers["stream-earliest-offset"] == f"{6:016d}"
    assert answer.headers["content-digest"] == digest_of(b"folded")
    assert answer.headers["etag"] == etag_of(6, b"folded")


def test_history_may_be_kept(stream: Snapshots) -> None:
    answer = stream.publish(6, stream_snapshot_history="keep")
    assert answer.headers["stream-earliest-offset"] == f"{0:016d}"
    assert stream.wire.get(stream.path).body == b"onetwothree"


@pytest.mark.parametrize("value", ["drop", "Keep", "keep, keep", ""])
def test_history_is_kept_or_not_mentioned(stream: Snapshots, value: str) -> None:
    assert stream.publish(6, stream_snapshot_history=value).refusal == (400, "invalid_header")


@pytest.mark.parametrize("offset", ["6", "abc", "-1", "now", "%", "%zz", "00000000000000006", f"{6:016d}%00"])
def test_an_offset_that_was_not_issued_is_a_400(stream: Snapshots, offset: str) -> None:
    assert stream.publish(offset).refusal == (400, "invalid_offset")


def test_an_offset_inside_a_message_is_a_400(stream: Snapshots) -> None:
    assert stream.publish(5).refusal == (400, "invalid_offset")


def test_the_digits_of_an_offset_may_be_encoded(stream: Snapshots) -> None:
    """002 §5."""
    encoded = "".join(f"%3{digit}" for digit in f"{6:016d}")
    assert stream.publish(encoded).status == 204
    assert stream.read(encoded).body == b"folded"
    assert stream.delete(encoded).status == 409


def test_a_content_type_that_is_none_is_a_400(stream: Snapshots) -> None:
    assert stream.publish(6, content_type="nonsense").refusal == (400, "invalid_header")


def test_a_superseded_offset_that_is_retained_is_a_409(stream: Snapshots) -> None:
    stream.publish(6, stream_snapshot_history="keep")
    answer = stream.publish(3, b"older")
    assert answer.refusal == (409, "snapshot_superseded")
    assert answer.headers["stream-snapshot-offset"] == f"{6:016d}"
    assert stream.read(6).body == b"folded"


# Digests


def test_a_digest_that_is_right_is_welcome(stream: Snapshots) -> None:
    assert stream.publish(6, content_digest=digest_of(b"folded")).status == 204


@pytest.mark.parametrize("body", [b"folded", b""])
def test_a_digest_of_other_bytes_is_refused(stream: Snapshots, body: bytes) -> None:
    answer = stream.publish(6, body, content_digest=digest_of(b"other"))
    assert answer.refusal == (400, "digest_mismatch")
    assert stream.latest().status == 404
    assert stream.wire.get(stream.path).status == 200


def test_a_digest_may_stand_among_others(stream: Snapshots) -> None:
    assert stream.publish(6, content_digest=f"md5=:AAAA:, {digest_of(b'folded')}").status == 204
    assert stream.publish(6, content_digest="sha-512=:AAAA:").status == 204


def test_a_digest_that_is_none_is_a_400(stream: Snapshots) -> None:
    assert stream.publish(6, content_digest="sha-256=:short:").refusal == (400, "invalid_header")


# Preconditions


def test_only_the_snapshot_that_is_known_is_replaced(stream: Snapshots) -> None:
    first = stream.publish(3, b"first").headers["etag"]
    second = stream.publish(6, b"second", if_match=first)
    assert second.status == 204
    assert stream.publish(6, b"third", if_match=first).refusal == (412, "precondition_failed")
    assert stream.read(6).body == b"second"


@pytest.mark.parametrize("etag", ['"other"', "*", 'W/"other"'])
def test_nothing_is_replaced_where_there_is_nothing(stream: Snapshots, etag: str) -> None:
    assert stream.publish(6, if_match=etag).refusal == (412, "precondition_failed")


def test_any_snapshot_may_be_replaced(stream: Snapshots) -> None:
    stream.publish(3)
    assert stream.publish(6, if_match="*").status == 204


def test_the_first_snapshot_may_have_to_be_the_first(stream: Snapshots) -> None:
    assert stream.publish(3, if_none_match="*").status == 204
    assert stream.publish(6, if_none_match="*").refusal == (412, "precondition_failed")


@pytest.mark.parametrize(
    "headers",
    [
        {"if_match": ""},
        {"if_match": "bare"},
        {"if_match": '"a", "b"'},
        {"if_none_match": '"a"'},
        {"if_match": "*", "if_none_match": "*"},
    ],
    ids=str,
)
def test_a_precondition_that_is_none_is_a_400(stream: Snapshots, headers: dict[str, str]) -> None:
    assert stream.publish(6, b"folded", **headers).refusal == (400, "invalid_header")


# The latest (§2.3)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_latest_snapshot_is_a_redirect(stream: Snapshots, either: Server, method: str) -> None:
    stream.publish(6)
    answer = stream.wire.request(method, f"{stream.path}/__ds/snapshot")
    root = "/behind" if isinstance(either, Mounted) else ""
    assert answer.status == 307
    assert answer.headers["location"] == f"{either.origin}{root}{stream.url(6)}"
    assert answer.headers["stream-snapshot-offset"] == f"{6:016d}"


def test_there_may_be_no_latest_snapshot(stream: Snapshots) -> None:
    assert stream.latest().refusal == (404, "snapshot_not_found")
    assert stream.latest("HEAD").status == 404


# Reading (§2.5)


def test_reading_tells_all_about_a_snapshot(stream: Snapshots) -> None:
    stream.publish(6, content_type="text/csv; header=present")
    answer = stream.read(6)
    assert (answer.status, answer.body) == (200, b"folded")
    assert answer.headers["content-type"] == "text/csv; header=present"
    assert answer.headers["stream-snapshot-offset"] == answer.headers["stream-next-offset"] == f"{6:016d}"
    assert answer.headers["content-digest"] == digest_of(b"folded")
    assert answer.headers["etag"] == etag_of(6, b"folded", b"text/csv; header=present")
    assert answer.headers["content-length"] == "6"
    assert answer.headers["cache-control"] == "no-cache"
    assert "transfer-encoding" not in answer.headers
    assert "stream-up-to-date" not in answer.headers


def test_head_has_the_headers_of_get(stream: Snapshots) -> None:
    stream.publish(6)
    got, head = stream.read(6), stream.wire.request("HEAD", stream.url(6))
    assert (head.status, head.body) == (200, b"")
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}


@pytest.mark.parametrize("body", [b"folded", b""])
def test_a_snapshot_at_the_tail_is_up_to_date(stream: Snapshots, body: bytes) -> None:
    stream.publish(11, body)
    assert stream.read(11).headers["stream-up-to-date"] == "true"


def test_a_known_snapshot_is_not_sent_again(stream: Snapshots) -> None:
    etag = stream.publish(6).headers["etag"]
    answer = stream.read(6, if_none_match=etag)
    assert (answer.status, answer.headers["etag"]) == (304, etag)
    stream.publish(6, b"again")
    assert stream.read(6, if_none_match=etag).body == b"again"


@pytest.mark.parametrize("size", [1, 256 * 1024, 256 * 1024 + 1, 3_000_000])
def test_a_snapshot_of_any_size_is_read_whole(stream: Snapshots, size: int) -> None:
    body = (bytes(range(251)) * (size // 251 + 1))[:size]
    stream.publish(6, body)
    assert stream.read(6).body == body
    assert stream.read(6).body == body


def test_reads_of_snapshots_may_be_pipelined(stream: Snapshots) -> None:
    stream.publish(6, b"x" * 600_000)
    for _ in range(10):
        stream.wire.ask("GET", stream.url(6)).ask("HEAD", stream.url(6))
    for _ in range(10):
        assert len(stream.wire.read().body) == 600_000
        assert stream.wire.read(head_only=True).status == 200


@pytest.mark.parametrize("offset", [3, 9, "-1", "now"])
def test_a_snapshot_of_another_offset_is_a_404(stream: Snapshots, offset: int | str) -> None:
    stream.publish(6)
    assert stream.read(offset).refusal == (404, "snapshot_not_found")
    assert stream.delete(offset).refusal == (404, "snapshot_not_found")


@pytest.mark.parametrize("offset", ["bogus", "%zz", f"{6:017d}"])
def test_there_is_no_snapshot_at_what_is_no_offset(stream: Snapshots, offset: str) -> None:
    """002 §2.5: any URL but that of the latest is a 404."""
    stream.publish(6)
    assert stream.read(offset).refusal == (404, "snapshot_not_found")
    assert stream.delete(offset).refusal == (404, "snapshot_not_found")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_stream_that_is_not_there_has_no_snapshots(wire: Wire, path: str, method: str) -> None:
    assert wire.request(method, f"{path}/__ds/snapshot/{0:016d}").status == 404


# Deleting (§2.6), and retention


def test_a_snapshot_that_is_needed_stays(stream: Snapshots) -> None:
    stream.publish(6)
    assert stream.delete(6).refusal == (409, "snapshot_needed")
    assert stream.read(6).body == b"folded"


def test_a_snapshot_that_is_not_needed_can_be_deleted(stream: Snapshots) -> None:
    stream.publish(6, stream_snapshot_history="keep")
    assert stream.delete(6).status == 204
    assert stream.read(6).refusal == (404, "snapshot_not_found")
    assert stream.latest().status == 404


def test_what_a_snapshot_covers_can_be_cut_later(stream: Snapshots) -> None:
    stream.publish(6, stream_snapshot_history="keep")
    answer = stream.retain(3)
    assert (answer.status, answer.headers["stream-earliest-offset"]) == (204, f"{3:016d}")
    assert stream.wire.get(stream.path).refusal == (410, "offset_gone")
    assert stream.wire.get(f"{stream.path}?offset={3:016d}").body == b"twothree"
    assert stream.retain(3).status == 204


@pytest.mark.parametrize(
    "offset, refusal",
    [
        (0, (410, "offset_gone")),
        (5, (400, "invalid_offset")),
        (11, (409, "retention_beyond_snapshot")),
        ("-1", (400, "invalid_offset")),
        ("abc", (400, "invalid_offset")),
    ],
)
def test_retention_is_as_strict_as_publishing(stream: Snapshots, offset: int | str, refusal: tuple[int, str]) -> None:
    stream.publish(6, stream_snapshot_history="keep")
    stream.retain(3)
    assert stream.retain(offset).refusal == refusal


# While others are at it


def test_the_last_of_two_publications_at_an_offset_wins(stream: Snapshots, either: Server) -> None:
    with either.connect() as other:
        stream.begin(other, 6).send(b"fir")
        assert stream.publish(6, b"second").status == 204
        assert other.send(b"st ").read().status == 204
    assert stream.read(6).body == b"first "


def test_an_older_snapshot_does_not_follow_a_newer_one(stream: Snapshots, either: Server) -> None:
    with either.connect() as other:
        stream.begin(other, 3).send(b"old")
        assert stream.publish(6, b"new").status == 204
        assert other.send(b"est").read().refusal == (410, "offset_gone")
    assert stream.read(6).body == b"new"


def test_a_stream_that_was_deleted_meanwhile_takes_no_snapshot(stream: Snapshots, either: Server) -> None:
    with either.connect() as other:
        stream.begin(other, 6).send(b"fol")
        stream.wire.request("DELETE", stream.path)
        assert other.send(b"ded").read().refusal == (404, "stream_not_found")


def test_a_stream_that_was_created_anew_takes_no_snapshot_of_the_old_one(stream: Snapshots, either: Server) -> None:
    with either.connect() as other:
        stream.begin(other, 6).send(b"fol")
        stream.wire.request("DELETE", stream.path)
        stream.wire.create(stream.path, body=b"anew, but longer")
        assert other.send(b"ded").read().refusal == (404, "stream_not_found")
    assert stream.latest().refusal == (404, "snapshot_not_found")


def test_many_publications_at_once_leave_one_snapshot(stream: Snapshots, either: Server) -> None:
    wires = [either.connect() for _ in range(20)]
    for number, wire in enumerate(wires):
        wire.ask("PUT", stream.url(6), content_length="200000").send(b"%02d" % number * 50_000)
    for number, wire in enumerate(wires):
        wire.send(b"%02d" % number * 50_000)
    assert [wire.read().status for wire in wires] == [204] * 20
    body = stream.read(6).body
    assert body == body[:2] * 100_000
    for wire in wires:
        wire.close()


def test_what_is_being_read_stays_readable_when_it_is_replaced(stream: Snapshots, either: Server) -> None:
    stream.publish(6, b"a" * 5_000_000)
    with either.connect(4096) as reader:
        reader.ask("GET", stream.url(6)).read_until(b"\r\n\r\n")
        stream.publish(6, b"other")
        assert reader.read_exactly(5_000_000) == b"a" * 5_000_000


def test_a_put_to_the_path_of_a_buckets_snapshot_creates_no_stream(wire: Wire, path: str) -> None:
    """Gap G-62: on the base surface snapshots are below `__ds`."""
    wire.create(path, body=b"one")
    target = f"{path}/snapshot/{3:016d}"
    answer = wire.request("PUT", target, b"snapshot", content_type="text/plain")
    assert answer.refusal == (400, "invalid_path")
    assert f"{path}/__ds/snapshot/{3:016d}".encode() in answer.body
    assert wire.get(target).status == 404


@pytest.mark.parametrize("coding", ["gzip", "br", "identity, gzip", "gzip, identity"])
def test_a_packed_snapshot_is_a_415(stream: Snapshots, coding: str) -> None:
    """As a packed append: readers would not be told that it is packed."""
    assert stream.publish(6, content_encoding=coding).refusal == (415, "unsupported_coding")
    assert stream.latest().status == 404


def test_a_snapshot_may_say_that_it_is_not_packed(stream: Snapshots) -> None:
    assert stream.publish(6, content_encoding="Identity").status == 204
