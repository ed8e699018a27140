"""The responder: writes the responses of one connection in the order of their requests.

A response waits in a queue (it is parked) until its change is durable, and every response behind it waits too. A
deferred response (a long-poll, an event stream) comes later or in pieces; for it the responder is the `Exchange`.
"""

import socket
import struct
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import Struct

from everbrook.engine.faults import Callback
from everbrook.protocol.errors import TooManyRequests, Unavailable
from everbrook.server.exchange import Deferred, Response
from everbrook.server.http1.body import Http1Request
from everbrook.server.http1.state import ENDED, LEAVING, STOPPING
from everbrook.server.http1.wire import LAST_CHUNK, chunk, render_head, render_stream_head, unframed
from everbrook.server.limits.concurrency import NO_PLACE
from everbrook.server.observe.tallies import NO_TALLY

if TYPE_CHECKING:
    from everbrook.server.http1.connection import Connection

SEPARATE_BODY_BYTES = 64 * 1024
READS = {b"GET", b"HEAD"}

# SO_LINGER with no time to linger: closing the socket resets the connection.
RESET = struct.pack("ii", 1, 0)

NO_REQUEST = Http1Request(b"", b"", b"", {}, b"", connection=None, chunkable=True, operation="other")


class Parked(Struct, eq=False):
    """A response that waits until its change is durable and the responses before it are written."""

    responder: "Responder"
    request: Http1Request
    response: Response
    ready: bool = False

    def __call__(self, failure: Unavailable | None) -> None:
        """Take the fate of the change: it is durable, or has failed."""
        self.responder.settle(self, failure)


class Responder:
    """Writes responses. Those in `parked` wait until they are durable; behind them at most one is `deferred`."""

    __slots__ = (
        "_answered",
        "_application",
        "_connection",
        "_engine",
        "_last",
        "_listener",
        "_reading_place",
        "_request",
        "_tally",
        "_transport",
        "congested",
        "deferred",
        "frame",
        "parked",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._listener = connection.listener
        self._transport = connection.transport
        self._application = application = connection.listener.application
        self._engine = application.engine
        self._answered = application.observer.answered
        self.parked: deque[Parked] = deque()
        self.deferred: Deferred | None = None
        self._request = NO_REQUEST
        self._reading_place = NO_PLACE
        self._tally = NO_TALLY
        self._last = False
        self.frame: Callable[[bytes], bytes] = chunk
        self.congested = False

    @property
    def busy(self) -> bool:
        """Whether responses are outstanding."""
        return bool(self.parked) or self.deferred is not None

    @property
    def answering(self) -> tuple[Deferred, Http1Request] | None:
        """The deferred response that is under way, and its request."""
        return None if self.deferred is None else (self.deferred, self._request)

    def blocks(self, request: Http1Request) -> bool:
        """Tell whether a request must wait: behind a deferred response, or while the client takes no responses.

        A read also waits until the writes before it are durable, because reads see durable changes only: a client must
        find what it has just written on the same connection.
        """
        if self.deferred is not None or self.congested:
            return True
        return bool(self.parked) and request.method in READS

    # Whole responses

    def answer(self, request: Http1Request, response: Response) -> None:
        """Write a response as soon as its change is durable and the responses before it are written."""
        if self.parked or (response.rests_on and response.rests_on > self._engine.durable_change):
            self._park(request, response)
        else:
            self._write(request, response)

    def _park(self, request: Http1Request, response: Response) -> None:
        if self._answered is not None:
            request.parked_at = monotonic()
        parked = Parked(self, request, response)
        self.parked.append(parked)
        # A client that pipelines faster than the disk writes must not fill the memory with parked responses.
        if not self._connection.dispatcher.has_room():
            self._connection.throttle()
        self._engine.when_durable(response.rests_on, parked)

    def settle(self, parked: Parked, failure: Unavailable | None) -> None:
        """Write the responses whose turn has come. If that fails, the order is lost, so the connection ends."""
        try:
            parked.ready = True
            if failure:
                parked.response = self._application.refuse(failure, parked.request.headers, parked.request)
            while self.parked and self.parked[0].ready:
                first = self.parked.popleft()
                self._write(first.request, first.response)
            if self.parked:
                self._connection.throttle()
            elif self.deferred is not None:
                self._start(self.deferred)
            elif self._connection.state is not ENDED and self._connection.dispatcher.stopped:
                self._connection.dispatcher.dispatch()
        except Exception:
            self._transport.abort()
            raise

    def _write(self, request: Http1Request, response: Response) -> None:
        line, state = request.connection, self._connection.state
        if state is ENDED:
            return
        # The last response tells the client that the connection closes.
        if state is STOPPING and not self._connection.outstanding():
            line = None
        to_head = request.method == b"HEAD"
        head = render_head(response, self._listener.date_line, line, to_head=to_head)
        body = b"" if to_head else response.body
        # One write is cheaper for a small body; a large one would be copied for it.
        if len(body) < SEPARATE_BODY_BYTES:
            self._transport.write(head + body if body else head)
        else:
            self._transport.write(head)
            self._transport.write(body)
        if self._answered is not None:
            self._answered(request, response)
        if line is None:
            self._connection.end()

    # The exchange of a deferred response

    def defer(self, request: Http1Request, deferred: Deferred) -> None:
        """Start a deferred response after the responses before it."""
        if not deferred.brief:
            try:
                self._reading_place = self._application.concurrency.begin_reading(request)
            except TooManyRequests as error:
                self.answer(request, self._application.refuse(error, request.headers))
                return
        self.deferred = deferred
        self._request = request
        self.frame = chunk if request.chunkable else unframed
        if not self.parked:
            self._start(deferred)

    def _start(self, deferred: Deferred) -> None:
        deferred.start(self)
        # The stop began while earlier responses were parked, so this one has not been told to end.
        if self._connection.state in {LEAVING, STOPPING} and self.deferred is deferred:
            deferred.shut_down()

    def shut_down(self) -> None:
        """Make the deferred response end soon, if it has begun."""
        if self.deferred is not None and not self.parked:
            self.deferred.shut_down()

    def respond(self, response: Response) -> None:
        """Send a whole response."""
        self.deferred = None
        self._end_reading()
        self._write(self._request, response)
        self._go_on()

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""
        request = self._request
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
        """End a streamed response. If it has neither a length nor chunks, the end of the connection ends it."""
        connection = self._connection
        self.deferred = None
        self._end_reading()
        if self.frame is chunk:
            self._transport.write(LAST_CHUNK)
        if self._last or (connection.state is STOPPING and not connection.outstanding()):
            connection.end()
        self._go_on()

    def abort(self) -> None:
        """End the connection at once.

        Where the end of the connection is the end of the response, an orderly end would make a truncated response look
        complete. There the connection is reset.
        """
        if self.deferred is not None and self._last and self.frame is unframed:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort()

    def _go_on(self) -> None:
        """Handle the requests that waited, in the next turn: the caller that sent the response may not be done."""
        connection = self._connection
        if connection.state is ENDED:
            # A thread may finish a response after its client has gone.
            return
        connection.watchdog.restart()
        dispatcher = connection.dispatcher
        if dispatcher.busy or dispatcher.arriving is not None:
            self._listener.faults.soon(Callback.CONNECTION, dispatcher.dispatch, failed=self._transport.abort)

    def _end_reading(self) -> None:
        place, self._reading_place = self._reading_place, NO_PLACE
        if place is not NO_PLACE:
            self._application.concurrency.end_reading(place)

    def close(self) -> None:
        """Cancel the outstanding responses, because the connection is lost."""
        self._end_reading()
        self.parked.clear()
        if self.deferred is not None:
            self.deferred.cancel()
            self.deferred = None
