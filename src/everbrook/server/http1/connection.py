"""One connection: requests in, answers out in the same order, and nothing without a bound.

What the event loop tells it comes in here; what is done about it is in the classes that it is built on.
"""

import asyncio
import logging
from collections.abc import Hashable
from time import monotonic
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from everbrook.protocol.errors import ProtocolError
from everbrook.server.exchange import NOBODY, Peer
from everbrook.server.http1.body import StreamedRequest
from everbrook.server.http1.leaving import Leaving
from everbrook.server.tls import subject_of

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

logger = logging.getLogger(__name__)

LINE_END = b"\r\n"
MAPPED = "::ffff:"


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Give who is at the other end. On a socket for both families IPv4 addresses are written as IPv6 ones."""
    name = transport.get_extra_info("peername")
    certificate = subject_of(transport.get_extra_info("peercert"))
    if not isinstance(name, tuple):
        return NOBODY
    address = name[0].removeprefix(MAPPED) if "." in name[0] else name[0]
    return Peer(address, certificate)


class ConnectionInspection(Struct, frozen=True, kw_only=True):
    """A connection at a moment. It is put together when somebody asks, so that connections pay nothing for it."""

    reading: bool
    """Whether bytes are read from the client, rather than left in the kernel."""

    receiving: bool
    """Whether the beginning of a request has arrived, and its end has not."""

    streaming: bool
    """Whether its body is taken as it arrives."""

    body_bytes: int
    """How much of its body has arrived."""

    held_body_bytes: int
    """How much of its body the connection holds in memory."""

    queued: int
    """Requests that wait for their turn."""

    queued_bytes: int
    """The size of their bodies."""

    parked: int
    """Answers that wait until their change is durable."""

    deferred: bool
    """Whether an answer is given piece by piece, or waits for something."""

    refusing: bool
    """Whether a refusal, which ends the connection, waits for its turn."""


class Connection(Leaving):
    """Speaks HTTP/1.1 with one client."""

    __slots__ = ("number", "place")

    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        self.number = 0
        self.place: Hashable | None = None

    def inspect(self) -> ConnectionInspection:
        """Give the state of the connection at this moment."""
        parser, arriving = self._parser, self._arriving
        return ConnectionInspection(
            reading=self._reading,
            receiving=parser.receiving,
            streaming=arriving is not None,
            body_bytes=parser.body_bytes,
            held_body_bytes=parser.gathered_bytes if arriving is None else arriving.incoming.held_bytes,
            queued=len(self._queued),
            queued_bytes=self._queued_bytes,
            parked=len(self._parked),
            deferred=self._deferred is not None,
            refusing=self._refusal is not None,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; or refuse at once when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=self._listener.connection_tuning.write_high_bytes)
        peer = peer_of(self._transport)
        if not self._transport.can_write_eof():
            self._parser.scheme = b"https"
        refusal = self._listener.admit(self, peer.address)
        self._parser.peer = replace(peer, number=self.number)
        if refusal:
            self._count("connections_refused", refusal.code)
            self._refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Parse, and answer what can be answered at once."""
        if self._refused or self._ending:
            return
        parser, overload = self._parser, self._overload
        if not parser.receiving and (data[0] not in LINE_END or data.strip(LINE_END)):
            # Empty lines are no request (RFC 9112 §2.2): who sends nothing else is idle.
            self._since = self._listener.now
            self._seen_body_bytes = 0
        # Whoever pipelines takes turns with those that wait already: each connection's own 32 would make a long turn.
        self._at_once = 1 if self._engine.turns.waiting else self._handled_at_once
        overload.reads += 1
        parser.heard_at = now = monotonic()
        late_secs = now - overload.beat_at
        if not (0.0 <= late_secs <= overload.limit_secs and overload.calm):
            self._feel(overload, late_secs)
        try:
            parser.feed(data)
        except ProtocolError as error:
            self._refuse_unread(error)
        except Exception:
            logger.exception("a connection failed and was ended")
            self._transport.abort()
        if parser.receiving or self._buffered_bytes or self._admission is not None or self._leaving:
            self._look_after()

    def _look_after(self) -> None:
        """See to what a read has left open."""
        if self._arriving is not None:
            self._look_at(self._arriving.incoming)
        if self._parser.receiving or self._buffered_bytes:
            self._count_buffered()
        if self._admission is not None or self._leaving:
            self._end_read(self._admission)

    def eof_received(self) -> bool:
        """End, unless answers are owed that come by themselves. One that waits for others is not worth a half-closed
        connection: most often the client is gone.
        """
        if self._deferred is not None and not self._deferred.brief:
            return False
        self._stopping = True
        # An encrypted connection has no half that could stay open.
        return self._outstanding() and self._transport.can_write_eof()

    def connection_lost(self, _error: Exception | None) -> None:
        """Let everything go."""
        self._ending = True
        self._listener.forget(self)
        self._set_buffered(0)
        self._end_reading()
        self._let_be()
        self._cancel_arriving()
        for request in self._queued:
            if isinstance(request, StreamedRequest):
                request.incoming.cancel()
        self._queued.clear()
        self._parked.clear()
        if self._deferred is not None:
            self._deferred.cancel()
            self._deferred = None
        self._parser.close()

    def pause_writing(self) -> None:
        """Take nothing more in while the client does not read."""
        self.congested = True
        self._since = self._listener.now
        self._backlog_bytes = self._transport.get_write_buffer_size()
        self._throttle()
        self._count_buffered()

    def resume_writing(self) -> None:
        """Go on."""
        self.congested = False
        self._count_buffered()
        self._throttle()
        if self._deferred is not None:
            self._deferred.resume()
        else:
            self._handle_queued()
