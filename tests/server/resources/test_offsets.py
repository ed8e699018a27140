"""Where a read begins, and where its page ends (§5.6, §8)."""

import pytest

from tests.kit.server_thread import RunningServer
from tests.kit.servers import Connect, Start
from tests.kit.wire import Answer, Wire

MALFORMED = [
    "",
    "0",
    "5",
    "-2",
    "000000000000000",
    "00000000000000000",
    "0000000000000000_0000000000000000",
    "000000000000000a",
    "+000000000000005",
    "0,1",
    "0%201",
    "%200000000000000000",
    "0000000000000000%20",
    "0000000000000000%0a",
    "0000000000000000%00",
    "a/b",
    "../a",
    "NOW",
    "now%0a",
    "%",
    "%zz",
    "%ef%bc%90" * 16,
]


@pytest.mark.parametrize("offset", MALFORMED)
@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
def test_a_malformed_offset_is_a_400(wire: Wire, path: str, offset: str, live: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.get(f"{path}?offset={offset}{live}")
    assert answer.status == 400
    assert answer.problem["code"] in {"invalid_offset", "invalid_query"}


@pytest.mark.parametrize("offset", MALFORMED[:5])
def test_a_malformed_offset_of_a_missing_stream_is_a_404(wire: Wire, path: str, offset: str) -> None:
    assert wire.get(f"{path}?offset={offset}").refusal == (404, "stream_not_found")


def test_a_repeated_offset_is_a_400(wire: Wire, path: str) -> None:
    wire.create(path)
    assert wire.get(f"{path}?offset=-1&offset=-1").status == 400


@pytest.mark.parametrize("query", ["", "?", "?offset=-1", "?other=1", "?offset=-1&other=a&other=b"])
def test_the_beginning_is_where_a_read_begins_unless_told_otherwise(wire: Wire, path: str, query: str) -> None:
    wire.create(path, body=b"hello")
    assert wire.get(path + query).body == b"hello"


def test_a_percent_encoded_offset_is_the_same_offset(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    assert wire.get(f"{path}?offset=%2D1").body == b"hello"


def test_offsets_are_counts_of_bytes_in_16_digits(wire: Wire, path: str) -> None:
    assert wire.create(path, body=b"hello").next_offset == "0000000000000005"
    assert wire.append(path, b"world!").next_offset == "0000000000000011"


def test_every_issued_offset_begins_a_read(wire: Wire, path: str) -> None:
    offsets = [wire.create(path).next_offset]
    offsets += [wire.append(path, b"%d" % number).next_offset for number in range(5)]
    assert [wire.get(f"{path}?offset={offset}").body for offset in offsets] == [
        b"01234"[number:] for number in range(6)
    ]


@pytest.mark.parametrize("content_type, body", [("text/plain", b"hello"), ("application/json", b'["a","b"]')])
@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
def test_an_offset_inside_a_message_is_a_400(wire: Wire, path: str, content_type: str, body: bytes, live: str) -> None:
    wire.create(path, content_type, body)
    assert wire.get(f"{path}?offset={1:016d}{live}").refusal == (400, "invalid_offset")


def test_messages_of_a_json_batch_have_boundaries_of_their_own(wire: Wire, path: str) -> None:
    wire.create(path, "application/json", b'["a","b"]')
    assert wire.get(f"{path}?offset={4:016d}").body == b'["b"]'


@pytest.mark.parametrize("offset", ["0000000000000006", "9999999999999999"])
def test_a_read_past_the_tail_is_empty_and_tells_the_tail(wire: Wire, path: str, offset: str) -> None:
    wire.create(path, body=b"hello")
    answer = wire.get(f"{path}?offset={offset}")
    assert (answer.status, answer.body, answer.next_offset) == (200, b"", "0000000000000005")
    assert answer.headers["stream-up-to-date"] == "true"


@pytest.mark.parametrize("content_type, nothing", [("text/plain", b""), ("application/json", b"[]")])
def test_nothing_is_an_empty_body_or_an_empty_array(wire: Wire, path: str, content_type: str, nothing: bytes) -> None:
    wire.create(path, content_type)
    assert [wire.get(f"{path}{query}").body for query in ("", "?offset=now", f"?offset={0:016d}")] == [nothing] * 3


def test_now_is_the_tail(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello", stream_closed="true")
    answer = wire.get(f"{path}?offset=now")
    assert (answer.body, answer.next_offset) == (b"", "0000000000000005")
    assert (answer.headers["stream-up-to-date"], answer.headers["stream-closed"]) == ("true", "true")


@pytest.fixture
def paged(start: Start) -> RunningServer:
    return start(limits__max_page_bytes=10)


@pytest.mark.parametrize("content_type", ["text/plain", "application/json"])
def test_pages_are_bounded_end_at_messages_and_join_without_a_gap(
    paged: RunningServer, connect: Connect, path: str, content_type: str
) -> None:
    wire = connect(paged)
    wire.create(path, content_type)
    for number in range(10):
        wire.append(path, b"%d" % (111 * number + 100), content_type)
    offset, pages = "-1", list[Answer]()
    while not pages or "stream-up-to-date" not in pages[-1].headers:
        pages.append(wire.get(f"{path}?offset={offset}"))
        offset = pages[-1].next_offset
    bodies = [page.body.strip(b"[]") for page in pages]
    assert max(map(len, bodies)) <= 11
    separator = b"," if content_type == "application/json" else b""
    assert separator.join(bodies) == separator.join(b"%d" % (111 * number + 100) for number in range(10))


def test_only_the_last_page_is_up_to_date_and_closed(paged: RunningServer, connect: Connect, path: str) -> None:
    wire = connect(paged)
    wire.create(path, body=b"a" * 8)
    wire.append(path, b"b" * 8, stream_closed="true")
    first, second = wire.get(path), wire.get(f"{path}?offset={8:016d}")
    assert first.body == b"a" * 8
    assert not {"stream-up-to-date", "stream-closed"} & first.headers.keys()
    assert (second.headers["stream-up-to-date"], second.headers["stream-closed"]) == ("true", "true")


def test_a_message_larger_than_a_page_comes_whole(paged: RunningServer, connect: Connect, path: str) -> None:
    wire = connect(paged)
    wire.create(path, body=b"a" * 100)
    wire.append(path, b"b")
    assert wire.get(path).body == b"a" * 100


def test_a_json_batch_may_be_cut_into_pages(paged: RunningServer, connect: Connect, path: str) -> None:
    wire = connect(paged)
    wire.create(path, "application/json", b'["aaa","bbb","ccc"]')
    first = wire.get(path)
    assert first.body == b'["aaa"]'
    assert wire.get(f"{path}?offset={first.next_offset}").body == b'["bbb"]'
