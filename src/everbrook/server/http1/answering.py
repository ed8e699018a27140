"""Answers, in the order of their requests.

An answer whose change is not durable yet is parked, and so is every answer behind it. One that is deferred (a
long-poll, an event stream) is given piece by piece; whoever gives it takes the connection for its `Exchange`.
"""

import socket
import struct
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from everbrook.engine.faults import Callback
from everbrook.protocol.errors import Unavailable
from everbrook.server.exchange import Deferred, Response
from everbrook.server.http1.body import Http1Request
from everbrook.server.http1.pacing import Pacing, Parked
from everbrook.server.http1.wire import LAST_CHUNK, chunk, render_head, render_stream_head, unframed
from everbrook.server.limits.holdings import NO_PLACE
from everbrook.server.observe.tallies import NO_TALLY

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

SEPARATE_BODY_BYTES = 64 * 1024

# SO_LINGER with no time to linger: closing the socket resets the connection.
RESET = struct.pack("ii", 1, 0)

NO_REQUEST = Http1Request(b"", b"", b"", {}, b"", connection=None, chunkable=True, operation="other")


class Answering(Pacing):
    """Gives answers. It is the `Exchange` of the one that is being given."""

    __slots__ = ("_answered", "_deferred_request", "_last", "_reading_place", "_tally", "frame")

    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        self._answered = listener.application.observer.answered
        self._deferred_request = NO_REQUEST
        self._reading_place = NO_PLACE
        self._tally = NO_TALLY
        self._last = False
        self.frame: Callable[[bytes], bytes] = chunk

    @abstractmethod
    def _handle_queued(self) -> None:
        """Take up the requests that waited, and then the refusal of what came behind them."""

    @property
    def answering(self) -> tuple[Deferred, Http1Request] | None:
        """The answer that is being given or waited for, and its request."""
        return None if self._deferred is None else (self._deferred, self._deferred_request)

    # Whole answers

    def _answer(self, request: Http1Request, response: Response) -> None:
        if self._parked or response.rests_on > self._engine.durable_change:
            self._park(request, response)
        else:
            self._write(request, response)

    def _park(self, request: Http1Request, response: Response) -> None:
        if self._answered is not None and request is not NO_REQUEST:
            request.parked_at = monotonic()
        parked = Parked(request, response)
        self._parked.append(parked)
        if not self._has_room():
            self._throttle()
        self._engine.when_durable(response.rests_on, partial(self._settle, parked))

    def _settle(self, parked: Parked, failure: Unavailable | None) -> None:
        """Give the answers whose turn has come. A connection that fails at that is ended: its order is lost."""
        try:
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
        except Exception:
            self._transport.abort()
            raise

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

    # The exchange of a deferred answer

    def _start_deferred(self, deferred: Deferred) -> None:
        deferred.start(self)
        if (self._stopping or self._leaving) and self._deferred is deferred:
            deferred.shut_down()

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

    def abort(self) -> None:
        """End at once. Where the end of the connection is that of an answer, reset it: the answer is not whole."""
        if self._deferred is not None and self._last and self.frame is unframed:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def _go_on(self) -> None:
        """Take up the requests that waited, in a turn of their own: those who feed us may not be done."""
        self._since = self._listener.now
        if self._queued or self._refusal is not None or self._arriving is not None:
            failed = self._transport.abort
            self._listener.faults.soon(Callback.CONNECTION, self._handle_queued, failed=failed)

    def _end_reading(self) -> None:
        place, self._reading_place = self._reading_place, NO_PLACE
        if place is not NO_PLACE:
            self._application.holdings.end_reading(place)
