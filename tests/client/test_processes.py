"""One client in several processes and event loops: connections stay with those that they belong to."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from everbrook import Client, ClientError, StaleEpoch
from everbrook.client._sync.stream import Stream
from tests.kit.faults.proxy import Proxy
from tests.kit.server_process import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield "http://{}:{}".format(*started.address)


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server) as made:
        yield made


def test_children_do_not_share_a_parents_connections(client: Client) -> None:
    streams = [client.stream(f"forked/{number}") for number in range(4)]
    for number, stream in enumerate(streams):
        stream.create(data=number)
    children = []
    for number, stream in enumerate(streams):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(stream.read().all() == [number] for _ in range(20)) else 1)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4


def test_a_child_is_told_that_a_producer_is_its_parents(client: Client) -> None:
    stream = client.stream("forked/producer")
    stream.create()
    with stream.producer() as producer:
        producer.append(1)
        child = os.fork()
        if child == 0:
            try:
                producer.flush()
            except ClientError:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert stream.read().all() == [1]


LOOPS = """
import asyncio, sys
from everbrook import AsyncClient
client = AsyncClient(sys.argv[1])
print([asyncio.run(client.stream("loops/none").exists()) for _ in range(4)])
"""


def test_an_async_client_may_be_used_in_one_loop_after_another(server: str) -> None:
    ran = subprocess.run([sys.executable, "-c", LOOPS, server], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "[False, False, False, False]\n"


def test_a_token_goes_to_no_other_server(server: str) -> None:
    port = urlsplit(server).port or 80
    with Proxy(port) as elsewhere, Client(server, token="secret", headers={"X-Own": "1"}) as client:  # noqa: S106 - not one
        client.stream(f"http://127.0.0.1:{elsewhere.port}/v1/stream/any").exists()
        asked = elsewhere.requests[0].headers
    assert not {"authorization", "x-own"} & {name.lower() for name in asked}


def write(stream: Stream[object], writer: int, told: list[object]) -> None:
    with suppress(StaleEpoch), stream.producer("shared", auto_claim=True, linger_secs=0) as producer:
        for number in range(40):
            producer.append([writer, number])
            producer.flush()
            told.append([writer, number])


def test_producers_that_fence_each_other_lose_nothing_that_was_acknowledged(client: Client) -> None:
    stream, told = client.stream("forked/duel"), list[object]()
    stream.create()
    threads = [threading.Thread(target=write, args=(stream, writer, told)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, stream.read().all())) == sorted(map(str, told))
    assert len(told) >= 40


def test_a_producer_that_was_replaced_does_not_take_the_stream_back(client: Client) -> None:
    stream = client.stream("forked/replaced")
    stream.create()
    old, new = (stream.producer("service", auto_claim=True) for _ in range(2))
    for producer in (old, new):
        producer.append("written")
        producer.flush()
    with pytest.raises(StaleEpoch), old:
        old.append("never")
    new.detach()
    assert stream.read().all() == ["written", "written"]
