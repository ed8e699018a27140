"""Known heads: the recognizer and the parser make the same of any bytes."""

import pytest
from hypothesis import given, settings, strategies as st

from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import Peer, Request, Response
from everbrook.server.http1.body import Http1Request, StreamedRequest
from everbrook.server.http1.known_heads import KNOWN_BYTES, MAX_BODY_BYTES, MAX_HEAD_BYTES, MAX_UNKNOWN, KnownHeads
from everbrook.server.http1.parser import RequestParser
from everbrook.settings import LimitSettings

LIMITS = LimitSettings()


class NoHeads(KnownHeads):
    """Learns nothing, so that every read is parsed."""

    def __init__(self) -> None:
        super().__init__(lambda _: None)

    def learn(self, *_: object) -> None:
        """Forget it."""


class Client:
    """A connection of which each read is given to a parser."""

    def __init__(self, heads: KnownHeads, *, judges_heads: bool = False, limits: LimitSettings = LIMITS) -> None:
        self.seen: list[object] = []
        self.requests: list[Http1Request] = []
        self.continues = 0
        self.parser = RequestParser(
            limits, self._take, self._take, self._go_on, lambda path: path, heads, judges_heads=judges_heads
        )
        self.parser.peer = Peer("127.0.0.1", number=1)

    def _take(self, request: Http1Request) -> None:
        self.requests.append(request)
        body = b"" if isinstance(request, StreamedRequest) else request.body
        meaning = (request.method, request.path, request.query, request.headers, body, request.connection)
        self.seen.append((type(request), *meaning, request.chunkable, request.peer, request.scheme))

    def _go_on(self) -> None:
        self.continues += 1

    def read(self, data: bytes) -> bool:
        """Give one read to the parser; tell whether it refused."""
        try:
            self.parser.feed(data)
        except ProtocolError as error:
            self.seen.append((type(error), error.detail))
            return True
        return False


def post(body: bytes = b"x", *lines: bytes, target: bytes = b"/v1/stream/s") -> bytes:
    head = (b"POST %b HTTP/1.1" % target, b"Host: localhost", b"Content-Length: %d" % len(body), *lines)
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def get(target: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((b"GET %b HTTP/1.1" % target, b"Host: localhost", *lines)) + b"\r\n\r\n"


def test_a_head_is_known_from_the_third_request_on() -> None:
    heads = KnownHeads(lambda _: None)
    client = Client(heads)
    sizes = []
    for body in (b"a", b"bcd", b"ef"):
        client.read(post(body))
        sizes.append(len(heads))
    assert sizes == [0, 1, 1]
    assert [seen[5] for seen in client.seen if isinstance(seen, tuple)] == [b"a", b"bcd", b"ef"]


def test_what_was_prepared_comes_with_the_request() -> None:
    def prepared(_request: Request, _lines: bytes) -> Response:
        return Response(204, b"")

    client = Client(KnownHeads(lambda _: prepared))
    for seq in range(3):
        client.read(post(b"x", b"Producer-Seq: %d" % seq))
    assert [request.prepared for request in client.requests] == [None, None, prepared]
    assert client.requests[-1].headers[b"producer-seq"] == b"2"


def test_forgotten_heads_are_parsed_again() -> None:
    heads = KnownHeads(lambda _: None)
    client = Client(heads)
    for _ in range(3):
        client.read(post())
    heads.clear()
    client.read(post())
    assert len(heads) == 0
    assert len(client.seen) == 4


def test_a_body_may_come_after_its_head() -> None:
    client = Client(KnownHeads(lambda _: None))
    for _ in range(3):
        data = post(b"body")
        for piece in (data[:-4], data[-4:-2], data[-2:]):
            client.read(piece)
    states = []
    for piece in (post(b"body")[:-4], b"body"):
        client.read(piece)
        states.append(client.parser.receiving)
    assert states == [True, False]
    assert [seen[5] for seen in client.seen if isinstance(seen, tuple)] == [b"body"] * 4


UNKNOWABLE = {
    "it ends the connection": post(b"x", b"Connection: close"),
    "it expects": get(b"/v1/stream/s", b"Expect: 100-continue"),
    "it is chunked": b"POST /s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    "it offers an upgrade": post(b"x", b"Connection: Upgrade", b"Upgrade: h2c"),
    "a header comes twice": post(b"x", b"Producer-Seq: 1", b"Producer-Seq: 1"),
    "the version is 1.0": post()
    .replace(b"HTTP/1.1", b"HTTP/1.0")
    .replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n"),
    "the method is rare": post().replace(b"POST", b"PUT"),
    "it is about a subscription": post(target=b"/v1/stream/__ds/subscriptions/s/ack"),
    "the head is long": post(b"x", b"A: %b" % (b"a" * MAX_HEAD_BYTES)),
    "the body is large": post(b"x" * (MAX_BODY_BYTES + 1)),
}


@pytest.mark.parametrize("reason", UNKNOWABLE)
def test_a_head_is_not_learned_if(reason: str) -> None:
    heads = KnownHeads(lambda _: None)
    for _ in range(4):
        Client(heads).read(UNKNOWABLE[reason])
    assert len(heads) == 0


def test_the_memory_of_unknown_heads_is_bounded() -> None:
    heads = KnownHeads(lambda _: None)
    client = Client(heads)
    for number in range(MAX_UNKNOWN + 2):
        client.read(get(b"/v1/stream/s%d" % number))
    assert heads.unknown_count <= MAX_UNKNOWN


def test_the_memory_of_known_heads_is_bounded() -> None:
    """A short head takes far more memory than its text."""
    heads = KnownHeads(lambda _: None, max_bytes=10 * KNOWN_BYTES)
    client = Client(heads)
    for number in range(30):
        for _ in range(2):
            client.read(get(b"/%d" % number))
        assert len(heads) < 10
    assert heads.generation > 1


def test_a_large_body_is_announced_though_its_head_is_known() -> None:
    heads = KnownHeads(lambda _: None)
    client = Client(heads, judges_heads=True)
    for size in (1, 2, 3, MAX_BODY_BYTES + 1):
        client.read(post(b"x" * size))
    assert len(heads) == 1
    assert [seen[0] for seen in client.seen if isinstance(seen, tuple)].count(StreamedRequest) == 2


def test_a_head_is_learned_only_from_its_own_request() -> None:
    """The body of an upload is taken while it arrives, and the next request of the same read has the same headers."""
    heads = KnownHeads(lambda _: None)
    upload = post(b"x").replace(b"POST /v1/stream/s ", b"PUT /v1/stream/s/__ds/snapshot/0 ")
    for _ in range(3):
        Client(heads).read(upload + post(b"x"))
    assert not [shape for shape in heads.shapes if shape.startswith(b"PUT")]


@pytest.mark.parametrize("target", [b"/v1/stream/a&offset=%d&b?offset=-1", b"/v1/stream/a&offset=%d"])
def test_a_number_in_a_path_does_not_vary(target: bytes) -> None:
    client = Client(KnownHeads(lambda _: None))
    for number in (1, 1, 1, 2):
        client.read(get(target % number, b"Referer: http://localhost/?a"))
    paths = [request.path for request in client.requests]
    assert paths[2:] == [(target % number).partition(b"?")[0] for number in (1, 2)]
    assert all(b"" not in request.headers for request in client.requests)


@pytest.mark.parametrize("last", [post(b"x", b"Connection: close"), b"POST /v1/stream/s HTTP/1.0\r\n\r\n"])
def test_nothing_is_recognized_after_the_last_request(last: bytes) -> None:
    """RFC 9112 §9.6."""
    client = Client(KnownHeads(lambda _: None))
    for _ in range(3):
        client.read(post())
    client.read(last)
    assert client.read(post())
    assert len(client.requests) == 4


def test_nothing_is_recognized_after_a_last_upload() -> None:
    client = Client(KnownHeads(lambda _: None), judges_heads=True)
    for _ in range(3):
        client.read(post())
    client.read(post(bytes(MAX_BODY_BYTES + 1), b"Connection: close"))
    assert client.read(post())


def test_a_long_value_does_not_exceed_the_limit_of_a_head() -> None:
    limits = LimitSettings(max_header_bytes=1024)
    client = Client(KnownHeads(lambda _: None), limits=limits)
    for value in (b"1", b"2", b"3"):
        client.read(post(b"x", b"Stream-Seq: " + value))
    assert client.read(post(b"x", b"Stream-Seq: " + 1000 * b"4"))


def test_a_head_with_nul_is_not_taken_for_a_known_one() -> None:
    heads = KnownHeads(lambda _: None)
    client = Client(heads)
    for _ in range(2):
        client.read(post(b""))
    (shape,) = heads.shapes
    assert shape.count(b"\0") == 2
    assert client.read(shape)


# Generated: heads with the shape of known ones or nearly so, in pieces, several at once, cut short or doubled

NAMES = (
    b"Producer-Seq",
    b"producer-epoch",
    b"Stream-Seq",
    b"If-None-Match",
    b"Producer-Position",
    b"X-Other",
    b"Traceparent",
)
TARGETS = (
    b"/v1/stream/s",
    b"/v1/stream/s?offset=%b",
    b"/v1/stream/s?offset=%b&cursor=%b",
    b"/v1/stream/s?live=sse&cursor=%b",
    b"http://a/v1/stream/s?offset=%b",
    b"/ds/b/s?offset=%b#x",
)
numbers = st.integers(0, 10**12).map(lambda number: b"%d" % number)
odd_values = st.one_of(
    st.sampled_from(
        [b"", b" 1", b"1 ", b"a b", b"a\tb", b"\0", b"a\0b", b"\xff", b'"0:1"', b"1\r", b"1\n", b"-1", b"now"]
    ),
    st.sampled_from(
        [b"1\r\nX-Other: 2", b"1\r\n\r\n", b"1\n\n", b"1&live=sse", b"1#", b"1 HTTP/1.1\r\nHost: b\r\n\r\n"]
    ),
    st.binary(max_size=4),
)
values = st.one_of(numbers, numbers, odd_values)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Requests of one form with some values, which makes the form known, and then with others."""
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3))
    target = draw(st.sampled_from(TARGETS))
    posts = draw(st.booleans())

    def request(value: st.SearchStrategy[bytes]) -> bytes:
        filled = target % tuple(draw(value) for _ in range(target.count(b"%b")))
        headers = [b"%b: %b" % (name, draw(value)) for name in names]
        return post(draw(st.binary(max_size=5)), *headers, target=filled) if posts else get(filled, *headers)

    known = [request(numbers) for _ in range(3)]
    others = [request(values) for _ in range(draw(st.integers(1, 4)))]
    return known + [_disturbed(draw, each) for each in others]


def _disturbed(draw: st.DrawFn, request: bytes) -> bytes:
    changes = (
        request,
        request * 2,
        b"\r\n" + request,
        request.replace(b"Content-Length: ", b"Content-Length: 0"),
        request.replace(b"Content-Length: ", b"content-length:"),
        request.replace(b"\r\n", b"\n"),
        request.replace(b"\r\n", b"\r\nHost: b\r\n", 1),
        request.replace(b"localhost", b"localhost\0"),
    )
    return draw(st.sampled_from((request, request, *changes)))


@settings(max_examples=500, deadline=None)
@given(conversations(), st.lists(st.integers(0, 300), max_size=4))
def test_recognizer_and_parser_agree(sent: list[bytes], cuts: list[int]) -> None:
    heads = KnownHeads(lambda _: None)
    ours, parsed = Client(heads), Client(NoHeads())
    for place, data in enumerate(sent):
        cut = cuts[place - 3] if place - 3 in range(len(cuts)) else len(data)
        for piece in (data[:cut], data[cut:]):
            if not piece:
                continue
            refused = ours.read(piece), parsed.read(piece)
            assert refused[0] == refused[1]
            assert ours.parser.receiving == parsed.parser.receiving
            if refused[0]:
                ours, parsed = _again(ours, heads), _again(parsed, NoHeads())
    assert ours.seen == parsed.seen


def _again(client: Client, heads: KnownHeads) -> Client:
    """Open another connection after a refusal, with what was seen so far."""
    another = Client(heads)
    another.seen = client.seen
    return another
