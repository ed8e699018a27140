"""Encrypted connections: accepted here, encrypted by the loop, and only then spoken with.

What is not encrypted in time is dropped; nothing was asked by then, so nobody is answered. Where there are too many,
the oldest goes: who means well is done in an instant, and who holds connections open to keep others out pushes out
their own.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial

from everbrook.engine.faults import Callback, Faults
from everbrook.server.http1.tuning import EncryptionTuning
from everbrook.server.tls import Certificates

logger = logging.getLogger(__name__)


class EncryptedServer:
    """Sockets that listen, and their connections until they are encrypted. `room` says how many more there may be."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        certificates: Certificates,
        connect: Callable[[], asyncio.Protocol],
        room: Callable[[], int],
        tuning: EncryptionTuning,
        faults: Faults,
    ) -> None:
        """Begin to accept."""
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
            self._look_at(each)

    def __len__(self) -> int:
        """How many connections are not encrypted yet."""
        return len(self._under_way)

    def close(self) -> None:
        """Accept no more."""
        for each in self.sockets:
            self._loop.remove_reader(each)
            each.close()

    def drop(self) -> None:
        """Let go of what is not encrypted."""
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
        logger.warning("no connection can be accepted for now: %s", error.strerror)
        self._loop.remove_reader(listening)
        go_on = partial(self._go_on, listening)
        self._faults.later(Callback.ACCEPT, self._tuning.pause_secs, go_on, failed=go_on)

    def _look_at(self, listening: socket.socket) -> None:
        self._loop.add_reader(listening, self._faults.run, Callback.ACCEPT, self._accept, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self._look_at(listening)

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
        """Look after a connection no longer. One that was dropped before its turn came is still held."""
        self._under_way.pop(task, None)
        for connection in held:
            connection.close()

    async def _encrypt(self, held: list[socket.socket]) -> None:
        # A scanner, an old client, a certificate that is not good: the other side knows, and there are many.
        with contextlib.suppress(OSError):
            await self._loop.connect_accepted_socket(
                self._connect,
                held.pop(),
                ssl=self._certificates.context,
                ssl_handshake_timeout=self._certificates.handshake_timeout_secs,
                ssl_shutdown_timeout=self._tuning.closing_secs,
            )


async def bind(host: str, port: int, backlog: int) -> list[socket.socket]:
    """Listen on every address of a host."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with contextlib.ExitStack() as opened:
        sockets = []
        for family, _kind, _protocol, _name, address in dict.fromkeys(found):
            made = opened.enter_context(socket.socket(family, socket.SOCK_STREAM))
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(backlog)
            sockets.append(made)
        opened.pop_all()
    return sockets
