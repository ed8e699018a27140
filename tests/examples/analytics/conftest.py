"""What the tests of the analytics share: a server, a session of Spark, and streams of each test's own."""

from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from everbrook import Client
from everbrook.spark import register
from examples.analytics.job import SETTINGS, Analytics, Places
from tests.examples.analytics.desk import Desk
from tests.kit.spark_server import client, server
from tests.kit.spark_session import shared_session

__all__ = ["client", "server"]

_numbers = count()


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
