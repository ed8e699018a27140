"""The listener: accepts connections, checks their limits once a second, and ends them when the server stops."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence, Set as AbstractSet
from itertools import count

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback
from everbrook.protocol.errors import ProtocolError, TooManyRequests, Unavailable
from everbrook.server.application import Application
from everbrook.server.http1.acceptor import PlainAcceptor, TlsAcceptor, bind
from everbrook.server.http1.connection import Connection
from everbrook.server.http1.known_heads import KnownHeads
from everbrook.server.http1.wire import date_line
from everbrook.server.limits.overload import Overload
from everbrook.server.observe.observer import TransportSurvey
from everbrook.server.tls import Certificates


def certificates_of(application: Application) -> Certificates | None:
    """Load the certificates if TLS is configured, and reload them with the other files."""
    if not application.settings.tls.configured:
        return None
    certificates = Certificates(application.settings.tls, application.tuning.listener.certificate_secs)
    application.on_reload.append(certificates.reload)
    return certificates


class Listener:
    """The open connections of one server."""

    def __init__(self, application: Application, max_connections: int | None = None) -> None:
        """Admit at most `max_connections` at a time, by default as many as the settings allow."""
        self.application = application
        self.loop = asyncio.get_running_loop()
        self.faults, self.turns = application.engine.faults, application.engine.turns
        self._tuning = tuning = application.tuning.listener
        self.connection_tuning = tuning.connection
        self.handled_at_once = tuning.connection.handled_at_once
        self.tick_secs = tuning.tick_secs
        self.now = self.loop.time()
        self.date_line = date_line()
        self.known_heads = KnownHeads(application.prepare)
        application.on_reload.append(self.known_heads.clear)
        self.connections: set[Connection] = set()
        self._turned_away: dict[Connection, None] = {}
        self._admitted = 0
        self._accepted = 0
        application.observer.transport = self
        self._servers: list[asyncio.Server | TlsAcceptor] = []
        self._timer: Timer | None = None
        self._empty = asyncio.Event()
        self._numbers = count(1)
        self._plain = PlainAcceptor(self.loop, self._connect, tuning.accepted_at_once, self.faults)
        limits = application.settings.limits
        self._max_connections = limits.max_connections if max_connections is None else max_connections
        bounds_secs = limits.overload_wait_secs, limits.overload_commit_secs
        self.overload = Overload(application.engine, *bounds_secs, application.tuning.overload)
        application.observer.turns.worked = self.overload.worked
        self.buffered_bytes = 0
        self.max_buffered_bytes = limits.max_buffered_bytes
        self.certificates = certificates_of(application)

    async def listen(self, host: str, port: int, inherited: Sequence[socket.socket] = ()) -> list[tuple[str, int]]:
        """Start to accept connections, on the `inherited` sockets if there are any. Return the addresses."""
        if self.certificates is not None:
            self._servers = [await self._encrypt(host, port, inherited, self.certificates)]
        elif inherited:
            self._servers = [
                await self.loop.create_server(self._connect, sock=each, backlog=self._tuning.backlog)
                for each in inherited
            ]
        else:
            self._servers = [await self.loop.create_server(self._connect, host, port, backlog=self._tuning.backlog)]
        if self.certificates is None:
            self._plain.listen([each.fileno() for server in self._servers for each in server.sockets])
        self._tick()
        self._timer = self.faults.every(Callback.CONNECTION, self.tick_secs, self._tick)
        return [each.getsockname()[:2] for server in self._servers for each in server.sockets]

    async def adopt(self, connections: Sequence[socket.socket]) -> None:
        """Serve connections that the previous image of this server has accepted.

        Only connections without TLS are handed over. If TLS is configured by now, they are closed: the new image must
        not serve plain text.
        """
        if self.certificates is not None:
            for connection in connections:
                connection.close()
            return
        at_once = self._tuning.adopted_at_once
        for first in range(0, len(connections), at_once):
            some = connections[first : first + at_once]
            adopting = (self.loop.connect_accepted_socket(self._connect, each) for each in some)
            # One that its client has reset meanwhile must not fail the others.
            await asyncio.gather(*adopting, return_exceptions=True)

    def _connect(self) -> Connection:
        return Connection(self)

    async def _encrypt(
        self, host: str, port: int, inherited: Sequence[socket.socket], certificates: Certificates
    ) -> TlsAcceptor:
        sockets = inherited or await bind(host, port, self._tuning.backlog)
        certificates.watch(self.faults)
        room, tuning = lambda: self._max_connections - self._admitted, self._tuning.encryption
        return TlsAcceptor(sockets, certificates, self._connect, room, tuning, self.faults)

    @property
    def handshakes(self) -> int:
        """How many TLS handshakes are under way."""
        return sum(map(len, self._encrypting))

    @property
    def _encrypting(self) -> list[TlsAcceptor]:
        return [server for server in self._servers if isinstance(server, TlsAcceptor)]

    def admit(self, connection: Connection, address: str) -> ProtocolError | None:
        """Register a new connection, and number it. Beyond the limits of connections, return the refusal to send."""
        self.connections.add(connection)
        self._accepted += 1
        self._plain.schedule()
        if self._admitted >= self._max_connections:
            return self._turn_away(connection, Unavailable("the server has too many connections"))
        try:
            connection.place = self.application.concurrency.open(address)
        except TooManyRequests as error:
            return self._turn_away(connection, error)
        connection.number = next(self._numbers)
        self._admitted += 1
        return None

    def _turn_away(self, connection: Connection, error: ProtocolError) -> ProtocolError:
        """Keep a connection open until its refusal is read. Beyond a limit of such connections, abort the oldest."""
        # A flood of refused connections must not take the descriptors that the storage needs.
        if len(self._turned_away) >= self._tuning.max_turned_away:
            oldest = next(iter(self._turned_away))
            del self._turned_away[oldest]
            oldest.abort()
        self._turned_away[connection] = None
        return error

    def forget(self, connection: Connection) -> None:
        """Remove a connection that is lost."""
        self.connections.discard(connection)
        self._turned_away.pop(connection, None)
        if connection.number:
            self._admitted -= 1
            self.application.concurrency.close(connection.place, connection.number)
        if not self.connections:
            self._empty.set()

    def survey(self) -> TransportSurvey:
        """Count the connections, their unsent bytes, and the responses that are under way."""
        survey = TransportSurvey(open=len(self.connections), accepted=self._accepted)
        for connection in self.connections:
            survey.congested += connection.responder.congested
            survey.buffered_bytes += connection.unsent_bytes
        answering = (connection.responder.answering for connection in self.connections)
        survey.note_answers(each for each in answering if each)
        return survey

    def count(self, name: str, label: str) -> None:
        """Count an event of a connection for the metrics."""
        self.application.observer.counters.add(name, label)

    def relieve(self) -> None:
        """Drop connections while they hold too much memory, those that have made no progress for longest first."""
        slow = (each for each in self.connections if each.unsent_bytes or each.responder.congested)
        for watchdog in sorted((each.watchdog for each in slow), key=lambda each: each.since):
            if self.buffered_bytes <= self.max_buffered_bytes:
                return
            if not watchdog.dropped:
                watchdog.drop()

    def _tick(self) -> None:
        self.now = self.loop.time()
        self.date_line = date_line()
        for connection in tuple(self.connections):
            if self.faults.run(Callback.CONNECTION, connection.watchdog.check, self.now):
                connection.abort()
        for connection in tuple(self._turned_away):
            # `since` is the time of the tick before the connection was made, so it may be one tick younger.
            if self.now - connection.watchdog.since >= self._tuning.turned_away_secs + self.tick_secs:
                connection.abort()
        if self.buffered_bytes > self.max_buffered_bytes:
            self.relieve()

    async def stop(self, grace_secs: float) -> None:
        """Stop to accept, shut connections down, and abort those that remain after `grace_secs`."""
        self._close_servers()
        # Handshakes have no requests yet, so the stop does not wait for them.
        await self._until_encrypted(0)
        for connection in tuple(self.connections):
            connection.shut_down()
        await self._until_empty(grace_secs)
        for connection in tuple(self.connections):
            connection.abort()
        # What they hold, such as an upload, must be released before the engine is closed.
        await self._until_empty(self._tuning.abort_secs)
        self.overload.stop()
        if self._timer:
            self._timer.cancel()

    async def _until_empty(self, timeout_secs: float) -> None:
        if self.connections:
            self._empty.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), timeout_secs)

    def _close_servers(self) -> None:
        self._plain.close()
        for server in self._servers:
            server.close()
        if self.certificates is not None:
            self.certificates.close()

    async def leave(self, grace_secs: float) -> tuple[list[int], list[int]]:
        """Stop reading, so that the next image of this server can take over the sockets.

        Return the descriptors of the listening sockets and of the connections that have settled. While slow connections
        finish, for up to `grace_secs`, all others are still served. Then no connection is served, and those that have
        become slow meanwhile get a short time only. Connections that have not settled by then are aborted.
        """
        slow = {connection for connection in self.connections if connection.under_way}
        await self._until_settled(slow, grace_secs)
        # Closing the servers closes their sockets. The duplicates keep them open, so that clients wait in the backlog.
        listening = [os.dup(each.fileno()) for server in self._servers for each in server.sockets]
        self._close_servers()
        await self._until_encrypted(self._tuning.abort_secs)
        # The loop calls `connection_made` for accepted sockets in its next turn: they must be among those that leave.
        await asyncio.sleep(self._tuning.poll_secs)
        await self._until_settled(self.connections, min(grace_secs, self._tuning.still_secs))
        for connection in tuple(self.connections):
            if not connection.settled:
                connection.abort()
        await self._until_settled(self.connections, self._tuning.abort_secs)
        self.overload.stop()
        if self._timer:
            self._timer.cancel()
        return listening, [each for connection in self.connections if (each := connection.left()) is not None]

    async def _until_encrypted(self, timeout_secs: float) -> None:
        """Let handshakes finish, so that their clients see an orderly end of the connection. Cancel the others."""
        deadline = self.loop.time() + timeout_secs
        while self.loop.time() < deadline:
            if not self.handshakes:
                break
            await asyncio.sleep(self._tuning.poll_secs)
        for server in self._encrypting:
            server.drop()

    async def _until_settled(self, connections: AbstractSet[Connection], timeout_secs: float) -> None:
        """Make connections leave, and wait until they have settled."""
        deadline = self.loop.time() + timeout_secs
        while self.loop.time() < deadline:
            # Each time, because `connections` may have grown by those that were just accepted.
            for connection in tuple(connections):
                connection.leave()
            if all(connection.settled for connection in connections & self.connections):
                return
            await asyncio.sleep(self._tuning.poll_secs)
