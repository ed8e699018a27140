"""Generated conversations: whatever is sent, in whatever pieces, answers come in order or the connection ends."""

from itertools import pairwise

from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Struct

from tests.kit.server_thread import RunningServer
from tests.kit.wire import Wire, chunked, render

QUICK = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Sent(Struct, frozen=True):
    """A request of some kind to the stream of the conversation."""

    kind: str
    body: bytes = b""


def bytes_of(sent: Sent, path: str) -> bytes:
    text, body = {"content_type": "text/plain"}, sent.body
    pieces = [piece for piece in (body[:1], body[1:]) if piece]
    return {
        "append": render("POST", path, body, **text),
        "append in chunks": render("POST", path, transfer_encoding="chunked", **text) + chunked(*pieces),
        "append with an offer": render("POST", path, body, upgrade="h2c", connection="Upgrade", **text),
        "read": render("GET", path),
        "poll": render("GET", f"{path}?offset=-1&live=long-poll"),
        "look": render("HEAD", path),
        "bad path": render("GET", f"{path}/../x"),
        "unknown method": render("PATCH", path),
    }[sent.kind]


def check(wire: Wire, sent: Sent, written: bytes) -> bytes:
    """Read an answer, compare it, and give what the stream holds after it."""
    answer = wire.read(head_only=sent.kind == "look")
    match sent.kind:
        case "append" | "append in chunks" | "append with an offer":
            written += sent.body
            assert (answer.status, int(answer.next_offset)) == (204, len(written))
        case "read" | "poll":
            assert (answer.status, answer.body) == (200, written)
        case "look":
            assert int(answer.next_offset) == len(written)
        case "bad path":
            assert answer.status == 400
        case _:
            assert answer.status == 405
    return written


bodies = st.binary(min_size=1, max_size=3000)
requests = st.one_of(
    st.builds(Sent, st.sampled_from(["append", "append in chunks", "append with an offer"]), bodies),
    st.builds(Sent, st.sampled_from(["read", "poll", "look", "bad path", "unknown method"])),
)


def send_in_pieces(wire: Wire, data: bytes, cuts: list[float]) -> None:
    places = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    for start, end in pairwise(places):
        wire.send(data[start:end])


@QUICK
@given(conversation=st.lists(requests, max_size=30), cuts=st.lists(st.floats(0, 1), max_size=12), number=st.uuids())
def test_a_pipeline_in_any_pieces_is_answered_in_order(
    server: RunningServer, conversation: list[Sent], cuts: list[float], number: object
) -> None:
    path, written = f"/v1/stream/{number}", b"beginning"
    with server.connect() as wire:
        wire.create(path, body=written)
        send_in_pieces(wire, b"".join(bytes_of(sent, path) for sent in conversation), cuts)
        for sent in conversation:
            written = check(wire, sent, written)
        wire.request("DELETE", path)


mutations = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), min_size=1, max_size=6)


@QUICK
@given(changes=mutations, cuts=st.lists(st.floats(0, 1), max_size=4))
def test_a_damaged_request_is_answered_or_ended_and_nobody_else_notices(
    server: RunningServer, changes: list[tuple[float, bytes]], cuts: list[float]
) -> None:
    request = bytearray(render("POST", "/v1/stream/none", content_type="text/plain", transfer_encoding="chunked"))
    request += chunked(b"hello", b"world", trailers=b"X: y\r\n")
    for place, replacement in changes:
        start = int(place * len(request))
        request[start : start + 1] = replacement
    with server.connect() as wire:
        send_in_pieces(wire, bytes(request), cuts)
        wire.stop_sending()
        for status_line in [line for line in wire.rest().split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]:
            assert status_line.split()[1] in {b"400", b"404", b"405", b"408", b"413", b"431", b"501", b"505"}
    with server.connect() as other:
        assert other.get("/healthz").status == 200


@QUICK
@given(noise=st.binary(max_size=2000))
def test_noise_is_refused(server: RunningServer, noise: bytes) -> None:
    with server.connect() as wire:
        try:
            received = wire.send(noise).stop_sending().rest()
        except OSError:
            return
        assert received == b"" or received.startswith(b"HTTP/1.1 ")
