"""Generated conversations with uploads in them: in whatever pieces they come, nothing overtakes and nothing is lost."""

from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec import Struct

from tests.kit.server_thread import RunningServer
from tests.kit.wire import Wire, chunked, render
from tests.server.http1.test_generated_requests import send_in_pieces
from tests.server.uploads.blobs import digest_of

QUICK = settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
KEEP = {"stream_snapshot_history": "keep"}


class Sent(Struct, frozen=True):
    """A request of some kind to the stream of the conversation, or to its snapshots."""

    kind: str
    body: bytes = b""


class Model:
    """What the stream and its latest snapshot are, by what was answered."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.tail = len(b"beginning")
        self.snapshot: tuple[int, bytes] | None = None

    def url(self, offset: int) -> str:
        return f"{self.path}/__ds/snapshot/{offset:016d}"

    def bytes_of(self, sent: Sent) -> bytes:
        """Write a request, on the assumption that all before it are answered as they should be."""
        latest = self.url(self.snapshot[0] if self.snapshot else 0)
        here, beyond = self.url(self.tail), self.url(self.tail + 1000)
        if sent.kind == "append":
            self.tail += len(sent.body)
        elif sent.kind in {"publish", "publish in chunks"}:
            self.snapshot = (self.tail, sent.body)
        framed = chunked(*[part for part in (sent.body[:5], sent.body[5:]) if part])
        return {
            "append": render("POST", self.path, sent.body, content_type="text/plain"),
            "publish": render("PUT", here, sent.body, **KEEP),
            "publish in chunks": render("PUT", here, transfer_encoding="chunked", **KEEP) + framed,
            "publish other bytes": render("PUT", here, sent.body, content_digest=digest_of(b"these")),
            "publish beyond": render("PUT", beyond, sent.body),
            "read": render("GET", latest),
            "look": render("HEAD", self.path),
        }[sent.kind]

    def check(self, wire: Wire, sent: Sent) -> bool:
        """Read an answer and compare it. Tells whether the connection goes on."""
        answer = wire.read(head_only=sent.kind == "look")
        match sent.kind:
            case "append":
                self.tail += len(sent.body)
                assert (answer.status, int(answer.next_offset)) == (204, self.tail)
            case "publish" | "publish in chunks":
                self.snapshot = (self.tail, sent.body)
                assert (answer.status, answer.headers["content-digest"]) == (204, digest_of(sent.body))
            case "publish other bytes":
                assert answer.refusal == (400, "digest_mismatch")
            case "publish beyond":
                assert answer.refusal == (409, "snapshot_beyond_tail")
            case "read":
                assert (answer.status, answer.body) == (
                    (200, self.snapshot[1]) if self.snapshot else (404, answer.body)
                )
            case _:
                assert int(answer.next_offset) == self.tail
        return answer.headers.get("connection") != "close"


bodies = st.binary(max_size=2000) | st.integers(60_000, 70_000).map(lambda size: b"x" * size)
requests = st.one_of(
    st.builds(Sent, st.sampled_from(["publish", "publish in chunks", "publish other bytes"]), bodies),
    st.builds(Sent, st.just("append"), st.binary(min_size=1, max_size=50)),
    st.builds(Sent, st.sampled_from(["read", "look"])),
)
refusals = st.builds(Sent, st.just("publish beyond"), bodies)


@QUICK
@given(
    conversation=st.lists(st.one_of(requests, requests, requests, requests, refusals), max_size=20),
    cuts=st.lists(st.floats(0, 1), max_size=12),
    number=st.uuids(),
)
def test_uploads_in_a_pipeline_in_any_pieces_are_answered_in_order(
    server: RunningServer, conversation: list[Sent], cuts: list[float], number: object
) -> None:
    """A refused body that was not whole yet may end the connection; then it is answered, and nothing after it."""
    path = f"/v1/stream/{number}"
    with server.connect() as wire:
        wire.create(path, body=b"beginning")
        asked, answered = Model(path), Model(path)
        send_in_pieces(wire, b"".join([asked.bytes_of(sent) for sent in conversation]), cuts)
        goes_on = all(answered.check(wire, sent) for sent in conversation)
        assert goes_on or wire.ended()
    with server.connect() as wire:
        assert int(wire.request("HEAD", path).next_offset) == answered.tail
        wire.request("DELETE", path)


damages = st.lists(st.tuples(st.floats(0, 1), st.binary(max_size=4)), min_size=1, max_size=6)


@QUICK
@given(changes=damages, cuts=st.lists(st.floats(0, 1), max_size=4), number=st.uuids())
def test_a_damaged_upload_is_answered_or_ended_and_leaves_nothing(
    server: RunningServer, changes: list[tuple[float, bytes]], cuts: list[float], number: object
) -> None:
    path = f"/v1/stream/{number}"
    with server.connect() as wire:
        wire.create(path, body=b"beginning")
    request = bytearray(render("PUT", f"{path}/__ds/snapshot/{9:016d}", transfer_encoding="chunked"))
    request += chunked(b"hello", b"world", trailers=b"X: y\r\n")
    for place, replacement in changes:
        start = int(place * len(request))
        request[start : start + 1] = replacement
    with server.connect() as wire:
        send_in_pieces(wire, bytes(request), cuts)
        received = wire.stop_sending().rest()
        assert received == b"" or received.startswith(b"HTTP/1.1 ")
        assert b"HTTP/1.1 500" not in received
    with server.connect() as other:
        other.request("DELETE", path)
        assert not server.find(lambda state: state.streaming)
