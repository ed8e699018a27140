# Written by tools/mirror.py from tests/client/async_/conftest.py: change that file, not this one.
"""What every test of the client gets: a real server, and a client of it."""

from collections.abc import Iterator

import pytest

from everbrook.client._sync.client import Client
from tests.kit.server_process import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for all tests: each keeps to names of its own."""
    with serving(tmp_path_factory.mktemp("server"), DS_SERVER__LONG_POLL_TIMEOUT_SECS="2") as started:
        yield "http://{}:{}".format(*started.address)


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server) as connected:
        yield connected
