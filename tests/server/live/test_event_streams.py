"""Server-Sent Events (§5.8)."""

import base64
import threading
import time

import pytest

from everbrook.engine import Batch, EngineTuning, FeedTuning
from everbrook.protocol.errors import ProtocolError
from everbrook.server.tuning import ServerTuning
from tests.kit.server_thread import RunningServer, eventually
from tests.kit.servers import Connect, Start, StartEither
from tests.kit.wire import Wire

TINY_BUFFER = 4096
LARGE_BYTES = 1024 * 1024
"""Of such a message, a few readers get it in one turn of the loop."""


def sse(path: str, offset: str = "-1") -> str:
    return f"{path}?offset={offset}&live=sse"


def test_the_head_says_what_follows(wire: Wire, path: str) -> None:
    wire.create(path)
    headers = wire.follow(sse(path)).head.headers
    assert headers["content-type"] == "text/event-stream"
    assert headers["transfer-encoding"] == "chunked"
    assert headers["x-accel-buffering"] == "no"
    assert "content-length" not in headers
    assert "stream-sse-data-encoding" not in headers


def test_a_reader_gets_what_is_there_and_what_comes(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"one")
    follower = connect().follow(sse(path))
    assert follower.data() == b"one"
    for message in (b"two", b"three"):
        wire.append(path, message)
        assert follower.data() == message


def test_every_data_event_is_followed_by_its_control_event(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    follower = wire.follow(sse(path))
    piece = follower.piece()
    cursor = piece.partition(b'"streamCursor":"')[2].partition(b'"')[0]
    assert cursor.isdigit()
    assert piece == (
        b"event: data\ndata:hello\nid: 0000000000000005\n\n"
        b'event: control\ndata:{"streamNextOffset":"0000000000000005","streamCursor":"'
        + cursor
        + b'","upToDate":true}\nid: 0000000000000005\n\n'
    )


def test_an_empty_stream_begins_with_a_control_event(wire: Wire, path: str) -> None:
    wire.create(path)
    control = wire.follow(sse(path)).control()
    assert (control["streamNextOffset"], control["upToDate"]) == ("0000000000000000", True)


def test_reading_from_now_on_begins_at_the_tail(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, body=b"old")
    follower = connect().follow(sse(path, "now"))
    assert follower.control()["streamNextOffset"] == "0000000000000003"
    wire.append(path, b"new")
    assert follower.data() == b"new"


def test_events_carry_the_offset_as_their_id(wire: Wire, path: str) -> None:
    wire.create(path, body=b"hello")
    follower = wire.follow(sse(path))
    assert [event.id for event in (follower.event(), follower.event()) if event] == [b"0000000000000005"] * 2


def test_a_browser_that_reconnects_goes_on_where_it_was(wire: Wire, path: str) -> None:
    wire.create(path, body=b"one")
    wire.append(path, b"two")
    assert wire.follow(sse(path), last_event_id="0000000000000003").data() == b"two"


@pytest.mark.parametrize("event_id", ["0000000000000001", "nonsense", "3"])
def test_an_event_id_that_was_never_sent_is_refused(wire: Wire, path: str, event_id: str) -> None:
    wire.create(path, body=b"one")
    assert wire.get(sse(path), last_event_id=event_id).refusal == (400, "invalid_offset")


def test_an_empty_event_id_is_none(wire: Wire, path: str) -> None:
    wire.create(path, body=b"one")
    assert wire.follow(sse(path), last_event_id="").data() == b"one"


def test_a_reader_that_comes_back_with_each_id_misses_and_repeats_nothing(
    wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    seen, last_id = [], ""
    for number in range(20):
        wire.append(path, b"%d," % number)
        with connect() as reader:
            follower = reader.follow(sse(path), last_event_id=last_id)
            event = follower.event()
            assert event is not None
            seen.append(event.data)
            last_id = (event.id or b"").decode()
    assert b"".join(seen) == b"".join(b"%d," % number for number in range(20))


def test_a_closed_stream_ends_with_a_last_control_event(wire: Wire, path: str) -> None:
    wire.create(path, body=b"bye", stream_closed="true")
    follower = wire.follow(sse(path))
    assert follower.data() == b"bye"
    assert follower.control() == {"streamNextOffset": "0000000000000003", "upToDate": True, "streamClosed": True}
    assert follower.event() is None
    assert wire.get("/healthz").status == 200


def test_closing_ends_those_who_follow(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    followers = [connect().follow(sse(path)) for _ in range(3)]
    for follower in followers:
        follower.control()
    wire.request("POST", path, stream_closed="true")
    assert [follower.control()["streamClosed"] for follower in followers] == [True] * 3
    assert [follower.event() for follower in followers] == [None] * 3


def test_the_last_message_and_the_close_come_together(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    follower = connect().follow(sse(path))
    follower.control()
    wire.append(path, b"bye", stream_closed="true")
    piece = follower.piece()
    assert piece.startswith(b"event: data\ndata:bye\n")
    assert b'"streamClosed":true' in piece
    assert follower.piece() == b""


@pytest.mark.parametrize(
    "text, received",
    [
        (b"a\nb", b"a\nb"),
        (b"a\r\nb", b"a\nb"),
        (b"a\rb", b"a\nb"),
        (b"a\n\nb", b"a\n\nb"),
        (b"\n", b"\n"),
        (b" a", b" a"),
        (b"  a\n b", b"  a\n b"),
        (b": comment", b": comment"),
        (b"id: 5\n\nevent: control\ndata:{}\n\n", b"id: 5\n\nevent: control\ndata:{}\n\n"),
        (b"a\r\revent: control\r\rdata: x", b"a\n\nevent: control\n\ndata: x"),
        ("é\u2028\u0085".encode(), "é\u2028\u0085".encode()),
        (b"\0", b"\0"),
    ],
)
def test_text_never_ends_its_event_or_forges_another(wire: Wire, path: str, text: bytes, received: bytes) -> None:
    """A carriage return comes out as a line feed: SSE cannot carry it."""
    wire.create(path, body=text)
    follower = wire.follow(sse(path))
    first, second = follower.event(), follower.event()
    assert first is not None
    assert second is not None
    assert (first.type, first.data, second.type) == (b"data", received, b"control")


@pytest.mark.parametrize("size", [1, 2, 3, 255, 256])
def test_what_is_no_text_comes_in_base64(wire: Wire, path: str, size: int) -> None:
    body = bytes(number % 256 for number in range(size))
    wire.create(path, "application/octet-stream", body)
    follower = wire.follow(sse(path))
    assert follower.head.headers["stream-sse-data-encoding"] == "base64"
    assert base64.b64decode(follower.data(), validate=True) == body


def test_every_base64_event_decodes_by_itself(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, "application/octet-stream")
    follower = connect().follow(sse(path))
    for body in (b"a", b"bc", b"\0\xff\n"):
        wire.append(path, body, "application/octet-stream")
        assert base64.b64decode(follower.data(), validate=True) == body


def test_json_messages_come_as_arrays(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path, "application/json", b'[{"a":1},2]')
    follower = connect().follow(sse(path))
    assert follower.data() == b'[{"a":1},2]'
    wire.append(path, b"3", "application/json")
    assert follower.data() == b"[3]"


def test_large_streams_come_in_pages_each_with_its_position(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(limits__max_page_bytes=10))
    wire.create(path, "application/json")
    for number in range(10):
        wire.append(path, b"%d" % (1000 + number), "application/json")
    follower = wire.follow(sse(path))
    controls = [follower.control() for _ in range(5)]
    assert [control["streamNextOffset"] for control in controls] == [f"{10 * page:016d}" for page in range(1, 6)]
    assert [control.get("upToDate", False) for control in controls] == [False] * 4 + [True]


@pytest.mark.parametrize("content_type", ["text/plain", "application/octet-stream"])
def test_each_message_has_events_of_its_own(
    start_either: StartEither, connect: Connect, path: str, content_type: str
) -> None:
    wire = connect(start_either())
    messages = [b"one", b"two\n", b" three", b"\xc3\xa9"]
    wire.create(path, content_type)
    for message in messages:
        wire.append(path, message, content_type)
    follower = wire.follow(sse(path))
    received, controls = [], []
    for _ in messages:
        data, control = follower.event(), follower.control()
        assert data is not None
        received.append(data.data if content_type == "text/plain" else base64.b64decode(data.data))
        controls.append((int(str(control["streamNextOffset"])), control.get("upToDate", False)))
    assert received == messages
    assert controls == [(3, False), (7, False), (13, False), (15, True)]


def test_messages_that_are_there_together_are_written_together(wire: Wire, path: str) -> None:
    wire.create(path, body=b"one")
    wire.append(path, b"two")
    piece = wire.follow(sse(path)).piece()
    assert (piece.count(b"event: data"), piece.count(b"event: control")) == (2, 2)


def test_many_small_messages_come_in_batches(start: Start, connect: Connect, path: str) -> None:
    """Each is an event, so a page of the smallest ones would be many times its size."""
    tuning = ServerTuning(engine=EngineTuning(feed=FeedTuning(batch_messages=3)))
    wire = connect(start(tuning=tuning))
    wire.create(path)
    for number in range(8):
        wire.append(path, b"%d" % number)
    follower = wire.follow(sse(path))
    assert [follower.piece().count(b"event: data") for _ in range(3)] == [3, 3, 2]


def test_json_messages_of_a_page_share_an_event_however_many(start: Start, connect: Connect, path: str) -> None:
    tuning = ServerTuning(engine=EngineTuning(feed=FeedTuning(batch_messages=3)))
    wire = connect(start(tuning=tuning))
    wire.create(path, "application/json", b"[1,2,3,4,5,6,7,8]")
    assert wire.follow(sse(path)).data() == b"[1,2,3,4,5,6,7,8]"


class Encodings(dict[object, bytes]):
    """The encodings of a batch. It counts how many were made."""

    made = 0

    def __setitem__(self, key: object, encoding: bytes) -> None:
        self.made += 1
        super().__setitem__(key, encoding)


class First:
    """A reader that gets each batch before the others do, and watches what they make of it."""

    def __init__(self) -> None:
        self.encodings = Encodings()

    def deliver(self, batch: Batch) -> None:
        batch.encodings = self.encodings

    def lag(self) -> None:
        raise AssertionError("a small batch is delivered to all readers at once")

    def fail(self, error: ProtocolError) -> None:
        raise AssertionError(error)


def test_a_large_append_reaches_many_readers_in_several_turns(
    server: RunningServer, wire: Wire, path: str, connect: Connect
) -> None:
    wire.create(path)
    followers = [connect().follow(sse(path)) for _ in range(20)]
    waiting = [connect().ask("GET", f"{path}?offset=now&live=long-poll") for _ in range(20)]
    assert eventually(lambda: server.waiting(path) == 40)
    messages = [b"%d" % number * LARGE_BYTES for number in (1, 2)]
    for message in messages:
        wire.append(path, message)
    assert all([follower.data(), follower.data()] == messages for follower in followers)
    assert all(wire.read().body.startswith(messages[0]) for wire in waiting)


def test_one_encoding_serves_all_readers(server: RunningServer, wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    stream, first = server.stream(path), First()
    server.call(lambda: server.engine.readers.join(stream, first))
    followers = [connect().follow(sse(path)) for _ in range(20)]
    assert eventually(lambda: server.waiting(path) == 21)
    wire.append(path, b"hello")
    assert [follower.data() for follower in followers] == [b"hello"] * 20
    assert first.encodings.made == 1
    server.call(lambda: server.engine.readers.leave(stream, first))


def test_silence_is_broken_by_a_comment(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__sse_keepalive_secs=0.05))
    wire.create(path)
    follower = wire.follow(sse(path))
    follower.piece()
    assert [follower.piece(), follower.piece()] == [b": keep-alive\n\n"] * 2


def test_no_comment_is_sent_while_events_come(start: Start, connect: Connect, path: str) -> None:
    server = start(server__sse_keepalive_secs=0.2)
    wire = connect(server)
    wire.create(path)
    follower = connect(server).follow(sse(path))
    follower.piece()
    for _ in range(10):
        assert wire.nothing_for(0.03)
        wire.append(path, b"a")
        assert follower.piece().startswith(b"event: data")


def test_a_comment_disturbs_no_event(start: Start, connect: Connect, path: str) -> None:
    server = start(server__sse_keepalive_secs=0.02)
    wire = connect(server)
    wire.create(path)
    follower = connect(server).follow(sse(path))
    for number in range(5):
        assert wire.nothing_for(0.05)
        wire.append(path, b"%d" % number)
        assert follower.data() == b"%d" % number


def test_after_the_interval_the_answer_ends_properly_and_the_connection_goes_on(
    start: Start, connect: Connect, path: str
) -> None:
    wire = connect(start(server__sse_reconnect_interval_secs=0.1))
    wire.create(path, body=b"hello")
    follower = wire.follow(sse(path))
    assert len(follower.events()) == 2
    assert wire.get("/healthz").status == 200


def test_an_interval_of_zero_never_ends(start: Start, connect: Connect, path: str) -> None:
    wire = connect(start(server__sse_reconnect_interval_secs=0.0))
    wire.create(path)
    wire.follow(sse(path)).control()
    assert wire.nothing_for(0.1)


def test_cursors_never_go_back(wire: Wire, path: str, connect: Connect) -> None:
    """§10.1: an echoed cursor is exceeded, so that no cache answers for ever."""
    wire.create(path)
    first = connect().follow(sse(path)).control()
    second = connect().follow(f"{sse(path)}&cursor={first['streamCursor']}").control()
    assert int(str(second["streamCursor"])) > int(str(first["streamCursor"]))


@pytest.mark.parametrize(
    "query", ["live=sse", "live=sse&offset=", "live=SSE&offset=-1", "live=sse&offset=-1&offset=-1"]
)
def test_an_unclear_wish_is_a_400(wire: Wire, path: str, query: str) -> None:
    wire.create(path)
    assert wire.get(f"{path}?{query}").status == 400


def test_nothing_to_follow_is_a_404(wire: Wire, path: str) -> None:
    assert wire.get(sse(path)).refusal == (404, "stream_not_found")


def test_appends_of_one_moment_keep_their_boundaries(wire: Wire, path: str, connect: Connect) -> None:
    wire.create(path)
    follower = connect().follow(sse(path))
    for number in range(500):
        wire.ask("POST", path, b"%03d" % number, content_type="text/plain")
    assert [follower.data() for _ in range(500)] == [b"%03d" % number for number in range(500)]


@pytest.mark.timing
def test_a_message_full_of_line_ends_delays_nobody(start: Start, connect: Connect, path: str) -> None:
    server = start()
    wire = connect(server)
    wire.create(path, body=b"\n" * 10_000_000)
    worked_secs = server.call(time.thread_time)
    connect(server).ask("GET", sse(path))
    assert wire.get("/healthz").status == 200
    assert server.call(time.thread_time) - worked_secs < 1


def test_a_reader_that_reconnects_again_and_again_misses_and_repeats_nothing(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(server__sse_reconnect_interval_secs=0.01)
    writer, reader = connect(server), connect(server)
    writer.create(path)
    messages = [b"%04d" % number for number in range(2000)]

    def write() -> None:
        for message in messages:
            writer.append(path, message)

    thread = threading.Thread(target=write)
    thread.start()
    received, last_id = b"", f"{0:016d}"
    while len(received) < 8000:
        for event in reader.follow(sse(path), last_event_id=last_id).events():
            received += event.data if event.type == b"data" else b""
            last_id = (event.id or b"").decode()
    thread.join()
    assert received == b"".join(messages)


def test_a_reader_that_falls_behind_catches_up_without_loss_or_repetition(
    start: Start, connect: Connect, path: str
) -> None:
    server = start(limits__max_stream_bytes=50_000_000)
    writer, quick = connect(server), connect(server)
    writer.create(path)
    slow = connect(server, TINY_BUFFER).follow(sse(path))
    slow.control()
    follower = quick.follow(sse(path))
    messages = [b"%06d" % number * 20_000 for number in range(60)]
    for message in messages:
        writer.append(path, message)
        assert follower.data() == message
    assert server.waiting(path) == 1
    received = b""
    while len(received) < 60 * 120_000:
        received += slow.data()
    assert received == b"".join(messages)
    assert eventually(lambda: server.waiting(path) == 2)
    writer.append(path, b"more")
    assert slow.data() == b"more"
