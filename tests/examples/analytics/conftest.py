"""What the tests of the analytics share: a server, a session of Spark, and streams of each test's own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark import register
from everbrook.spark.connection import disconnect
from examples.analytics.job import SETTINGS, Analytics, Places
from tests.examples.analytics.desk import Desk
from tests.kit.server_process import serving
from tests.kit.spark_session import shared_session

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


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    started = register(shared_session().newSession())
    for name, value in SETTINGS.items():
        started.conf.set(name, value)
    return started


@pytest.fixture
def places(server: str, tmp_path: Path) -> Places:
    own = f"test-{next(_numbers)}"
    return Places(tmp_path / "checkpoints", server, f"{own}/sessions/*", f"{own}/facts", f"{own}/analytics")


@pytest.fixture
def desk(client: Client, places: Places) -> Desk:
    return Desk(client, places)


@pytest.fixture
def analytics(spark: SparkSession, places: Places) -> Analytics:
    return Analytics(spark, places)
