"""Who is at the other end of a connection."""

import asyncio
import socket

import pytest

from everbrook.server.exchange import Peer
from everbrook.server.http1.connection import peer_of


async def seen_from(host: str) -> Peer:
    """Connect to a socket for both families, and give whom its end sees."""
    seen: asyncio.Future[Peer] = asyncio.get_running_loop().create_future()

    class Looking(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            seen.set_result(peer_of(transport))
            transport.close()

    listening = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    async with await asyncio.get_running_loop().create_server(Looking, sock=listening):
        with socket.create_connection((host, listening.getsockname()[1])):
            return await seen


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_an_address_is_as_its_client_knows_it(host: str) -> None:
    assert asyncio.run(seen_from(host)).address == host
