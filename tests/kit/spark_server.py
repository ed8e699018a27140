"""Fixtures: one server, and one client of it, for all tests of the connector in a process."""

from collections.abc import Iterator

import pytest

from everbrook import Client
from everbrook.spark.connection import disconnect
from tests.kit.server_process import serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of one server for all tests: each keeps to names of its own."""
    with serving(tmp_path_factory.mktemp("server"), DS_SERVER__LONG_POLL_TIMEOUT_SECS="2") as started:
        yield "http://{}:{}".format(*started.address)
        disconnect()


@pytest.fixture(scope="session")
def client(server: str) -> Iterator[Client]:
    with Client(server) as connected:
        yield connected
