"""Uploads on a connection of ours: slow senders, half-closed ones, waiting in line, and what is left behind."""

import gc
import threading

import pytest

from tests.kit.server_thread import QUICK_TICKS, GatedStorage, RunningServer, eventually
from tests.kit.servers import Connect, Start
from tests.kit.wire import Wire, chunked, render
from tests.server.uploads.blobs import WatchedStorage, etag_of, memory_blobs, none_left

MB = 1_000_000
CHUNKED = {"transfer_encoding": "chunked"}
EXPECT = {"expect": "100-continue"}


@pytest.fixture
def served(start: Start, storage: WatchedStorage) -> RunningServer:
    return start(storage)


# Slow senders


@pytest.fixture
def hasty(start: Start, path: str) -> RunningServer:
    """A server that does not wait long, with the same stream."""
    server = start(tuning=QUICK_TICKS, server__request_timeout_secs=0.2)
    with server.connect() as wire:
        wire.create(path, body=b"a")
    return server


@pytest.mark.parametrize("sent", [0, 1, 150_000])
def test_a_body_that_stops_coming_is_a_408(hasty: RunningServer, connect: Connect, url: str, sent: int) -> None:
    wire = connect(hasty).ask("PUT", url, content_length="500000").send(b"a" * sent)
    assert wire.read().refusal == (408, "request_timeout")
    assert wire.ended()
    assert none_left(hasty)


def test_a_body_that_trickles_is_a_408(hasty: RunningServer, connect: Connect, url: str) -> None:
    wire = connect(hasty).ask("PUT", url, **CHUNKED)
    wire.send_slowly([b"1\r\na\r\n"] * 60, 0.01)
    assert wire.read().status == 408
    assert none_left(hasty)


def test_a_body_that_makes_progress_may_take_longer(hasty: RunningServer, connect: Connect, url: str) -> None:
    wire = connect(hasty).ask("PUT", url, content_length="50000")
    wire.send_slowly([b"a" * 1000] * 50, 0.01)
    assert wire.read().status == 204


def test_a_sender_is_not_blamed_for_a_slow_disk(
    wire: Wire, served: RunningServer, url: str, storage: WatchedStorage
) -> None:
    storage.blobs.gate.clear()
    sender = threading.Thread(target=wire.ask, args=("PUT", url, b"a" * 20 * MB))
    sender.start()
    (held,) = served.connections
    assert eventually(lambda: not held.inspect().reading)
    served.call(lambda: held.watchdog.check(served.listener.now + 1000))
    assert served.connections == [held]
    storage.blobs.gate.set()
    assert wire.read().status == 204
    sender.join()


# Half-closed


def test_a_client_that_stops_sending_still_gets_its_answer(wire: Wire, url: str, storage: WatchedStorage) -> None:
    storage.blobs.gate.clear()
    wire.ask("PUT", url, b"folded").stop_sending()
    assert wire.nothing_for(0.05)
    storage.blobs.gate.set()
    assert wire.read().status == 204
    assert wire.ended()


def test_a_client_that_stops_sending_in_the_middle_is_gone(wire: Wire, served: RunningServer, url: str) -> None:
    wire.ask("PUT", url, content_length="100").send(b"a" * 10).stop_sending()
    assert wire.ended()
    assert none_left(served)


def test_a_client_that_goes_when_its_body_is_whole_publishes_nothing(
    wire: Wire, served: RunningServer, connect: Connect, url: str, storage: WatchedStorage
) -> None:
    storage.blobs.gate.clear()
    wire.ask("PUT", url, b"folded")
    assert wire.nothing_for(0.05)
    wire.reset()
    assert eventually(lambda: not served.connections)
    storage.blobs.gate.set()
    assert none_left(served)
    assert connect(served).get(url).status == 404


# Waiting in line


def test_an_upload_waits_behind_a_long_poll_without_being_read(
    wire: Wire, served: RunningServer, connect: Connect, path: str, url: str, storage: WatchedStorage
) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    sender = threading.Thread(target=wire.ask, args=("PUT", url, b"a" * 20 * MB))
    sender.start()
    (held,) = served.find(lambda state: state.deferred)
    assert eventually(lambda: not held.inspect().reading)
    assert 0 < served.call(held.inspect).held_body_bytes < MB
    assert not storage.blobs.writes
    connect(served).append(path, b"b")
    assert [wire.read().status, wire.read().status] == [200, 204]
    sender.join()
    assert memory_blobs(served).used_bytes == 20 * MB


def test_whole_uploads_behind_a_long_poll_are_bounded(
    wire: Wire, served: RunningServer, connect: Connect, path: str, url: str
) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    request = render("PUT", url, b"a" * 100_000)
    sender = threading.Thread(target=wire.send, args=(request * 60,))
    sender.start()
    (held,) = served.find(lambda state: state.deferred)
    assert eventually(lambda: not held.inspect().reading)
    assert served.call(held.inspect).queued_bytes < 2 * MB
    connect(served).append(path, b"b")
    assert [wire.read().status for _ in range(61)] == [200] + [204] * 60
    sender.join()
    assert served.call(held.inspect).queued_bytes == 0


def test_a_refusal_waits_for_its_turn(wire: Wire, connect: Connect, served: RunningServer, path: str) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.ask("PUT", f"{path}/__ds/snapshot/{2:016d}", b"folded", if_match='"other"').ask("GET", "/healthz")
    wire.ask("PUT", f"{path}/__ds/snapshot/{9:016d}", content_length="100000")
    assert wire.nothing_for(0.05)
    connect(served).append(path, b"b")
    assert wire.read().body == b"b"
    assert wire.read().refusal == (412, "precondition_failed")
    assert wire.read().body == b"ok"
    assert wire.read().refusal == (409, "snapshot_beyond_tail")
    assert wire.ended()


def test_a_stream_that_is_called_snapshot_waits_like_any_other(
    wire: Wire, connect: Connect, served: RunningServer, path: str
) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll")
    wire.ask("PUT", f"{path}/snapshot/x", b"hello", content_type="text/plain").ask("GET", f"{path}/snapshot/x")
    assert wire.nothing_for(0.05)
    connect(served).append(path, b"b")
    assert [wire.read().status, wire.read().status] == [200, 201]
    assert wire.read().body == b"hello"


def test_a_client_that_waits_in_line_is_asked_for_its_body_in_its_turn(
    wire: Wire, connect: Connect, served: RunningServer, path: str, url: str
) -> None:
    wire.ask("GET", f"{path}?offset=now&live=long-poll").ask("PUT", url, content_length="6", **EXPECT)
    assert wire.nothing_for(0.05)
    connect(served).append(path, b"b")
    assert [wire.read().status, wire.read().status] == [200, 100]
    assert wire.send(b"folded").read().status == 204


def test_an_http_1_0_client_is_never_told_to_continue(wire: Wire, url: str) -> None:
    """RFC 9110 §10.1.1: it would take the interim answer for the answer."""
    wire.send(f"PUT {url} HTTP/1.0\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\nfolded".encode())
    assert wire.read().status == 204


def test_what_can_not_be_read_is_refused_after_the_upload_before_it(wire: Wire, url: str) -> None:
    wire.send(render("PUT", url, b"folded") + b"nonsense\r\n\r\n")
    assert [wire.read().status, wire.read().status] == [204, 400]
    assert wire.ended()


def test_a_client_that_sent_nonsense_and_went_gets_both_answers(wire: Wire, url: str, storage: WatchedStorage) -> None:
    storage.blobs.gate.clear()
    wire.send(render("PUT", url, b"folded") + b"nonsense\r\n\r\n").stop_sending()
    assert wire.nothing_for(0.05)
    storage.blobs.gate.set()
    assert [wire.read().status, wire.read().status] == [204, 400]
    assert wire.ended()


def test_nothing_follows_the_answer_that_ends_the_connection(
    wire: Wire, served: RunningServer, url: str, storage: WatchedStorage
) -> None:
    storage.blobs.gate.clear()
    wire.send(render("PUT", url, b"folded", connection="close") + b"nonsense\r\n\r\n")
    assert wire.nothing_for(0.05)
    storage.blobs.gate.set()
    assert wire.read().status == 204
    assert wire.ended()
    assert not served.find(lambda state: state.refusing)
    assert len(served.connections) == 1


def test_an_offer_to_upgrade_is_not_taken_up(wire: Wire, url: str) -> None:
    assert wire.request("PUT", url, b"folded", connection="upgrade", upgrade="h2c").status == 204
    assert wire.get(url).body == b"folded"


@pytest.mark.parametrize("sent", [b"fold", b"folded"], ids=["not whole", "whole"])
def test_a_refusal_waits_for_what_it_rests_on(start: Start, connect: Connect, path: str, sent: bytes) -> None:
    """A crash could take the append back; then the snapshot would not have been inside a message."""
    storage = GatedStorage()
    storage.gate.set()
    server = start(storage)
    wire, other = connect(server), connect(server)
    wire.create(path)
    storage.gate.clear()
    other.ask("POST", path, b"hello", content_type="text/plain")
    assert other.nothing_for(0.05)
    wire.ask("PUT", f"{path}/__ds/snapshot/{3:016d}", sent, content_length="6")
    assert wire.nothing_for(0.05)
    storage.gate.set()
    assert wire.read().refusal == (400, "invalid_offset")


# What is left


def mid_upload(wire: Wire, url: str) -> None:
    wire.ask("PUT", url, content_length="500000").send(b"a" * 100_000).reset()


def mid_upload_in_line(wire: Wire, url: str) -> None:
    stream = url.partition("/__ds/")[0]
    wire.ask("GET", f"{stream}?offset=now&live=long-poll").ask("PUT", url, b"folded", if_match='"other"')
    wire.ask("PUT", url, content_length="500000").send(b"a" * 1000).reset()


def mid_refused_upload(wire: Wire, url: str) -> None:
    wire.ask("PUT", url.replace("1", "9"), **CHUNKED).send(chunked(b"a" * 1000)).reset()


@pytest.mark.parametrize("kill", [mid_upload, mid_upload_in_line, mid_refused_upload])
def test_killed_clients_leave_nothing_behind(start: Start, connect: Connect, path: str, kill: object) -> None:
    assert callable(kill)
    server = start(server__long_poll_timeout_secs=0.05)
    connect(server).create(path, body=b"a")

    def remaining(times: int) -> int:
        for _ in range(times):
            with server.connect() as wire:
                kill(wire, f"{path}/__ds/snapshot/{1:016d}")
        assert eventually(lambda: len(server.connections) == 1)
        assert none_left(server)
        return server.call(lambda: (gc.collect(), len(gc.get_objects()))[1])

    before = remaining(30)
    assert remaining(200) - before < 200
    assert server.waiting(path) == 0


def test_a_stop_leaves_nothing_of_an_upload_in_the_middle(
    start: Start, connect: Connect, path: str, storage: WatchedStorage
) -> None:
    server = start(storage)
    wire = connect(server)
    wire.create(path, body=b"a")
    wire.ask("PUT", f"{path}/__ds/snapshot/{1:016d}", content_length="500000").send(b"a" * 100_000)
    assert eventually(lambda: storage.blobs.used_bytes)
    server.stop()
    assert wire.ended()
    assert storage.blobs.used_bytes == 0


def test_a_request_without_a_streamed_body_is_an_ordinary_one(
    wire: Wire, served: RunningServer, path: str, url: str
) -> None:
    """What every append goes through knows nothing of uploads."""
    wire.ask("POST", path, content_type="text/plain", content_length="2").send(b"b")
    (held,) = served.connections
    assert eventually(lambda: held.inspect().body_bytes == 1)
    assert not served.call(held.inspect).streaming
    assert wire.send(b"c").read().status == 204
    assert wire.request("PUT", url, b"x", if_none_match="*").headers["etag"] == etag_of(
        1, b"x", b"application/octet-stream"
    )
