"""The storages that the contract runs against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.storage.check.repairs import make_killed
from tests.unit.storage.engines import ENGINES, WAY_NAMES, WAYS, Store, scratch_folder


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory, where that is possible: these tests ask what is written, not how long a disk takes."""
    with scratch_folder() as folder:
        yield Path(folder)


@pytest.fixture(params=WAYS, ids=WAY_NAMES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A storage of every engine; of a durable one also such that everything asked is asked after a reopening."""
    name, reopening = request.param
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=reopening) as opened:
        yield opened


@pytest.fixture(params=[name for name, engine in ENGINES.items() if engine.durable])
def durable_store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """A storage of every engine that outlives its process."""
    with scratch_folder() as folder, Store(ENGINES[request.param], Path(folder), reopening=False) as opened:
        yield opened


@pytest.fixture
def acid(tmp_path: Path) -> Path:
    """A store of mode acid whose server was killed."""
    return make_killed(tmp_path, "acid")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A store of the file modes whose server was killed."""
    return make_killed(tmp_path, "file")
