"""One Envoy for all tests of it. Its times are short, so that a test can outlast them."""

from collections.abc import Iterator
from itertools import count

import httpx2
import pytest

from everbrook.server.auth.key_pair import PUBLIC_FILE, load_or_make_pair
from everbrook.stack.envoy.config import Edge
from tests.stack.envoy.running import IDLE_SECS, Proxy, Recorded, free_port, running

_numbers = count()


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("envoy")
    pair = load_or_make_pair(folder / "keys")
    with Recorded() as server:
        jwks = str(folder / "keys" / PUBLIC_FILE)
        edge = Edge(server.origin, free_port(), free_port(), jwks, idle_timeout_secs=IDLE_SECS)
        with running(folder, edge):
            yield Proxy(edge, server, pair)


@pytest.fixture
def proxy(shared: Proxy) -> Proxy:
    """Envoy, and nothing asked of the server behind it yet."""
    shared.asked()
    return shared


@pytest.fixture
def client(proxy: Proxy) -> Iterator[httpx2.Client]:
    """A client with a good token."""
    with proxy.client() as opened:
        yield opened


@pytest.fixture
def path(proxy: Proxy, client: httpx2.Client) -> str:
    """The path of a text stream that no other test uses."""
    made = f"/v1/stream/envoy-{next(_numbers)}"
    assert client.put(made, headers={"Content-Type": "text/plain"}).status_code == 201
    proxy.asked()
    return made
