"""Uploads begin with a stream of one byte on the server `served`, which each file starts in its own way."""

import pytest

from tests.kit.servers import Connect
from tests.kit.wire import Wire
from tests.server.uploads.blobs import Server, WatchedStorage


@pytest.fixture
def storage() -> WatchedStorage:
    return WatchedStorage()


@pytest.fixture
def wire(served: Server, connect: Connect, path: str) -> Wire:
    """A connection, and a stream that holds one byte."""
    wire = connect(served)
    wire.create(path, body=b"a")
    return wire


@pytest.fixture
def url(path: str) -> str:
    """Where a snapshot of that stream can be."""
    return f"{path}/__ds/snapshot/{1:016d}"
