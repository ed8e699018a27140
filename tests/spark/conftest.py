"""What the tests of the connector share: one server, and one session of Spark."""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

from everbrook import Client
from everbrook.spark.connection import Connection, connect, disconnect
from everbrook.spark.options import ServerOptions
from tests.kit.server_process import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


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


@pytest.fixture
def prefix() -> str:
    """What the names of a test's streams begin with."""
    return f"test-{next(_numbers)}/"


@pytest.fixture
def connection(server: str) -> Connection:
    return connect(ServerOptions(url=server))


@pytest.fixture
def spark() -> "SparkSession":
    """The session of Spark that all tests of this process share."""
    from tests.kit.spark_session import shared_session  # noqa: PLC0415 - only for tests that need it

    return shared_session()
