"""Connections for webhooks: opened only to addresses that the guard has passed, and only by the guard's own lookup.

The rule: the name in a URL says whose certificate is expected and what `Host` says, never where the connection goes
by itself. The lookup is part of connecting, so nothing can change between the check and the use.
"""

import asyncio
from collections.abc import Iterable

from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from everbrook.server.webhooks.addresses import Address
from everbrook.server.webhooks.guard import Resolver, Target, check_url, resolve


class GuardedNetwork(AsyncNetworkBackend):
    """The network as deliveries of one scheme see it."""

    def __init__(self, scheme: str, resolver: Resolver, network: AsyncNetworkBackend | None = None) -> None:
        """Connect through `network`, which is given addresses only."""
        self._scheme = scheme
        self._resolver = resolver
        self._network = network or AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore's
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        """Look a name up, judge its addresses, and connect to the first of them that answers."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await resolve(self._target(host, port), self._resolver)
                return await self._first(addresses, port, timeout, local_address, socket_options)
        except TimeoutError:
            raise ConnectTimeout(f"no connection within {timeout:g} s") from None

    def _target(self, host: str, port: int) -> Target:
        """Judge the host once more: whatever asks for a connection, the guard is not passed by."""
        shown = f"[{host}]" if ":" in host else host
        return check_url(f"{self._scheme}://{shown}:{port}/", allow_loopback_http=True)

    async def _first(
        self,
        addresses: list[Address],
        port: int,
        timeout: float | None,  # noqa: ASYNC109 - shared out among the addresses
        local_address: str | None,
        socket_options: Iterable[SOCKET_OPTION] | None,
    ) -> AsyncNetworkStream:
        share = timeout and timeout / len(addresses)  # one that swallows everything leaves time for the others
        failure: ConnectError | ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(str(address), port, share, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                failure = error
        raise failure or ConnectError("no address")
