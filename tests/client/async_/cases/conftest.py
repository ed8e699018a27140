"""A stream that somebody else writes too, and two ways to it: a sound one, and one through a proxy with faults."""

from collections.abc import AsyncIterator, Iterator
from itertools import count
from urllib.parse import urlsplit

import pytest

from everbrook.client._async.client import AsyncClient
from everbrook.client._async.stream import AsyncStream
from tests.kit.faults.proxy import QUICKLY, Proxy
from tests.kit.faults.writer import Writer

_numbers = count()


@pytest.fixture
def writer(server: str) -> Iterator[Writer]:
    """A stream of its own, not yet created, and its other writer."""
    other = Writer(server, f"async-{next(_numbers)}")
    yield other
    other.leave()


@pytest.fixture
def stream(client: AsyncClient, writer: Writer) -> AsyncStream[object]:
    """The stream, over a sound connection."""
    return client.stream(writer.name)


@pytest.fixture
def proxy(server: str) -> Iterator[Proxy]:
    """The way to the server on which things go wrong."""
    with Proxy(urlsplit(server).port or 80) as between:
        yield between


@pytest.fixture
async def shaky_client(proxy: Proxy) -> AsyncIterator[AsyncClient]:
    """A client behind that proxy, which does not wait long before it tries again."""
    async with AsyncClient(proxy.origin, retry=QUICKLY, timeout_secs=2.0) as connected:
        yield connected


@pytest.fixture
def shaky(shaky_client: AsyncClient, writer: Writer) -> AsyncStream[object]:
    """The same stream, through that proxy."""
    return shaky_client.stream(writer.name)
