"""A server, the two clients of it, and the URL of a stream that no other test uses."""

from collections.abc import Iterator
from itertools import count

import pytest

from everbrook import Client
from tests.conformance.interop.typescript import TypeScript
from tests.kit.server_thread import RunningServer, configured

_numbers = count()


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    with RunningServer(configured(server__long_poll_timeout_secs=1.0)) as running:
        yield running


@pytest.fixture(scope="session")
def typescript() -> Iterator[TypeScript]:
    with TypeScript() as agent:
        yield agent


@pytest.fixture
def python(server: RunningServer) -> Iterator[Client]:
    with Client(server.origin) as client:
        yield client


@pytest.fixture
def url(server: RunningServer) -> str:
    return f"{server.origin}/v1/stream/interop/{next(_numbers)}"
