"""The storages that the contract runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.engines import ENGINES, WAY_NAMES, WAYS, Store


@pytest.fixture(params=WAYS, ids=WAY_NAMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A storage of every engine; of a durable one also such that everything asked is asked after a reopening."""
    name, reopening = request.param
    with Store(ENGINES[name], tmp_path, reopening=reopening) as opened:
        yield opened


@pytest.fixture(params=[name for name, engine in ENGINES.items() if engine.durable])
def durable_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A storage of every engine that outlives its process."""
    with Store(ENGINES[request.param], tmp_path, reopening=False) as opened:
        yield opened
