"""Live reads and large bodies through Envoy: for longer than its times, and larger than its buffers."""

import hashlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from everbrook import Client
from tests.kit.server_thread import eventually
from tests.stack.envoy.proxies import IDLE_SECS, Proxy, new_text_stream

TEXT = {"Content-Type": "text/plain"}


def append(proxy: Proxy, path: str) -> None:
    with proxy.client() as client:
        assert client.post(path, content=b"here", headers=TEXT).status_code == 204


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_a_follower_outlasts_the_idle_timeout(impatient: Proxy, version: str) -> None:
    path, began = new_text_stream(impatient), time.monotonic()
    timer = threading.Timer(3 * IDLE_SECS, append, (impatient, path))
    timer.start()
    with (
        impatient.client(http1=version == "HTTP/1.1", http2=version == "HTTP/2") as client,
        client.stream("GET", f"{path}?offset=-1&live=sse") as answer,
    ):
        assert answer.http_version == version
        assert any("here" in line for line in answer.iter_lines())
    timer.join()
    assert time.monotonic() - began >= 3 * IDLE_SECS


def test_what_is_appended_arrives_at_once(proxy: Proxy, client: httpx2.Client, path: str) -> None:
    """Nothing on the way waits for more before it passes an event on: nothing more comes."""
    with client.stream("GET", f"{path}?offset=-1&live=sse") as answer:
        lines = answer.iter_lines()
        next(lines)
        append(proxy, path)
        assert any("here" in line for line in lines)


def test_a_long_poll_is_answered_by_its_end(impatient: Proxy) -> None:
    with impatient.client() as client:
        assert client.get(f"{new_text_stream(impatient)}?offset=now&live=long-poll").status_code == 204


def test_a_long_poll_is_answered_by_what_comes(client: httpx2.Client, proxy: Proxy, path: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.get, f"{path}?offset=-1&live=long-poll")
        assert eventually(lambda: proxy.server.waiting(path) == 1)
        append(proxy, path)
        assert answer.result().text == "here"


def test_a_client_that_goes_is_noticed_by_the_server(proxy: Proxy, path: str) -> None:
    with proxy.client() as client, client.stream("GET", f"{path}?offset=-1&live=sse") as answer:
        lines = answer.iter_lines()
        next(lines)
        assert eventually(lambda: proxy.server.waiting(path) == 1)
    assert eventually(lambda: proxy.server.waiting(path) == 0)


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_sixty_megabytes_arrive_whole(proxy: Proxy, path: str, version: str) -> None:
    body = hashlib.sha256(path.encode()).digest() * (60 * 1024 * 1024 // 32)
    with proxy.client(http1=version == "HTTP/1.1", http2=version == "HTTP/2") as client:
        assert client.post(path, content=body, headers=TEXT).status_code == 204
    (request,) = proxy.asked()
    assert request.body == body


def test_the_client_reads_and_writes_as_without_it(proxy: Proxy) -> None:
    with Client(proxy.url, token=proxy.token()) as client:
        stream = client.stream("envoy-client")
        stream.create(content_type="application/json")
        stream.append({"n": 1})
        assert list(stream.read()) == [{"n": 1}]
