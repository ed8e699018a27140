"""One connection: requests in, responses out in the same order, with limits on everything that it holds.

The event loop calls a `Connection`. Its parts do the work: the `RequestParser` makes requests of the bytes, the
`Dispatcher` has them handled in order, and the `Responder` writes their responses. `AdmissionControl` refuses requests
under overload, and the `Watchdog` enforces the limits of time and memory.
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
    """Return the other end of a connection. A dual-stack socket maps IPv4 addresses to IPv6: this undoes it."""
    name = transport.get_extra_info("peername")
    certificate = subject_of(transport.get_extra_info("peercert"))
    if not isinstance(name, tuple):
        return UNKNOWN_PEER
    address = name[0].removeprefix(MAPPED) if "." in name[0] else name[0]
    return Peer(address, certificate)


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client. It has slots because there may be very many connections.

    The parts exist while there is a transport, and refer to the connection. `connection_lost` deletes them: that breaks
    the reference cycles, so that all memory is freed at once and not by the garbage collector. Callbacks that come
    later find the state `ENDED`.
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
        """Return a snapshot of the connection."""
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
        """Create the parts. Beyond the limits of connections, queue a refusal."""
        listener, limits = self.listener, self.listener.application.settings.limits
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=listener.connection_tuning.write_high_bytes)
        self.watchdog = Watchdog(self)
        self.admission = AdmissionControl(self)
        self.responder = Responder(self)
        self.dispatcher = dispatcher = Dispatcher(self)
        self.parser = RequestParser(
            limits,
            dispatcher.expect_body,
            dispatcher.take,
            dispatcher.send_continue,
            listener.application.roots.inward,
            listener.known_heads,
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
        """Parse the bytes. Complete requests are handled within this call, as far as their order allows."""
        if self.state >= REFUSED:
            return
        listener, parser, watchdog = self.listener, self.parser, self.watchdog
        if not parser.receiving and (data[0] not in LINE_END or data.strip(LINE_END)):
            # Empty lines before a request are ignored (RFC 9112 §2.2): a client that sends only those is idle.
            watchdog.since, watchdog.seen_body_bytes = listener.now, 0
        # While other work waits for its turn, handle one request per read: 32 of each connection would add up to a long
        # turn of the loop.
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
        """Check what is unfinished after a read. A read of complete requests skips this, to keep the hot path short."""
        if self.dispatcher.arriving is not None:
            self.dispatcher.check_body(self.dispatcher.arriving)
        if self.parser.receiving or self.watchdog.buffered_bytes:
            self.watchdog.count_buffered()
        if self.admission.current is not None:
            self.admission.end_read(self.admission.current)
        elif self.state is LEAVING:
            self.throttle()

    def eof_received(self) -> bool:
        """End the connection, unless brief responses are outstanding.

        A live read does not keep a half-closed connection: most often its client is gone, and nobody would notice.
        """
        deferred = self.responder.deferred
        if deferred is not None and not deferred.brief:
            return False
        self.state = max(self.state, STOPPING)
        # TLS has no half-closed connections.
        return self.outstanding() and self.transport.can_write_eof()

    def pause_writing(self) -> None:
        """Stop reading while the client does not take its responses (back-pressure)."""
        self.responder.congested = True
        self.watchdog.begin_backlog()
        self.throttle()
        self.watchdog.count_buffered()

    def resume_writing(self) -> None:
        """Continue, because the client has taken most of its responses."""
        self.responder.congested = False
        self.watchdog.count_buffered()
        self.throttle()
        if self.responder.deferred is not None:
            self.responder.deferred.resume()
        else:
            self.dispatcher.dispatch()

    def connection_lost(self, _error: Exception | None) -> None:
        """Cancel what is under way, and delete the parts."""
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
        """The size of the responses that the client has not taken yet."""
        return self.transport.get_write_buffer_size()

    def outstanding(self) -> bool:
        """Tell whether responses are outstanding."""
        return self.responder.busy or self.dispatcher.busy or self.admission.flooding

    def throttle(self) -> None:
        """Pause or resume reading. Back-pressure, a hold, too many outstanding requests, or a blocked body pause it."""
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
        """Send a refusal after all earlier responses, and end the connection.

        If an earlier request is a live read, which may wait for hours, the connection ends at once instead.
        """
        if self.state >= REFUSED or (self.admission.current is not None and self.admission.current.flooding):
            return
        self.state = REFUSED
        parser, arriving, deferred = self.parser, self.dispatcher.arriving, self.responder.deferred
        # For the access log: the request as far as it is known, which may be its client alone.
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
        """Refuse bytes that are no request. They count against the rate of their address, as a request would.

        A request whose body was arriving was counted with its head, and one that overload refuses is not counted.
        """
        if self.dispatcher.arriving is None and not isinstance(error, Overloaded):
            error = self.listener.application.charge(self.parser.partial_request()) or error
        self.refuse(error)

    # The end

    def end(self) -> None:
        """Close when everything is written.

        A refused client may still be sending. If the socket were closed, the kernel would reset the connection, and
        the client could lose the refusal. So only the sending side is closed, and what arrives is dropped for a while.
        The shutdown of a TLS connection includes that.
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
        """Close when everything is written, and read nothing more."""
        self.state = ENDED
        self.transport.close()

    def abort(self) -> None:
        """End the connection at once. Responses that are not written are lost."""
        self.responder.abort()

    def shut_down(self) -> None:
        """Finish the requests that are under way, then close."""
        self.state = max(self.state, STOPPING)
        self.responder.shut_down()
        if not self.outstanding() and not self.parser.receiving:
            self.close()

    # Handing over the socket to the next image of the server

    @property
    def under_way(self) -> bool:
        """Whether a request or a response is under way. A live read does not count: it can be ended at once."""
        if self.responder.deferred is not None:
            return self.responder.deferred.brief
        return self.state >= REFUSED or self.parser.receiving or self.unsent_bytes > 0

    def leave(self) -> None:
        """Read no further request. What is still in the kernel is for the next image of the server.

        A request of which a part was read must be completed here, because those bytes can't be handed over. Neither can
        the state of a TLS connection, so it ends.
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
        """Whether the connection can be handed over, or is closed and has nothing left to send."""
        if self.transport.is_closing():
            return not self.unsent_bytes
        return self.left() is not None

    def left(self) -> int | None:
        """Return the descriptor of a connection that can be handed over, because nothing is under way, else None."""
        if self.state is not LEAVING or self.reading or self.outstanding():
            return None
        if self.parser.receiving or self.unsent_bytes:
            return None
        descriptor: int = self.transport.get_extra_info("socket").fileno()
        return descriptor
