"""The backlog: connections that wait to be accepted.

The event loop accepts one connection in a turn, and when there is much to do a turn is long. So whoever waits behind
one that was accepted is taken in with it; else a client that comes anew would wait a turn for each one before it.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial

from everbrook.engine.faults import Callback, Faults


class Backlog:
    """Looks for further connections on sockets that the event loop listens on."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connect: Callable[[], asyncio.Protocol], at_once: int, faults: Faults
    ) -> None:
        """Accept at most `at_once` connections of a socket in one turn of the loop."""
        self._loop = loop
        self._connect = connect
        self._at_once = at_once
        self._faults = faults
        self._sockets: list[socket.socket] = []
        self._looking = False
        self._under_way: set[asyncio.Task[None]] = set()

    def listen(self, descriptors: Sequence[int]) -> None:
        """Look on these sockets from now on."""
        self._sockets = [socket.socket(fileno=os.dup(each)) for each in descriptors]
        for each in self._sockets:
            each.settimeout(0)

    def look(self) -> None:
        """Look for others, in the next turn: one has come."""
        if self._sockets and not self._looking:
            self._looking = True
            self._faults.soon(Callback.ACCEPT, self._accept, failed=self._rest)

    def _rest(self) -> None:
        self._looking = False

    def _accept(self) -> None:
        self._looking = False
        for listening in self._sockets:
            # Whatever is wrong, the event loop will find it too, and see to it.
            with contextlib.suppress(OSError):
                for _ in range(self._at_once):
                    self._take(listening.accept()[0])

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        task = self._loop.create_task(
            self._faults.attempt(Callback.ACCEPT, partial(self._make, connection), connection.close)
        )
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _make(self, connection: socket.socket) -> None:
        # One that was reset meanwhile is gone for its client too.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(self._connect, connection)

    def close(self) -> None:
        """Look no more."""
        for each in self._sockets:
            each.close()
        self._sockets = []
