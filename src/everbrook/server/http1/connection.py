"""One connection: requests in, answers out in the same order, and nothing without a bound.

An answer whose change is not durable yet is parked, and so is every answer behind it. While an answer is deferred (a
long-poll, an event stream), the requests behind it wait. A body that is taken as it comes begins when the requests
before it are handled, and its request is handled when it is whole.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Callable, Hashable
from time import monotonic
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from everbrook.protocol.errors import Overloaded, ProtocolError, RequestTimeout, TooManyRequests, Unavailable
from everbrook.server.exchange import NOBODY, Deferred, Peer, Response
from everbrook.server.http1.incoming import Incoming
from everbrook.server.http1.parser import Http1Request, RequestParser, StreamedRequest
from everbrook.server.http1.rendering import (
    CONTINUE,
    LAST_CHUNK,
    chunk,
    render_head,
    render_stream_head,
    unframed,
)
from everbrook.server.limits.holdings import NO_PLACE
from everbrook.server.limits.overload import hold_secs, wait_secs
from everbrook.server.limits.pulse import Pulse
from everbrook.server.limits.turn import Turn
from everbrook.server.observe.tallies import NO_TALLY
from everbrook.server.tls import subject_of

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

logger = logging.getLogger(__name__)

MAX_OUTSTANDING = 128
MAX_QUEUED_BYTES = 1024 * 1024
WRITE_HIGH_BYTES = 256 * 1024
SEPARATE_BODY_BYTES = 64 * 1024
LINGER_SECS = 5.0
MIN_BODY_BYTES_PER_SEC = 1024

READS = {b"GET", b"HEAD"}

# SO_LINGER with no time to linger: closing the socket resets the connection.
RESET = struct.pack("ii", 1, 0)

NO_REQUEST = Http1Request(b"", b"", b"", {}, b"", connection=None, chunkable=True, operation="other")


def _held_bytes(request: Http1Request) -> int:
    return request.incoming.held_bytes if isinstance(request, StreamedRequest) else len(request.body)


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Give who is at the other end."""
    name = transport.get_extra_info("peername")
    certificate = subject_of(transport.get_extra_info("peercert"))
    return Peer(name[0], certificate) if isinstance(name, tuple) else NOBODY


class Parked:
    """A response that waits for its change to be durable, or for those before it."""

    __slots__ = ("ready", "request", "response")

    def __init__(self, request: Http1Request, response: Response) -> None:
        self.request = request
        self.response = response
        self.ready = False


class Connection(asyncio.Protocol):
    """Speaks HTTP/1.1 with one client. It is the `Exchange` of the answer that is being given."""

    _transport: asyncio.Transport

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._application = listener.application
        self._engine = listener.application.engine
        limits = listener.application.settings.limits
        self._parser = RequestParser(
            limits.max_header_bytes, limits.max_append_bytes, self._expect_body, self._take, self._send_continue
        )
        self._arriving: StreamedRequest | None = None
        self._queued: deque[Http1Request] = deque()
        self._queued_bytes = 0
        self._parked: deque[Parked] = deque()
        self._deferred: Deferred | None = None
        self._deferred_request = NO_REQUEST
        self._refused = False
        self._refusal: Response | None = None
        self._ending = False
        self._stopping = False
        self._leaving = False
        self._reading = True
        self._since = listener.now
        self._backlog_bytes = 0
        self._seen_body_bytes = 0
        self.number = 0
        self.place: Hashable | None = None
        self._reading_place = NO_PLACE
        self._pulse = listener.pulse
        self._turn: Turn | None = None
        self._held: asyncio.TimerHandle | None = None
        self._flooding = False
        self._returning = False
        self._window = -1
        self._buffered_bytes = 0
        self.congested = False
        self.frame: Callable[[bytes], bytes] = chunk
        self._last = False
        self._answered = listener.application.observer.answered
        self._tally = NO_TALLY
        self._heard_at = 0.0

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; or refuse at once when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
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
        if not self._parser.receiving:
            self._since = self._listener.now
            self._seen_body_bytes = 0
        pulse = self._pulse
        pulse.reads += 1
        now = self._heard_at = monotonic()
        late_secs = now - pulse.beat_at
        if late_secs > pulse.limit_secs or not pulse.calm:
            self._begin_turn(pulse)
        elif late_secs < 0:
            pulse.start()
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            self._refuse(error)
        except Exception:
            logger.exception("a connection failed and was ended")
            self._transport.abort()
        if self._arriving is not None:
            self._look_at(self._arriving.incoming)
        if self._parser.receiving or self._buffered_bytes:
            self._count_buffered()
        if self._turn is not None or self._leaving:
            self._end_turn(self._turn)

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
        if self._held is not None:
            self._held.cancel()
            self._pulse.held -= 1
        self._cancel_arriving()
        for request in self._queued:
            if isinstance(request, StreamedRequest):
                request.incoming.cancel()
        self._queued.clear()
        self._parked.clear()
        if self._deferred is not None:
            self._deferred.cancel()
            self._deferred = None

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

    # Requests

    def _take(self, request: Http1Request) -> None:
        """Take a whole request from the parser."""
        if self._refused or self._ending:
            return
        begun, self._arriving = self._arriving, None
        if self._answered is not None:
            request.received = self._heard_at
        if not self._queued and not self._must_wait(request):
            if self._turn is None or begun is request or self._turn.admits(request):
                self._handle(request)
            elif self._turn.flooding:
                # There is no need to parse the rest.
                raise self._overloaded()
        else:
            self._queued.append(request)
            self._queued_bytes += _held_bytes(request)
            self._throttle()

    def _must_wait(self, request: Http1Request) -> bool:
        """Requests wait behind a deferred answer, and while the client takes no answers. A read also waits for the
        writes before it: what the client was told is stored, it must see.
        """
        if self._deferred is not None or self.congested:
            return True
        return bool(self._parked) and request.method in READS

    def _handle(self, request: Http1Request) -> None:
        if type(request) is StreamedRequest:
            reply = request.incoming.finish(self._application, request, self._throttle)
        else:
            reply = self._application.handle(request)
        if isinstance(reply, Response):
            self._answer(request, reply)
            return
        if not reply.brief:
            try:
                self._reading_place = self._application.holdings.begin_reading(request)
            except TooManyRequests as error:
                self._answer(request, self._application.refuse(error, request.headers))
                return
        self._deferred = reply
        self._deferred_request = request
        self.frame = chunk if request.chunkable else unframed
        if not self._parked:
            self._start_deferred(reply)

    def _start_deferred(self, deferred: Deferred) -> None:
        deferred.start(self)
        if (self._stopping or self._leaving) and self._deferred is deferred:
            deferred.shut_down()

    def _handle_queued(self) -> None:
        """Take up the requests that waited, and then the refusal of what came behind them."""
        while self._queued and not self._ending and not self._must_wait(self._queued[0]):
            request = self._queued.popleft()
            self._queued_bytes -= _held_bytes(request)
            self._handle(request)
        if self._arriving is not None:
            self._begin_in_turn(self._arriving)
        self._throttle()
        if self._refusal is not None and not self._answering():
            refusal, self._refusal = self._refusal, None
            self._answer(NO_REQUEST, refusal)

    def _send_continue(self) -> None:
        """Ask for the body that a client holds back, unless earlier answers are due first or it is not welcome."""
        welcome = not self._refused if self._arriving is None else self._arriving.incoming.accepted
        if welcome and self._deferred is None and not self._queued and not self._parked:
            self._transport.write(CONTINUE)

    # Bodies that are taken as they come

    def _expect_body(self, request: StreamedRequest) -> None:
        """Take the head of a request whose body follows."""
        if self._refused or self._ending:
            return
        if self._turn is not None and not self._turn.admits(request):
            return
        self._arriving = request
        if not self._queued and not self._must_wait(request):
            request.incoming.begin(self._application, request, self._throttle)

    def _begin_in_turn(self, request: StreamedRequest) -> None:
        """Begin to take a body that waited for its turn, if that has come."""
        incoming = request.incoming
        if not incoming.waiting or self._queued or self._ending or self._must_wait(request):
            return
        incoming.begin(self._application, request, self._throttle)
        if b"expect" in request.headers and request.chunkable:
            self._send_continue()
        self._look_at(incoming)

    def _look_at(self, incoming: Incoming) -> None:
        """Refuse a body that is not welcome before all of it has come; read no more of one that comes too fast."""
        if incoming.error is not None:
            self._refuse(incoming.error, self._engine.last_change)
        elif incoming.blocked:
            self._throttle()

    def _cancel_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving.incoming.cancel()
            self._arriving = None

    def _throttle(self) -> None:
        """Read only while the client reads, while not too much is outstanding, and what can be taken."""
        outstanding = len(self._queued) + len(self._parked)
        reading = not self.congested and outstanding < MAX_OUTSTANDING and self._queued_bytes < MAX_QUEUED_BYTES
        if self._arriving is not None and self._arriving.incoming.blocked:
            reading = False
        if self._held is not None or (self._leaving and not self._parser.receiving):
            reading = False
        if reading == self._reading or self._ending:
            return
        self._reading = reading
        if reading:
            self._since = self._listener.now
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Answers, in order

    def _answer(self, request: Http1Request, response: Response) -> None:
        if not self._parked and response.rests_on <= self._engine.durable_change:
            self._write(request, response)
            return
        if self._answered is not None and request is not NO_REQUEST:
            request.parked_at = monotonic()
        parked = Parked(request, response)
        self._parked.append(parked)
        self._throttle()
        self._engine.when_durable(response.rests_on, lambda failure: self._release(parked, failure))

    def _release(self, parked: Parked, failure: Unavailable | None) -> None:
        parked.ready = True
        if failure:
            parked.response = self._application.refuse(failure, parked.request.headers, parked.request)
        while self._parked and self._parked[0].ready:
            first = self._parked.popleft()
            self._write(first.request, first.response)
        if self._parked:
            self._throttle()
        elif self._deferred is not None:
            self._start_deferred(self._deferred)
        else:
            self._handle_queued()

    def _write(self, request: Http1Request, response: Response) -> None:
        if self._ending:
            return
        connection = None if self._stopping and not self._outstanding() else request.connection
        to_head = request.method == b"HEAD"
        head = render_head(response, self._listener.date_line, connection, to_head=to_head)
        body = b"" if to_head else response.body
        if len(body) < SEPARATE_BODY_BYTES:
            self._transport.write(head + body if body else head)
        else:
            self._transport.write(head)
            self._transport.write(body)
        if self._answered is not None:
            self._answered(request, response)
        if connection is None:
            self._end()

    def _outstanding(self) -> bool:
        """Whether answers are still to be given."""
        return self._answering() or self._refusal is not None or self._flooding

    def _answering(self) -> bool:
        """Whether answers to what could be read are still to be given."""
        return bool(self._parked or self._queued) or self._deferred is not None

    def _end(self) -> None:
        """Close when everything is written. A refused client may still be sending: hear it out, for a while. What is
        encrypted does so by itself, as it takes leave.
        """
        self._refusal = None
        self._since = self._listener.now
        self._backlog_bytes = self._transport.get_write_buffer_size()
        if self._refused and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._ending = True
            self._transport.close()

    def _refuse(self, error: ProtocolError, rests_on: int = 0) -> None:
        """Answer what can't be read, after everything that could be, and end. Nobody waits for an answer that others
        have to bring about.
        """
        if self._refused or (self._turn is not None and self._turn.flooding):
            return
        self._refused = True
        self._cancel_arriving()
        self._parser.let_go()
        if self._deferred is not None and not self._deferred.brief:
            self._transport.abort()
            return
        self._refusal = self._application.refuse(error, self._parser.headers)
        self._refusal.rests_on = rests_on
        self._handle_queued()

    # The exchange of a deferred answer

    def respond(self, response: Response) -> None:
        """Answer with a whole response."""
        self._deferred = None
        self._end_reading()
        self._write(self._deferred_request, response)
        self._go_on()

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""
        request = self._deferred_request
        if response.length is not None:
            self.frame = unframed
        chunked = self.frame is chunk
        connection = request.connection if chunked or response.length is not None else None
        self._last = connection is None
        self._transport.write(render_stream_head(response, self._listener.date_line, connection, chunked=chunked))
        if self._answered is not None:
            self._tally = self._answered(request, response)

    def write(self, framed: bytes) -> None:
        """Send a framed piece of the body."""
        self._transport.write(framed)
        self._tally.sent_bytes += len(framed)

    def finish(self) -> None:
        """End a streamed response, and the connection if that is what ends it."""
        self._deferred = None
        self._end_reading()
        if self.frame is chunk:
            self._transport.write(LAST_CHUNK)
        if self._last or (self._stopping and not self._outstanding()):
            self._end()
        self._go_on()

    def _go_on(self) -> None:
        """Take up the requests that waited, in a turn of their own: those who feed us may not be done."""
        self._since = self._listener.now
        if self._queued or self._refusal is not None or self._arriving is not None:
            self._listener.loop.call_soon(self._handle_queued)

    def _end_reading(self) -> None:
        place, self._reading_place = self._reading_place, NO_PLACE
        if place is not NO_PLACE:
            self._application.holdings.end_reading(place)

    # Bounds on what all connections ask for together

    def _begin_turn(self, pulse: Pulse) -> None:
        if self._window != pulse.window:
            self._window = pulse.see()
        self._turn = Turn(pulse, returning=self._returning)
        self._returning = False

    def _end_turn(self, turn: Turn | None) -> None:
        """Refuse what was not admitted, and leave the connection alone for a while: what it sends waits in the kernel.

        Who asks one thing after the other is told at once. Who sent more is told at the end, for all of it.
        """
        self._turn = None
        if turn is None or turn.refused is None or self._refused or self._ending:
            self._throttle()
            return
        pulse, self._flooding = self._pulse, turn.flooding or self._parser.receiving
        pulse.held += 1
        self._held = self._listener.loop.call_later(hold_secs(pulse.held), self._come_back)
        if not self._flooding:
            refused = cast("Http1Request", turn.refused)
            self._answer(refused, self._application.refuse(self._overloaded(), refused.headers))
        self._throttle()

    def _come_back(self) -> None:
        self._held = None
        self._pulse.held -= 1
        self._returning = True
        if self._flooding and not self._ending:
            self._flooding = False
            self._refuse(self._overloaded())
        self._throttle()

    def _overloaded(self) -> Overloaded:
        return Overloaded("more is asked of the server than it can do", wait_secs=wait_secs(self._pulse.held))

    def _count_buffered(self) -> None:
        """Count what is held for this connection. Beyond the bound for all of them, hold less."""
        self._set_buffered(self._held_bytes())
        if self._listener.buffered_bytes > self._listener.max_buffered_bytes:
            self._listener.relieve()
            if self._listener.buffered_bytes > self._listener.max_buffered_bytes:
                self._refuse_body()

    def _held_bytes(self) -> int:
        parser, arriving = self._parser, self._arriving
        body_bytes = arriving.incoming.held_bytes if arriving else parser.body_bytes if parser.receiving else 0
        return body_bytes + self._queued_bytes + self._transport.get_write_buffer_size()

    def _set_buffered(self, size: int) -> None:
        self._listener.buffered_bytes += size - self._buffered_bytes
        self._buffered_bytes = size

    @property
    def unread(self) -> bool:
        """Whether the client has not taken all that was written."""
        return self.congested or self._transport.get_write_buffer_size() > 0

    @property
    def since(self) -> float:
        """When something last went on."""
        return self._since

    def _refuse_body(self) -> None:
        """Take no more of the request that is arriving: too much is held for others."""
        if self._parser.receiving and not self._refused:
            self._refuse(Overloaded("the server holds as much of requests and answers as it may"))
            self._set_buffered(0)

    def drop(self) -> None:
        """End at once, for the room that it takes."""
        self._count("slow_ended", "dropped_for_room")
        self._ending = True
        self._set_buffered(0)
        self.abort()

    # Bounds in time, looked at once a second

    def check(self, now: float) -> None:
        """End what has taken too long."""
        if self._leaving and not self._reading:
            return
        self._set_buffered(self._held_bytes())
        settings, waited_secs = self._application.settings.server, now - self._since
        if self._refused and not self._outstanding():
            if waited_secs >= LINGER_SECS:
                self._transport.abort()
        elif self.congested or self._ending:
            self._check_backlog(now, settings.slow_reader_timeout_secs)
        elif self._parser.receiving:
            if self._reading:
                self._check_sender(now, settings.request_timeout_secs)
        elif not self._outstanding() and 0 < settings.idle_timeout_secs <= waited_secs - self._listener.tick_secs:
            self._close_idle()

    def _check_sender(self, now: float, timeout_secs: float) -> None:
        """A body earns time as it comes, a second per kilobyte, but never more than it has already taken."""
        body_bytes = self._parser.body_bytes
        earned_secs = (body_bytes - self._seen_body_bytes) / MIN_BODY_BYTES_PER_SEC
        self._seen_body_bytes = body_bytes
        self._since = min(now, self._since + earned_secs)
        if 0 < timeout_secs <= now - self._since:
            self._count("slow_ended", "sender")
            self._refuse(RequestTimeout("the request took too long to arrive"))

    def _check_backlog(self, now: float, timeout_secs: float) -> None:
        backlog_bytes = self._transport.get_write_buffer_size()
        if backlog_bytes < self._backlog_bytes:
            self._backlog_bytes, self._since = backlog_bytes, now
        elif 0 < timeout_secs <= now - self._since:
            self._count("slow_ended", "reader")
            self._transport.abort()

    def _close_idle(self) -> None:
        if self._transport.get_write_buffer_size():
            self._transport.abort()
        else:
            self._ending = True
            self._transport.close()

    def shut_down(self) -> None:
        """Come to an end: answer what is under way, then close."""
        self._stopping = True
        if self._deferred is not None and not self._parked:
            self._deferred.shut_down()
        elif not self._outstanding() and not self._parser.receiving:
            self._ending = True
            self._transport.close()

    # What is told of it

    def _count(self, name: str, label: str) -> None:
        self._application.observer.counters.add(name, label)

    @property
    def answering(self) -> tuple[Deferred, Http1Request] | None:
        """The answer that is being given or waited for, and its request."""
        return None if self._deferred is None else (self._deferred, self._deferred_request)

    @property
    def unsent_bytes(self) -> int:
        """How much waits for the client to take it."""
        return self._transport.get_write_buffer_size()

    # Handing over to the next image of this server

    @property
    def under_way(self) -> bool:
        """Whether a request or an answer is on its way that may take its time. To follow a stream is neither."""
        if self._deferred is not None:
            return self._deferred.brief
        return self._refused or self._parser.receiving or self._transport.get_write_buffer_size() > 0

    def leave(self) -> None:
        """Take no further request: what is not read yet is for whoever has the connection next.

        A request of which a part was read must become whole here. What is encrypted can't be handed over, so it ends.
        """
        if self._leaving or self._stopping or self._transport.is_closing():
            return
        if self._transport.get_extra_info("sslcontext") is not None:
            self.shut_down()
            return
        self._leaving = True
        self._throttle()
        if self._deferred is not None and not self._parked:
            self._deferred.shut_down()

    @property
    def settled(self) -> bool:
        """Whether nothing is to be waited for: it has left, or it has ended but for the other side's leave-taking."""
        return self.left() is not None or (self._ending and not self._transport.get_write_buffer_size())

    def left(self) -> int | None:
        """Give the descriptor of the connection once nothing of it is left here, else None."""
        if self._ending or self._reading or self._refused or self._stopping or self._outstanding():
            return None
        if self._parser.receiving or self._transport.get_write_buffer_size():
            return None
        descriptor: int = self._transport.get_extra_info("socket").fileno()
        return descriptor

    def abort(self) -> None:
        """End at once. Where the end of the connection is that of an answer, reset it: the answer is not whole."""
        if self._deferred is not None and self._last and self.frame is unframed:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()
