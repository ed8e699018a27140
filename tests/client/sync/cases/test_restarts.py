# Written by tools/mirror.py from tests/client/async_/cases/test_restarts.py: change that file, not this one.
"""A server that is killed and started again on the same port: followers, producers and readers go on."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from everbrook.client import Mode
from everbrook.client._sync.client import Client
from everbrook.client._sync.concurrency import sleep
from everbrook.client.retry import Retry
from soak.server import Server

PATIENT = Retry(max_attempts=200, first_delay_secs=0.02, max_delay_secs=0.1)
NUMBERS = list(range(120))


@pytest.fixture
def killed_server(tmp_path: Path) -> Iterator[Server]:
    """A server that keeps its word on disk, and can be killed."""
    with Server("acid", tmp_path / "store", settings={"DS_SERVER__LONG_POLL_TIMEOUT_SECS": "2"}) as running:
        yield running


def kill_and_start(server: Server, pause_secs: float = 0.2) -> threading.Thread:
    """Kill it, and start it a moment later, while the test goes on."""

    def work() -> None:
        server.kill()
        time.sleep(pause_secs)
        server.start()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("mode", ["sse", "long-poll", "auto"])
def test_a_follower_and_a_producer_outlive_a_kill(killed_server: Server, mode: Mode) -> None:
    url = f"http://127.0.0.1:{killed_server.port}"
    with Client(url, retry=PATIENT) as client:
        stream = client.stream("survivor")
        stream.create()
        got: list[object] = []
        with stream.producer(max_batch_items=10) as producer:
            for number in NUMBERS[:40]:
                producer.append(number)
            producer.flush()
            reader = iter(stream.follow(mode=mode))
            got += [next(reader) for _ in NUMBERS[:40]]
            killing = kill_and_start(killed_server)
            for number in NUMBERS[40:]:
                producer.append(number)
                sleep(0.002)
            producer.close()
        got += list(reader)
        killing.join()
    assert got == NUMBERS


def test_a_client_waits_for_a_server_that_is_being_started(killed_server: Server) -> None:
    with Client(f"http://127.0.0.1:{killed_server.port}", retry=PATIENT) as client:
        stream = client.stream("patience")
        stream.create()
        stream.append("before")
        killed_server.kill()
        starting = threading.Thread(target=killed_server.start)
        starting.start()
        assert stream.read().all() == ["before"]
        stream.append("after")
        starting.join()
        assert stream.read().all() == ["before", "after"]
