"""Connections for webhooks: they are opened only to addresses that the guard has resolved and checked.

The name in a URL decides which certificate is expected and what `Host` says, but not where the connection goes. The
lookup is part of connecting, so the address can't change between the check and the use. Lookups of the system block and
can't be cancelled. So each runs in a daemon thread of its own: a name server that never responds takes one of the
bounded lookups, and delays neither the event loop nor the end of the process.
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from typing import Any, Protocol

from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream, ConnectError, ConnectTimeout

from everbrook.server.webhooks.guard import Address, Resolver, Target, check_url, resolve

Found = list[str] | OSError


class LookUp(Protocol):
    """The part of `socket.getaddrinfo` that is used."""

    def __call__(self, host: str, port: int, *, type: int) -> Sequence[tuple[Any, ...]]:
        """Resolve a name, or raise OSError."""


class SystemResolver:
    """Resolves names as every program on this machine does, a bounded number at a time."""

    def __init__(self, max_concurrent: int, look_up: LookUp = socket.getaddrinfo) -> None:
        """Run at most `max_concurrent` lookups at a time. `look_up` may block: each runs in a thread."""
        self._look_up = look_up
        self._free = asyncio.Semaphore(max_concurrent)

    async def __call__(self, name: str, port: int) -> list[str]:
        """Return the addresses of a name, or raise OSError."""
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def take(found: Found) -> None:
            self._free.release()
            if answer.done():
                return  # the delivery was cancelled
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def tell(found: Found) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended before the lookup
                loop.call_soon_threadsafe(take, found)

        Thread(target=self._answer, args=(name, port, tell), name="webhook-name", daemon=True).start()
        return await answer

    def _answer(self, name: str, port: int, tell: Callable[[Found], None]) -> None:
        try:
            found = self._look_up(name, port, type=socket.SOCK_STREAM)
        except OSError as error:
            tell(error)
        except UnicodeError:
            tell(socket.gaierror(socket.EAI_NONAME, f"{name} is not a host name"))
        else:
            tell([str(address[0]) for *_, address in found])


class GuardedNetwork(AsyncNetworkBackend):
    """The network for deliveries of one scheme."""

    def __init__(self, scheme: str, resolver: Resolver, network: AsyncNetworkBackend | None = None) -> None:
        """Connect through `network`, which gets only addresses, never names."""
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
        """Resolve a name, check its addresses, and connect to the first of them that responds."""
        try:
            async with asyncio.timeout(timeout):
                addresses = await resolve(self._target(host, port), self._resolver)
                return await self._first(addresses, port, timeout, local_address, socket_options)
        except TimeoutError:
            raise ConnectTimeout(f"no connection within {timeout:g} s") from None

    def _target(self, host: str, port: int) -> Target:
        """Check the host again, so that no connection can bypass the guard."""
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
        share = timeout and timeout / len(addresses)  # an address that never responds leaves time for the others
        failure: ConnectError | ConnectTimeout | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(str(address), port, share, local_address, socket_options)
            except (ConnectError, ConnectTimeout) as error:
                failure = error
        raise failure or ConnectError("no address")
