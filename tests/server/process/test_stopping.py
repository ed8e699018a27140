"""A graceful stop: those who read get their event and their end, those who ask their answer, and then it is over."""

import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.server_process import serving

PATH = "/v1/stream/a"


@pytest.mark.timing
@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_stop_lets_everyone_finish_and_is_quick(tmp_path: Path, signal_number: int) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path))
        writer, reader, poller, sender, idle = (stack.enter_context(server.connect()) for _ in range(5))
        writer.create(PATH)
        follower = reader.follow(f"{PATH}?offset=-1&live=sse")
        follower.control()
        poller.ask("GET", f"{PATH}?offset=now&live=long-poll")
        idle.get("/healthz")
        writer.append(PATH, b"last")
        assert follower.data() == b"last"
        assert poller.read().body == b"last"
        poller.ask("GET", f"{PATH}?offset=now&live=long-poll")
        sender.ask("POST", PATH, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)

        server.stop(signal_number)
        began = time.monotonic()
        assert [event.type for event in follower.events()] == [b"control"]
        assert reader.ended()
        answer = poller.read()
        assert (answer.status, answer.headers["connection"]) == (204, "close")
        assert idle.ended()
        assert sender.send(b"llo").read().status == 204
        assert sender.ended()
        code, out, err = server.ended()
        assert (code, out.startswith("everbrook is stopping"), err) == (0, True, "")
        assert time.monotonic() - began < 2


def test_an_answer_that_is_being_read_is_given_to_its_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as writer, server.connect(4096) as reader:
        writer.create(PATH, body=b"a" * 9_000_000)
        reader.ask("GET", PATH)
        assert not reader.nothing_for(1.0)
        server.stop()
        assert writer.ended()
        assert len(reader.read().body) == 9_000_000
        assert reader.ended()
        assert server.ended()[0] == 0


def test_an_event_stream_that_is_behind_gets_whole_events_and_its_end(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as writer, server.connect(4096) as reader:
        writer.create(PATH)
        for _ in range(9):
            writer.append(PATH, b"a" * 1_000_000)
        follower = reader.follow(f"{PATH}?offset=-1&live=sse")
        server.stop()
        assert writer.ended()
        events = follower.events()
        assert len(events) % 2 == 0
        assert server.ended()[0] == 0


@pytest.mark.timing
def test_whoever_does_not_finish_is_cut_off_after_the_grace(tmp_path: Path) -> None:
    settings = {"DS_LOG__LEVEL": "error"}  # a busy machine may have long turns
    with serving(tmp_path, "--shutdown-grace", "0.3", **settings) as server, server.connect() as sender:
        sender.ask("POST", PATH, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        began = time.monotonic()
        code, _, err = server.stop().ended()
        assert (code, err) == (0, "")
        assert 0.2 < time.monotonic() - began < 3


@pytest.mark.timing
def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as sender:
        sender.ask("POST", PATH, content_type="text/plain", content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        server.stop()
        assert sender.nothing_for(0.2)
        began = time.monotonic()
        server.stop().ended()
        assert time.monotonic() - began < 3


def test_a_stopping_server_takes_no_connection(tmp_path: Path) -> None:
    with serving(tmp_path, "--shutdown-grace", "1") as server, server.connect() as sender:
        sender.ask("POST", PATH, content_length="5").send(b"he")
        assert sender.nothing_for(0.1)
        server.stop()
        time.sleep(0.2)
        with pytest.raises(ConnectionRefusedError):
            server.connect()


@pytest.mark.timing
def test_requests_that_wait_behind_a_long_poll_do_not_delay_the_stop(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as wire:
        wire.create(PATH)
        for _ in range(3):
            wire.ask("GET", f"{PATH}?offset=now&live=long-poll")
        wire.ask("GET", f"{PATH}?offset=now&live=sse")
        assert wire.nothing_for(0.1)
        began = time.monotonic()
        assert server.stop().ended()[0] == 0
        assert time.monotonic() - began < 3


def test_a_closed_standard_output_does_not_keep_the_server_from_stopping_well(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.connect() as wire:
        wire.create(PATH)
        follower = wire.follow(f"{PATH}?offset=-1&live=sse")
        follower.control()
        assert server.process.stdout is not None
        server.process.stdout.close()
        server.stop()
        assert follower.event() is None
        assert server.process.wait() == 0
