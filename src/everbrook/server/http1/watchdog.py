"""The watchdog: limits of time and memory for one connection.

Once a second it ends the connection if its client sends too slowly, does not read, or is idle. It adds the memory that
the connection holds to the total of all connections. Beyond the limit of that total, connections are dropped and
requests refused.
"""

from typing import TYPE_CHECKING

from everbrook.protocol.errors import Overloaded, RequestTimeout
from everbrook.server.http1.state import ENDED, LEAVING, LINGERING, REFUSED

if TYPE_CHECKING:
    from everbrook.server.http1.connection import Connection


class Watchdog:
    """Enforces the limits. `since` is when the connection last made progress."""

    __slots__ = (
        "_backlog_bytes",
        "_connection",
        "_listener",
        "_settings",
        "_transport",
        "buffered_bytes",
        "dropped",
        "seen_body_bytes",
        "since",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._listener = connection.listener
        self._transport = connection.transport
        self._settings = connection.listener.application.settings.server
        self._backlog_bytes = 0
        self.buffered_bytes = 0
        self.seen_body_bytes = 0
        self.since = connection.listener.now
        self.dropped = False

    def restart(self) -> None:
        """Record that the connection made progress."""
        self.since = self._listener.now

    def begin_backlog(self) -> None:
        """Start to watch whether the client reads the unsent bytes."""
        self.since = self._listener.now
        self._backlog_bytes = self._connection.unsent_bytes

    # Time

    def check(self, now: float) -> None:
        """End the connection if it has taken too long."""
        connection, settings = self._connection, self._settings
        if connection.state is LEAVING and not connection.reading:
            return
        self.set_buffered(self._held_bytes())
        waited_secs = now - self.since
        if connection.state is LINGERING:
            if waited_secs >= self._listener.connection_tuning.linger_secs:
                self._transport.abort()
        elif connection.responder.congested or connection.state is ENDED:
            self._check_reader(now, settings.slow_reader_timeout_secs)
        elif connection.parser.receiving:
            if connection.reading:
                self._check_sender(now, settings.request_timeout_secs)
        elif not connection.outstanding() and 0 < settings.idle_timeout_secs <= waited_secs - self._listener.tick_secs:
            self._close_idle()

    def _check_sender(self, now: float, timeout_secs: float) -> None:
        """Refuse a request that arrives too slowly.

        Each part of a body extends the deadline by the time that it takes at the lowest allowed rate. The deadline is
        never later than `timeout_secs` from now, so a fast start can't pay for a long pause.
        """
        body_bytes = self._connection.parser.body_bytes
        new_bytes, self.seen_body_bytes = body_bytes - self.seen_body_bytes, body_bytes
        if new_bytes:
            rate = self._settings.min_body_bytes_per_sec
            self.since = min(now, self.since + new_bytes / rate) if rate else now
        if 0 < timeout_secs <= now - self.since:
            self._listener.count("slow_ended", "sender")
            self._connection.refuse(RequestTimeout("the request arrived too slowly"))

    def _check_reader(self, now: float, timeout_secs: float) -> None:
        backlog_bytes = self._connection.unsent_bytes
        # A backlog that shrinks is progress: the client reads, however slowly.
        if backlog_bytes < self._backlog_bytes:
            self._backlog_bytes, self.since = backlog_bytes, now
        elif 0 < timeout_secs <= now - self.since:
            self._listener.count("slow_ended", "reader")
            self._transport.abort()

    def _close_idle(self) -> None:
        if self._connection.unsent_bytes:
            self._transport.abort()
        else:
            self._connection.close()

    # Memory

    def count_buffered(self) -> None:
        """Update the total of held bytes. Beyond its limit, drop slow connections; if that is not enough, refuse."""
        listener = self._listener
        self.set_buffered(self._held_bytes())
        if listener.buffered_bytes > listener.max_buffered_bytes:
            listener.relieve()
            if listener.buffered_bytes > listener.max_buffered_bytes:
                self._refuse_body()

    def set_buffered(self, size: int) -> None:
        """Update the share of this connection in the total of held bytes."""
        self._listener.buffered_bytes += size - self.buffered_bytes
        self.buffered_bytes = size

    def _held_bytes(self) -> int:
        parser, dispatcher = self._connection.parser, self._connection.dispatcher
        if dispatcher.arriving is not None:
            body_bytes = dispatcher.arriving.incoming.held_bytes
        else:
            body_bytes = parser.body_bytes if parser.receiving else 0
        return body_bytes + dispatcher.queued_bytes + self._connection.unsent_bytes

    def _refuse_body(self) -> None:
        if self._connection.parser.receiving and self._connection.state < REFUSED:
            self._connection.refuse(Overloaded("the server's memory for requests and responses is full"))
            self.set_buffered(0)

    def drop(self) -> None:
        """End the connection at once to free its memory."""
        # The bytes count as released at once. The loss of the connection comes in a later turn of the loop, and until
        # then `relieve` would drop further connections.
        self.dropped = True
        self._listener.count("slow_ended", "dropped_for_room")
        self._connection.state = ENDED
        self.set_buffered(0)
        self._connection.abort()
