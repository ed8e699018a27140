"""Acceptors: they accept connections from the listening sockets.

The event loop accepts plain connections one per turn, and `PlainAcceptor` accepts the rest of the backlog.
`TlsAcceptor` accepts all TLS connections itself, because it bounds the number of handshakes.
"""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from functools import partial

from everbrook.engine.faults import Callback, Faults
from everbrook.server.tls import Certificates
from everbrook.server.tuning import EncryptionTuning

logger = logging.getLogger(__name__)


class PlainAcceptor:
    """Accepts the rest of a socket's backlog after the event loop has accepted one connection.

    The event loop accepts one connection per turn. Under load a turn is long, so the last of many new clients would
    wait for as many turns as there are clients before it.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connect: Callable[[], asyncio.Protocol], at_once: int, faults: Faults
    ) -> None:
        """Accept at most `at_once` connections per socket and turn of the loop."""
        self._loop = loop
        self._connect = connect
        self._at_once = at_once
        self._faults = faults
        self._sockets: list[socket.socket] = []
        self._scheduled = False
        self._under_way: set[asyncio.Task[None]] = set()

    def listen(self, descriptors: Sequence[int]) -> None:
        """Start to accept from these sockets."""
        # Duplicates, because the servers of the event loop own the sockets and close them.
        self._sockets = [socket.socket(fileno=os.dup(each)) for each in descriptors]
        for each in self._sockets:
            each.settimeout(0)

    def schedule(self) -> None:
        """Accept the backlog in the next turn. The caller has just got a connection, so more may wait."""
        if self._sockets and not self._scheduled:
            self._scheduled = True
            self._faults.soon(Callback.ACCEPT, self._accept, failed=self._unschedule)

    def _unschedule(self) -> None:
        self._scheduled = False

    def _accept(self) -> None:
        self._scheduled = False
        for listening in self._sockets:
            # The event loop accepts from the same socket: it gets the same error, and handles it.
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
        # The client may have reset the connection since it was accepted.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(self._connect, connection)

    def close(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets = []


class TlsAcceptor:
    """Accepts connections and runs their TLS handshakes. A `Connection` begins when its handshake is complete.

    A handshake that takes too long is dropped without a response, because there is no request yet. If too many are
    under way, the oldest is dropped: an honest client needs a moment only, so a client that holds handshakes open
    mostly loses its own.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        certificates: Certificates,
        connect: Callable[[], asyncio.Protocol],
        room: Callable[[], int],
        tuning: EncryptionTuning,
        faults: Faults,
    ) -> None:
        """Start to accept. `room` returns how many more connections the limits allow."""
        self.sockets = tuple(sockets)
        self._certificates = certificates
        self._connect = connect
        self._room = room
        self._tuning = tuning
        self._faults = faults
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[asyncio.Task[None], None] = {}
        for each in self.sockets:
            each.settimeout(0)
            self._watch(each)

    def __len__(self) -> int:
        """How many handshakes are under way."""
        return len(self._under_way)

    def close(self) -> None:
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()

    def drop(self) -> None:
        """Cancel the handshakes that are under way."""
        for task in tuple(self._under_way):
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(self._tuning.accepted_at_once):
            try:
                connection, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening, error)
                return
            self._begin(connection)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        # The usual error is EMFILE. The socket stays readable, so without a pause the loop would spin on it.
        logger.warning("accepting connections is paused: %s", error.strerror)
        self._loop.remove_reader(listening)
        go_on = partial(self._go_on, listening)
        self._faults.later(Callback.ACCEPT, self._tuning.pause_secs, go_on, failed=go_on)

    def _watch(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._faults.run, Callback.ACCEPT, self._accept, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._watch(listening)

    def _begin(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held = [connection]
        task = self._loop.create_task(self._faults.attempt(Callback.ACCEPT, partial(self._encrypt, held)))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._forget(done, held))
        if len(self._under_way) > max(self._room(), self._tuning.min_handshakes):
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.cancel()

    def _forget(self, task: asyncio.Task[None], held: list[socket.socket]) -> None:
        """Remove a handshake that has ended. `held` still has its socket if it was cancelled before it began."""
        self._under_way.pop(task, None)
        for connection in held:
            connection.close()

    async def _encrypt(self, held: list[socket.socket]) -> None:
        # Failed handshakes are not logged: scanners cause many of them, and the client gets the reason as a TLS alert.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(
                self._connect,
                held.pop(),
                ssl=self._certificates.context,
                ssl_handshake_timeout=self._certificates.handshake_timeout_secs,
                ssl_shutdown_timeout=self._tuning.closing_secs,
            )


async def bind(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Listen on every address of a host. If one of them fails, all are closed."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as opened:
        sockets = []
        for family, _kind, _protocol, _name, address in dict.fromkeys(found):
            made = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # The IPv4 addresses of the host have sockets of their own, which would collide with a socket for both.
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(backlog)
            sockets.append(made)
        opened.pop_all()
    return sockets
