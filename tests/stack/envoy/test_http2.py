"""HTTP/2 through Envoy: without TLS, with it, and many streams over one connection."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from everbrook.stack.envoy import Edge
from tests.kit.certificates import Authority, Pair
from tests.kit.ports import free_port
from tests.kit.server_thread import eventually
from tests.stack.envoy.proxies import Proxy, Recorded, running

TEXT = {"Content-Type": "text/plain"}
READERS = 90  # httpx2 itself has at most a hundred requests under way


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("envoy", file="envoy")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory, shared: Proxy, pair: Pair) -> Iterator[Proxy]:
    """Another Envoy in front of the same server, which speaks https."""
    edge = shared.edge._replace(
        port=free_port(), admin_port=free_port(), cert_path=str(pair.cert), key_path=str(pair.key)
    )
    with running(tmp_path_factory.mktemp("encrypted"), edge):
        yield Proxy(edge, shared.server, shared.pair)


def test_http_2_is_spoken_without_tls(proxy: Proxy, path: str) -> None:
    with proxy.client(http1=False, http2=True) as client:
        answer = client.get(path)
    assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)


@pytest.mark.parametrize("version", ["HTTP/1.1", "HTTP/2"])
def test_both_versions_are_spoken_over_tls(encrypted: Proxy, authority: Authority, version: str) -> None:
    with encrypted.client(http2=version == "HTTP/2", verify=authority.client_context()) as client:
        answer = client.put("/v1/stream/over-tls")
    assert (answer.http_version, answer.status_code in {200, 201}) == (version, True)


def test_a_request_without_a_token_is_refused_over_http_2_too(proxy: Proxy) -> None:
    with httpx2.Client(http1=False, http2=True) as client:
        assert client.get(f"{proxy.url}/v1/stream/x", headers={"X-JWT-Sub": "admin"}).status_code == 401
    assert proxy.asked() == []


def test_an_identity_is_not_forged_over_http_2(proxy: Proxy, path: str) -> None:
    with proxy.client(http1=False, http2=True) as client:
        client.get(path, headers=[("x-jwt-sub", "admin"), ("x-jwt-sub", "root"), ("x_jwt_sub", "admin")])
    (request,) = proxy.asked()
    assert request.headers[b"x-jwt-sub"] == b"alice"


async def follow(client: httpx2.AsyncClient, path: str) -> str:
    async with client.stream("GET", f"{path}?offset=-1&live=sse") as answer:
        async for line in answer.aiter_lines():
            if "to-all" in line:
                return str(answer.http_version)
    return "ended"


async def follow_all(proxy: Proxy, path: str) -> list[str]:
    """Follow a stream many times over one connection, and append when all do."""
    headers = {"Authorization": f"Bearer {proxy.token()}"}
    limits = httpx2.Limits(max_connections=1)
    options = {"base_url": proxy.url, "headers": headers, "limits": limits, "timeout": 20}
    async with httpx2.AsyncClient(http1=False, http2=True, **options) as client:  # type: ignore[arg-type]
        followers = [asyncio.create_task(follow(client, path)) for _ in range(READERS)]
        assert await asyncio.to_thread(eventually, lambda: proxy.server.waiting(path) == READERS)
        # By another connection: on this one httpx2 might hear the answer before it has said that its body has ended.
        with proxy.client() as writer:
            await asyncio.to_thread(writer.post, path, content=b"to-all", headers=TEXT)
        return await asyncio.gather(*followers)


def test_many_followers_share_one_connection(proxy: Proxy, path: str) -> None:
    assert asyncio.run(follow_all(proxy, path)) == ["HTTP/2"] * READERS


def test_a_server_that_speaks_https_is_reached_and_believed(
    tmp_path: Path, shared: Proxy, authority: Authority, pair: Pair
) -> None:
    """Envoy looks at whose certificate the server has, and not only that it has one."""
    stranger = Authority(tmp_path, "stranger")
    with Recorded(tls__cert_path=str(pair.cert), tls__key_path=str(pair.key)) as server:
        url = "https://{}:{}".format(*server.address)
        statuses = []
        for ca in (authority.ca, stranger.ca):
            edge = Edge(url, free_port(), free_port(), shared.edge.jwks, server_ca_path=str(ca))
            with running(tmp_path, edge):
                statuses.append(httpx2.get(f"{edge.url}/healthz").status_code)
    assert statuses == [200, 503]
