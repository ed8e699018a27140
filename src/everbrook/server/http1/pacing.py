"""What is under way on a connection, and whether more of it is read: nothing is taken in without a bound.

The classes of a connection build on each other, and each keeps its own state: this one, `answering`, `requesting`,
`strain`, `timing`, `leaving`, and the `connection` itself. They have slots, as there may be very many connections.
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from everbrook.engine.clock import Timer
from everbrook.server.exchange import Deferred, Response
from everbrook.server.http1.body import Http1Request, StreamedRequest
from everbrook.server.http1.parser import RequestParser

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener


class Parked:
    """A response that waits for its change to be durable, or for those before it."""

    __slots__ = ("ready", "request", "response")

    def __init__(self, request: Http1Request, response: Response) -> None:
        self.request = request
        self.response = response
        self.ready = False


class Pacing(asyncio.Protocol):
    """Knows what is outstanding, and reads no more than can be taken."""

    __slots__ = (
        "_application",
        "_arriving",
        "_backlog_bytes",
        "_buffered_bytes",
        "_deferred",
        "_ending",
        "_engine",
        "_flooding",
        "_held",
        "_leaving",
        "_listener",
        "_max_outstanding",
        "_max_queued_bytes",
        "_parked",
        "_parser",
        "_queued",
        "_queued_bytes",
        "_reading",
        "_refusal",
        "_refused",
        "_since",
        "_stopping",
        "_transport",
        "congested",
    )

    _transport: asyncio.Transport
    _parser: RequestParser

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._application = listener.application
        self._engine = listener.application.engine
        self._max_outstanding = listener.connection_tuning.max_outstanding
        self._max_queued_bytes = listener.connection_tuning.max_queued_bytes
        self._arriving: StreamedRequest | None = None
        self._queued: deque[Http1Request] = deque()
        self._queued_bytes = 0
        self._parked: deque[Parked] = deque()
        self._deferred: Deferred | None = None
        self._refused = False
        self._refusal: Response | None = None
        self._ending = False
        self._stopping = False
        self._leaving = False
        self._reading = True
        self._held: Timer | None = None
        self._flooding = False
        self._since = listener.now
        self._backlog_bytes = 0
        self._buffered_bytes = 0
        self.congested = False

    @property
    def since(self) -> float:
        """When something last went on."""
        return self._since

    @property
    def unread(self) -> bool:
        """Whether the client has not taken all that was written."""
        return self.congested or self._transport.get_write_buffer_size() > 0

    @property
    def unsent_bytes(self) -> int:
        """How much waits for the client to take it."""
        return self._transport.get_write_buffer_size()

    def _outstanding(self) -> bool:
        """Whether answers are still to be given."""
        return self._answering() or self._refusal is not None or self._flooding

    def _answering(self) -> bool:
        """Whether answers to what could be read are still to be given."""
        return bool(self._parked or self._queued) or self._deferred is not None

    def _throttle(self) -> None:
        """Read only while the client reads, while not too much is outstanding, and what can be taken."""
        reading = not self.congested and self._held is None and self._has_room()
        if self._arriving is not None and self._arriving.incoming.blocked:
            reading = False
        if self._leaving and not self._parser.receiving:
            reading = False
        if reading == self._reading or self._ending:
            return
        self._reading = reading
        if reading:
            self._since = self._listener.now
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _has_room(self) -> bool:
        outstanding = len(self._queued) + len(self._parked)
        return outstanding < self._max_outstanding and self._queued_bytes < self._max_queued_bytes

    def _held_bytes(self) -> int:
        parser, arriving = self._parser, self._arriving
        body_bytes = arriving.incoming.held_bytes if arriving else parser.body_bytes if parser.receiving else 0
        return body_bytes + self._queued_bytes + self._transport.get_write_buffer_size()

    def _set_buffered(self, size: int) -> None:
        """Count what is held for this connection among what is held for all."""
        self._listener.buffered_bytes += size - self._buffered_bytes
        self._buffered_bytes = size

    def _count(self, name: str, label: str) -> None:
        self._application.observer.counters.add(name, label)
