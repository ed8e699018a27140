"""What the tests of the connector share: one server, and one session of Spark."""

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING

import pytest

from bench.processes import HOST, ServerProcess, free_port
from bench.reference import command
from everbrook.spark.connection import Connection, connect, disconnect
from everbrook.spark.options import ServerOptions
from tests.kit.spark_server import client, server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["client", "server"]

_numbers = count()


@pytest.fixture
def prefix() -> str:
    """What the names of a test's streams begin with."""
    return f"test-{next(_numbers)}/"


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    """The URL of the Node reference server."""
    port = free_port()
    with ServerProcess(command(port), {}, port):
        yield f"http://{HOST}:{port}"
        disconnect()


@pytest.fixture
def connection(server: str) -> Connection:
    return connect(ServerOptions(url=server))


@pytest.fixture
def spark() -> "SparkSession":
    """The session of Spark that all tests of this process share."""
    from tests.kit.spark_session import shared_session  # noqa: PLC0415 - only for tests that need it

    return shared_session()
