"""One connection: requests in, answers out in the same order, and nothing without a bound.

A `Connection` is what the event loop calls. Its parts do the work: the `RequestParser` makes requests of the bytes, the
`Dispatcher` has them handled in order, and the `Responder` writes their answers. `AdmissionControl` refuses requests
under overload, and the `Watchdog` keeps the limits of time and memory.
"""

import asyncio
import logging
from collections.abc import Hashable
from time import monotonic
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from everbrook.protocol.errors import Overloaded, ProtocolError
from everbrook.server.exchange import UNKNOWN_PEER, Peer
from everbrook.server.http1.admission import AdmissionControl
from everbrook.server.http1.dispatcher import Dispatcher
from everbrook.server.http1.parser import RequestParser
from everbrook.server.http1.responder import Responder
from everbrook.server.http1.state import ENDED, LEAVING, LINGERING, OPEN, REFUSED, STOPPING, ConnectionInspection
from everbrook.server.http1.watchdog import Watchdog
from everbrook.server.tls import subject_of

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

logger = logging.getLogger(__name__)

LINE_END = b"\r\n"
MAPPED = "::ffff:"


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Give the other end of a connection. A socket for both families writes IPv4 addresses as IPv6 ones."""
    name = transport.get_extra_info("peername")
    certificate = subject_of(transport.get_extra_info("peercert"))
    if not isinstance(name, tuple):
        return UNKNOWN_PEER
    address = name[0].removeprefix(MAPPED) if "." in name[0] else name[0]
    return Peer(address, certificate)


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client. It has slots because there may be very many connections.

    The parts, which exist while there is a transport, refer to the connection. When it is lost, they are dropped: that
    breaks the reference cycles, so that everything is freed at once. Later calls of the engine find the state `ENDED`.
    """

    __slots__ = (
        "admission",
        "dispatcher",
        "listener",
        "number",
        "parser",
        "place",
        "reading",
        "responder",
        "state",
        "transport",
        "watchdog",
    )

    transport: asyncio.Transport
    parser: RequestParser
    dispatcher: Dispatcher
    responder: Responder
    admission: AdmissionControl
    watchdog: Watchdog

    def __init__(self, listener: "Listener") -> None:
        self.listener = listener
        self.state = OPEN
        self.reading = True
        self.number = 0
        self.place: Hashable | None = None

    def inspect(self) -> ConnectionInspection:
        """Give the state of the connection at this moment."""
        parser, dispatcher, arriving = self.parser, self.dispatcher, self.dispatcher.arriving
        return ConnectionInspection(
            reading=self.reading,
            receiving=parser.receiving,
            streaming=arriving is not None,
            body_bytes=parser.body_bytes,
            held_body_bytes=parser.gathered_bytes if arriving is None else arriving.incoming.held_bytes,
            queued=len(dispatcher.queued),
            queued_bytes=dispatcher.queued_bytes,
            parked=len(self.responder.parked),
            deferred=self.responder.deferred is not None,
            refusing=dispatcher.refusal is not None,
        )

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; or refuse at once if there are too many connections."""
        listener, limits = self.listener, self.listener.application.settings.limits
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=listener.connection_tuning.write_high_bytes)
        self.watchdog = Watchdog(self)
        self.admission = AdmissionControl(self)
        self.responder = Responder(self)
        self.dispatcher = dispatcher = Dispatcher(self)
        self.parser = RequestParser(
            limits.max_header_bytes,
            limits.max_append_bytes,
            dispatcher.expect_body,
            dispatcher.take,
            dispatcher.send_continue,
            listener.application.roots.inward,
            judges_heads=listener.application.judges_heads,
        )
        if not self.transport.can_write_eof():
            self.parser.scheme = b"https"
        peer = peer_of(transport)
        refusal = listener.admit(self, peer.address)
        self.parser.peer = replace(peer, number=self.number)
        if refusal:
            listener.count("connections_refused", refusal.code)
            self.refuse(refusal)

    def data_received(self, data: bytes) -> None:
        """Parse, and answer what can be answered at once."""
        if self.state >= REFUSED:
            return
        listener, parser, watchdog = self.listener, self.parser, self.watchdog
        if not parser.receiving and (data[0] not in LINE_END or data.strip(LINE_END)):
            # Empty lines are no request (RFC 9112 §2.2): a client that sends nothing else is idle.
            watchdog.since, watchdog.seen_body_bytes = listener.now, 0
        # While others wait for their turn, handle one request at once: 32 of each connection would make a long turn.
        self.dispatcher.at_once = 1 if listener.turns.waiting else listener.handled_at_once
        overload = listener.overload
        overload.reads += 1
        parser.heard_at = now = monotonic()
        late_secs = now - overload.beat_at
        if not (0.0 <= late_secs <= overload.limit_secs and overload.calm):
            self.admission.begin_read(late_secs)
        try:
            parser.feed(data)
        except ProtocolError as error:
            self._refuse_unread(error)
        except Exception:
            logger.exception("a connection failed and was ended")
            self.transport.abort()
        if parser.receiving or watchdog.buffered_bytes or self.admission.current or self.state is LEAVING:
            self._end_read()

    def _end_read(self) -> None:
        """Check what a read has left open."""
        if self.dispatcher.arriving is not None:
            self.dispatcher.check_body(self.dispatcher.arriving)
        if self.parser.receiving or self.watchdog.buffered_bytes:
            self.watchdog.count_buffered()
        if self.admission.current is not None:
            self.admission.end_read(self.admission.current)
        elif self.state is LEAVING:
            self.throttle()

    def eof_received(self) -> bool:
        """End, unless answers are due that come soon by themselves.

        An answer that waits for others is not worth a half-closed connection: most often the client is gone.
        """
        deferred = self.responder.deferred
        if deferred is not None and not deferred.brief:
            return False
        self.state = max(self.state, STOPPING)
        # An encrypted connection has no half that could stay open.
        return self.outstanding() and self.transport.can_write_eof()

    def pause_writing(self) -> None:
        """Read nothing more while the client does not read."""
        self.responder.congested = True
        self.watchdog.begin_backlog()
        self.throttle()
        self.watchdog.count_buffered()

    def resume_writing(self) -> None:
        """Go on."""
        self.responder.congested = False
        self.watchdog.count_buffered()
        self.throttle()
        if self.responder.deferred is not None:
            self.responder.deferred.resume()
        else:
            self.dispatcher.dispatch()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel what is under way, and drop the parts."""
        self.state = ENDED
        self.listener.forget(self)
        self.watchdog.set_buffered(0)
        self.admission.close()
        self.dispatcher.close()
        self.responder.close()
        self.parser.close()
        del self.admission, self.dispatcher, self.parser, self.responder, self.watchdog

    # What is outstanding, and whether more is read

    @property
    def unsent_bytes(self) -> int:
        """How much waits for the client to take it."""
        return self.transport.get_write_buffer_size()

    def outstanding(self) -> bool:
        """Tell whether answers are still to be given."""
        return self.responder.busy or self.dispatcher.busy or self.admission.flooding

    def throttle(self) -> None:
        """Read only while the client reads, not too much is outstanding, and what arrives can be taken."""
        if self.state is ENDED:
            return
        arriving = self.dispatcher.arriving
        reading = not self.responder.congested and not self.admission.held and self.dispatcher.has_room()
        if arriving is not None and arriving.incoming.blocked:
            reading = False
        if self.state is LEAVING and not self.parser.receiving:
            reading = False
        if reading == self.reading or self.transport.is_closing():
            return
        self.reading = reading
        if reading:
            self.watchdog.restart()
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    # Refusals

    def refuse(self, error: ProtocolError, rests_on: int = 0) -> None:
        """Answer with an error what can't be read, after everything before it, and end.

        If an answer before it waits for other clients, the connection ends at once instead.
        """
        if self.state >= REFUSED or (self.admission.current is not None and self.admission.current.flooding):
            return
        self.state = REFUSED
        parser, arriving, deferred = self.parser, self.dispatcher.arriving, self.responder.deferred
        # The access log gets what is known of the request: what was asked for, or at least by whom.
        request = parser.partial_request() if arriving is None else replace(arriving, connection=None)
        self.dispatcher.cancel_arriving()
        parser.discard_body()
        if deferred is not None and not deferred.brief:
            self.transport.abort()
            return
        response = self.listener.application.refuse(error, parser.headers, request)
        response.rests_on = rests_on
        self.dispatcher.refuse(request, response)

    def _refuse_unread(self, error: ProtocolError) -> None:
        """Refuse what can't be read. It is charged to its address as any request is; others were charged before."""
        if self.dispatcher.arriving is None and not isinstance(error, Overloaded):
            error = self.listener.application.charge(self.parser.partial_request()) or error
        self.refuse(error)

    # The end

    def end(self) -> None:
        """Close when everything is written.

        A refused client may still be sending, so its bytes are read and dropped for a while. The end of an encrypted
        connection includes that.
        """
        self.watchdog.begin_backlog()
        self.dispatcher.refusal = None
        if not REFUSED <= self.state <= LINGERING:
            self.close()
            return
        self.state = LINGERING
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def close(self) -> None:
        """Close when everything is written. What the client still sends is not read."""
        self.state = ENDED
        self.transport.close()

    def abort(self) -> None:
        """End at once."""
        self.responder.abort()

    def shut_down(self) -> None:
        """Answer what is under way, then close."""
        self.state = max(self.state, STOPPING)
        self.responder.shut_down()
        if not self.outstanding() and not self.parser.receiving:
            self.close()

    # Handing over the socket to the next image of the server

    @property
    def under_way(self) -> bool:
        """Whether a request or an answer is under way that may take its time. A live read is neither."""
        if self.responder.deferred is not None:
            return self.responder.deferred.brief
        return self.state >= REFUSED or self.parser.receiving or self.unsent_bytes > 0

    def leave(self) -> None:
        """Read no further request: what is not read yet is left to the next image of the server.

        A request of which a part was read must become whole here. A TLS connection can't be handed over, so it ends.
        """
        if self.state is not OPEN or self.transport.is_closing():
            return
        if self.transport.get_extra_info("sslcontext") is not None:
            self.shut_down()
            return
        self.state = LEAVING
        self.throttle()
        self.responder.shut_down()

    @property
    def settled(self) -> bool:
        """Whether the connection is ready to be handed over, or has ended but for the client's part of it."""
        if self.transport.is_closing():
            return not self.unsent_bytes
        return self.left() is not None

    def left(self) -> int | None:
        """Give the descriptor of a connection that has left and has nothing under way here, else None."""
        if self.state is not LEAVING or self.reading or self.outstanding():
            return None
        if self.parser.receiving or self.unsent_bytes:
            return None
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor
