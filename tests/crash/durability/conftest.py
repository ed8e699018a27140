"""Servers on a disk with faults, in every mode that syncs."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from everbrook.settings import StorageMode
from everbrook.storage import OsDisk
from tests.crash.durability.synced_modes import SYNCED
from tests.kit.faulty_disk import Faults, FaultyDisk
from tests.kit.server_thread import RunningServer, configured

Restart = Callable[[], RunningServer]


@pytest.fixture(params=SYNCED, ids=str)
def synced_mode(request: pytest.FixtureRequest) -> StorageMode:
    mode: StorageMode = request.param
    return mode


@pytest.fixture
def faults() -> Faults:
    """The faults of the server's disk: none, until a test changes that."""
    return Faults()


@pytest.fixture
def blob_faults() -> Faults:
    """The faults of the part of that disk where the snapshots are."""
    return Faults()


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def server(
    synced_mode: StorageMode, tmp_path: Path, faults: Faults, blob_faults: Faults, servers: ExitStack
) -> RunningServer:
    """A server whose disk can be made to fail."""
    storage = SYNCED[synced_mode](FaultyDisk(faults, blob_faults), tmp_path / "store")
    return servers.enter_context(RunningServer(configured(storage__mode=synced_mode), storage))


@pytest.fixture
def restart(synced_mode: StorageMode, tmp_path: Path, server: RunningServer, servers: ExitStack) -> Restart:
    """Stop the server and start another one on the same folder, with a sound disk."""

    def begin() -> RunningServer:
        server.stop()
        storage = SYNCED[synced_mode](OsDisk(), tmp_path / "store")
        return servers.enter_context(RunningServer(configured(storage__mode=synced_mode), storage))

    return begin
