"""The listener: accepts connections, looks after them once a second, and lets them finish when it stops."""

import asyncio
import contextlib

from everbrook.server.application import Application
from everbrook.server.http1.connection import Connection
from everbrook.server.http1.rendering import date_line

TICK_SECS = 1.0
BACKLOG = 4096
ABORT_SECS = 1.0


class Listener:
    """The open connections of one server."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.loop = asyncio.get_running_loop()
        self.tick_secs = TICK_SECS
        self.now = self.loop.time()
        self.date_line = date_line()
        self._connections: set[Connection] = set()
        self._admitted = 0
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._empty = asyncio.Event()

    async def listen(self, host: str, port: int) -> list[tuple[str, int]]:
        """Begin to accept connections. Gives the addresses that it listens on."""
        self._server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=BACKLOG)
        self._tick()
        return [socket.getsockname()[:2] for socket in self._server.sockets]

    def admit(self, connection: Connection) -> bool:
        """Look after a new connection. Tells whether there is room for it, or only for a refusal."""
        self._connections.add(connection)
        if self._admitted >= self.application.settings.limits.max_connections:
            return False
        self._admitted += 1
        return True

    def forget(self, connection: Connection) -> None:
        """Look after a connection no longer."""
        self._connections.discard(connection)
        self._admitted -= connection.admitted
        if not self._connections:
            self._empty.set()

    def _tick(self) -> None:
        self.now = self.loop.time()
        self.date_line = date_line()
        for connection in tuple(self._connections):
            connection.check(self.now)
        self._timer = self.loop.call_later(self.tick_secs, self._tick)

    async def stop(self, grace_secs: float) -> None:
        """Accept nothing more, let those who read finish their event and go, and end what stays."""
        if self._server:
            self._server.close()
        for connection in tuple(self._connections):
            connection.shut_down()
        await self._until_empty(grace_secs)
        for connection in tuple(self._connections):
            connection.abort()
        # What they let go of, as an upload in the middle, must be let go of before the engine is closed.
        await self._until_empty(ABORT_SECS)
        if self._timer:
            self._timer.cancel()

    async def _until_empty(self, timeout_secs: float) -> None:
        if self._connections:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_secs)
