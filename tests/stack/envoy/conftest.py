"""One Envoy for all tests of it, and one with short times for those that outlast them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from everbrook.server.auth.key_pair import PUBLIC_FILE, load_or_make_pair
from everbrook.stack.envoy import IDLE_TIMEOUT_SECS, Edge
from tests.kit.ports import free_port
from tests.stack.envoy.proxies import (
    IDLE_SECS,
    LONG_TIMES,
    SHORT_TIMES,
    Proxy,
    Recorded,
    new_text_stream,
    running,
)


@contextmanager
def _proxied(folder: Path, times: dict[str, float], idle_timeout_secs: float = IDLE_TIMEOUT_SECS) -> Iterator[Proxy]:
    pair = load_or_make_pair(folder / "keys")
    jwks = str(folder / "keys" / PUBLIC_FILE)
    with Recorded(**times) as server:
        edge = Edge(server.origin, free_port(), free_port(), jwks, idle_timeout_secs=idle_timeout_secs)
        with running(folder, edge):
            yield Proxy(edge, server, pair)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with _proxied(tmp_path_factory.mktemp("envoy"), LONG_TIMES) as proxy:
        yield proxy


@pytest.fixture
def proxy(shared: Proxy) -> Proxy:
    """Envoy, and nothing asked of the server behind it yet."""
    shared.asked()
    return shared


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """Envoy and server with short times."""
    with _proxied(tmp_path_factory.mktemp("impatient"), SHORT_TIMES, IDLE_SECS) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[httpx2.Client]:
    """A client with a good token."""
    with proxy.client() as opened:
        yield opened


@pytest.fixture
def path(proxy: Proxy) -> str:
    """The path of a text stream that no other test uses."""
    return new_text_stream(proxy)
