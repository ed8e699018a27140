"""A server, and a stream for the answer of a model."""

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

from everbrook import AsyncClient, AsyncStream
from tests.kit.server_process import serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of streams."""
    with serving(tmp_path_factory.mktemp("server")) as started:
        yield "http://{}:{}".format(*started.address)


@pytest.fixture
async def stream(server: str) -> AsyncIterator[AsyncStream[Any]]:
    async with AsyncClient(server) as client:
        yield client.stream(f"answers/{uuid4()}")
