"""What every test of the async client gets: a real server, and a client of it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from everbrook.client._async.client import AsyncClient
from tests.kit.server_process import serving


@pytest.fixture(scope="session")
def anyio_backend() -> str:  # async only
    """The one event loop that the client is for."""
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for all tests: each keeps to names of its own."""
    with serving(tmp_path_factory.mktemp("server"), DS_SERVER__LONG_POLL_TIMEOUT_SECS="2") as started:
        yield "http://{}:{}".format(*started.address)


@pytest.fixture
async def client(server: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server) as connected:
        yield connected
