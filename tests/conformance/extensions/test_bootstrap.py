"""The bootstrap request and its multipart answer (002 §3.1, §3.2)."""

import pytest

from tests.conformance.extensions.client import Answer
from tests.conformance.extensions.multipart import CRLF, Part, parse_bootstrap, parse_boundary
from tests.conformance.extensions.streams import Namespace, Stream

TRICKY = [
    b"\r\n", b"\n", b"\r", b"--", b"\r\n--", b"\x00\xff", b"Content-Type: text/html\r\n\r\nno header",
    b"--x--\r\n\r\n", b" leading and trailing \r\n", bytes(range(256)), b"=3D=20", b"\r\n\r\n\r\n", b"From me\n.\n",
]  # fmt: skip


def parts(answer: Answer) -> list[Part]:
    assert answer.status == 200, answer
    return parse_bootstrap(answer.headers["content-type"], answer.body)


# The request


@pytest.mark.parametrize("live", ["sse", "long-poll", "true", ""])
def test_a_live_bootstrap_is_refused(stream: Stream, live: str) -> None:
    """002 §3.1: servers SHOULD reject any live query parameter on /bootstrap with 400 Bad Request."""
    stream.append(b"one")
    assert stream.bootstrap(live=live).status == 400


def test_bootstrap_begins_at_the_snapshot_whatever_parameters_say(stream: Stream) -> None:
    """002 §3.1: it does not define any query parameters of its own."""
    stream.append(b"one")
    assert parts(stream.bootstrap(offset="now", limit=1, x="y"))[1:] == [Part("text/plain", b"one")]


# Response headers


def test_the_content_type_is_multipart_mixed_with_a_boundary(stream: Stream) -> None:
    """002 §3.2: Content-Type: multipart/mixed; boundary=<token>."""
    boundary = parse_boundary(stream.bootstrap().headers["content-type"])
    assert 1 <= len(boundary) <= 70


def test_the_headers_name_the_snapshot(stream: Stream) -> None:
    """002 §3.2: Stream-Snapshot-Offset: the snapshot offset."""
    offset = stream.published(stream.append(b"one"))
    stream.append(b"two")
    assert stream.bootstrap().headers["stream-snapshot-offset"] == offset


def test_the_next_offset_comes_after_everything_returned(stream: Stream) -> None:
    """002 §3.2: Stream-Next-Offset: the next offset after all returned data."""
    stream.published(stream.append(b"one"))
    tail = stream.append(b"two", b"three")
    assert stream.bootstrap().next_offset == tail


def test_bootstrap_says_that_it_is_up_to_date(stream: Stream) -> None:
    """002 §3.2: Stream-Up-To-Date: Boolean."""
    stream.append(b"one")
    answer = stream.bootstrap()
    assert answer.up_to_date == (answer.next_offset == stream.tail)
    assert answer.headers["stream-up-to-date"] in {"true", "false"}


def test_bootstrap_is_not_stored_by_caches(stream: Stream) -> None:
    """002 §3.2: Cache-Control: no-store, in the example."""
    assert stream.bootstrap().headers["cache-control"] == "no-store"


# The first part


def test_the_first_part_is_the_snapshot(stream: Stream) -> None:
    """002 §3.2: the part body MUST be the raw snapshot bytes."""
    offset = stream.append(b"one")
    for blob in TRICKY:
        stream.published(offset, blob)
        assert parts(stream.bootstrap()) == [Part("application/octet-stream", blob)]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=utf-8", "image/svg+xml"])
def test_the_first_part_has_the_content_type_of_the_snapshot(stream: Stream, content_type: str) -> None:
    """002 §3.2: the part Content-Type MUST equal the snapshot blob's stored content type."""
    stream.published(stream.append(b"one"), b"{}", content_type=content_type)
    assert parts(stream.bootstrap())[0].content_type == content_type


def test_without_a_snapshot_the_first_part_is_there_and_empty(stream: Stream) -> None:
    """002 §3.2: if no snapshot exists, the server MUST still emit an empty first part."""
    stream.append(b"one", b"two")
    assert [part.body for part in parts(stream.bootstrap())] == [b"", b"one", b"two"]


def test_without_a_snapshot_its_offset_is_minus_one(stream: Stream) -> None:
    """002 §3.2: Stream-Snapshot-Offset MUST be -1."""
    stream.append(b"one")
    assert stream.bootstrap().headers["stream-snapshot-offset"] == "-1"


def test_without_a_snapshot_the_first_part_is_of_bytes(stream: Stream) -> None:
    """002 §3.2: that empty part's Content-Type MUST be application/octet-stream."""
    assert parts(stream.bootstrap()) == [Part("application/octet-stream", b"")]


def test_without_a_snapshot_the_updates_begin_at_the_earliest_offset(stream: Stream) -> None:
    """002 §3.2: update parts then begin at the earliest retained offset."""
    stream.append(b"one", b"two")
    updates = parts(stream.bootstrap())[1:]
    assert b"".join(part.body for part in updates) == stream.read(offset="-1").body


# The updates


@pytest.mark.parametrize("content_type", ["application/octet-stream", "text/plain"])
def test_each_update_is_a_part_of_its_own(namespace: Namespace, content_type: str) -> None:
    """002 §3.2: each part body MUST be exactly one retained update message."""
    stream = namespace.fresh(content_type, b"one")
    stream.published(stream.tail)
    stream.append(*TRICKY)
    assert [part.body for part in parts(stream.bootstrap())[1:]] == TRICKY


@pytest.mark.parametrize("content_type", ["application/octet-stream", "text/plain; charset=utf-8", "application/json"])
def test_an_update_has_the_content_type_of_the_stream(namespace: Namespace, content_type: str) -> None:
    """002 §3.2: the part Content-Type MUST be the content type of that update."""
    stream = namespace.fresh(content_type, b"1", b"2")
    assert [part.content_type for part in parts(stream.bootstrap())[1:]] == [content_type] * 2


def test_each_json_message_is_a_part_as_it_was_appended(namespace: Namespace) -> None:
    """002 §3.2: exactly one retained update message from the stream."""
    stream = namespace.fresh("application/json", b'[{"b": 1, "a" :2}, 1e2]', b"12345678901234567890", b'"\\u00e9"')
    bodies = [part.body for part in parts(stream.bootstrap())[1:]]
    assert bodies == [b'{"b": 1, "a" :2}', b"1e2", b"12345678901234567890", b'"\\u00e9"']


def test_the_body_is_multipart_from_its_first_byte_to_its_last(stream: Stream) -> None:
    """002 §3.2: servers MUST NOT wrap the entire bootstrap response in an outer binary framing container."""
    stream.append(b"one")
    answer = stream.bootstrap()
    delimiter = b"--" + parse_boundary(answer.headers["content-type"])
    assert answer.body.startswith(delimiter + CRLF)
    assert answer.body.removesuffix(CRLF).endswith(CRLF + delimiter + b"--")


def test_updates_keep_the_boundaries_of_ordinary_reads(stream: Stream) -> None:
    """002 §3.2: implementations MUST preserve the boundaries they use for ordinary reads and snapshot offsets."""
    offsets = [stream.append(message) for message in (b"one", b"three", b"seven!!")]
    sizes = [int(end) - int(start) for start, end in zip(["0", *offsets], offsets, strict=False)]
    assert [len(part.body) for part in parts(stream.bootstrap())[1:]] == sizes
    for index, offset in enumerate(offsets):
        stream.published(offset)
        assert len(parts(stream.bootstrap())[1:]) == len(offsets) - index - 1


def test_binary_messages_are_not_reframed(namespace: Namespace) -> None:
    """002 §3.2: they MUST NOT reinterpret or reframe binary payloads when constructing bootstrap parts."""
    framed = [b"\x00\x00\x00\x03abc\x00\x00\x00\x01d", b"\x00\x00\x00\x02", b"ef", b"{}\n{}\n", b"\x1f\x8b\x08"]
    stream = namespace.fresh("application/octet-stream", *framed)
    assert [part.body for part in parts(stream.bootstrap())[1:]] == framed


def test_a_message_that_looks_like_the_boundary_does_not_end_its_part(stream: Stream) -> None:
    """002 §3.2: the multipart boundary defines the bootstrap message boundaries."""
    for number in range(3):
        boundary = parse_boundary(stream.bootstrap().headers["content-type"])
        stream.append(b"%d\r\n--%b\r\nContent-Type: a/b\r\n\r\n\r\n--%b--\r\n" % (number, boundary, boundary))
    updates = parts(stream.bootstrap())[1:]
    assert b"".join(part.body for part in updates) == stream.read(offset="-1").body
    assert len(updates) == 3


def test_a_long_stream_comes_whole(stream: Stream) -> None:
    """002 §3.2: all retained updates after the snapshot point, in one response."""
    messages = [b"%d:" % number + b"x" * 150_000 for number in range(10)]
    stream.append(*messages)
    answer = stream.bootstrap()
    assert [part.body for part in parts(answer)[1:]] == messages
    assert answer.next_offset == stream.tail


# Response codes


def test_bootstrap_of_an_empty_stream_is_200(stream: Stream) -> None:
    """002 §3.2: 200 OK: bootstrap data returned."""
    answer = stream.bootstrap()
    assert (answer.status, answer.next_offset) == (200, stream.tail)


def test_bootstrap_of_a_missing_stream_is_404(namespace: Namespace) -> None:
    """002 §3.2: 404 Not Found."""
    assert namespace.stream("missing").bootstrap().status == 404
