"""One connection: requests in, answers out in the same order, and nothing without a bound.

An answer whose change is not durable yet is parked, and so is every answer behind it. While an answer is deferred (a
long-poll, an event stream), the requests behind it wait.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from everbrook.protocol.errors import ProtocolError, RequestTimeout, Unavailable
from everbrook.server.exchange import Deferred, Response
from everbrook.server.http1.parser import Http1Request, RequestParser
from everbrook.server.http1.rendering import (
    CONTINUE,
    LAST_CHUNK,
    chunk,
    render,
    render_stream_head,
    unframed,
)

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

logger = logging.getLogger(__name__)

MAX_OUTSTANDING = 128
WRITE_HIGH_BYTES = 256 * 1024
LINGER_SECS = 5.0
MIN_BODY_BYTES_PER_SEC = 1024

NO_REQUEST = Http1Request(b"", b"", b"", {}, b"", connection=None, chunkable=True)


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
        self._parser = RequestParser(limits.max_header_bytes, limits.max_append_bytes, self._take, self._send_continue)
        self._queued: deque[Http1Request] = deque()
        self._parked: deque[Parked] = deque()
        self._deferred: Deferred | None = None
        self._deferred_request = NO_REQUEST
        self._refused = False
        self._ending = False
        self._stopping = False
        self._reading = True
        self._since = listener.now
        self._backlog_bytes = 0
        self.congested = False
        self.frame: Callable[[bytes], bytes] = chunk

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin; or refuse at once when there are too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)
        if not self._listener.admit(self):
            self._refuse(Unavailable("the server has too many connections", ((b"Retry-After", b"1"),)))

    def data_received(self, data: bytes) -> None:
        """Parse, and answer what can be answered at once."""
        if self._refused or self._ending:
            return
        if not self._parser.receiving:
            self._since = self._listener.now
        try:
            self._parser.feed(data)
        except ProtocolError as error:
            self._refuse(error)
        except Exception:
            logger.exception("a connection failed and was ended")
            self._transport.abort()

    def eof_received(self) -> bool:
        """End, unless an answer is still owed that does not have to wait for others."""
        if not self._parked:
            return False
        self._stopping = True
        return True

    def connection_lost(self, _error: Exception | None) -> None:
        """Let everything go."""
        self._ending = True
        self._listener.forget(self)
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

    def resume_writing(self) -> None:
        """Go on."""
        self.congested = False
        self._throttle()
        if self._deferred is not None:
            self._deferred.resume()

    # Requests

    def _take(self, request: Http1Request) -> None:
        """Take a whole request from the parser. It waits behind a deferred answer and those that wait already."""
        if self._refused or self._ending:
            return
        if self._deferred is None and not self._queued:
            self._handle(request)
        else:
            self._queued.append(request)
            self._throttle()

    def _handle(self, request: Http1Request) -> None:
        reply = self._application.handle(request)
        if isinstance(reply, Response):
            self._answer(request, reply)
            return
        self._deferred = reply
        self._deferred_request = request
        self.frame = chunk if request.chunkable else unframed
        if not self._parked:
            reply.start(self)

    def _handle_queued(self) -> None:
        while self._queued and self._deferred is None and not self._ending:
            self._handle(self._queued.popleft())
        self._throttle()

    def _send_continue(self) -> None:
        """Ask for the body that a client holds back, unless earlier answers are due first."""
        if self._deferred is None and not self._queued and not self._parked:
            self._transport.write(CONTINUE)

    def _throttle(self) -> None:
        """Read only while the client reads, and while not too many answers are outstanding."""
        reading = not self.congested and len(self._queued) + len(self._parked) < MAX_OUTSTANDING
        if reading == self._reading or self._ending:
            return
        self._reading = reading
        if reading:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # Answers, in order

    def _answer(self, request: Http1Request, response: Response) -> None:
        if not self._parked and response.rests_on <= self._engine.durable_change:
            self._write(request, response)
            return
        parked = Parked(request, response)
        self._parked.append(parked)
        self._throttle()
        self._engine.when_durable(response.rests_on, lambda failure: self._release(parked, failure))

    def _release(self, parked: Parked, failure: Unavailable | None) -> None:
        parked.ready = True
        if failure:
            parked.response = self._application.refuse(failure)
        while self._parked and self._parked[0].ready:
            first = self._parked.popleft()
            self._write(first.request, first.response)
        self._throttle()
        if self._deferred is not None and not self._parked:
            self._deferred.start(self)

    def _write(self, request: Http1Request, response: Response) -> None:
        if self._ending:
            return
        connection = None if self._stopping else request.connection
        head_only = request.method == b"HEAD"
        self._transport.write(render(response, self._listener.date_line, connection, head_only=head_only))
        if connection is None:
            self._end()

    def _end(self) -> None:
        """Close when everything is written. A refused client may still be sending: hear it out, for a while."""
        self._since = self._listener.now
        if self._refused:
            self._transport.write_eof()
        else:
            self._ending = True
            self._transport.close()

    def _refuse(self, error: ProtocolError) -> None:
        """Answer what can't be read, after everything that could be, and end."""
        self._refused = True
        if self._deferred is not None or self._queued:
            self._transport.abort()
        else:
            self._answer(NO_REQUEST, self._application.refuse(error))

    # The exchange of a deferred answer

    def respond(self, response: Response) -> None:
        """Answer with a whole response."""
        self._deferred = None
        self._write(self._deferred_request, response)
        self._go_on()

    def begin(self, response: Response) -> None:
        """Send the head of a streamed response."""
        request = self._deferred_request
        connection = request.connection if request.chunkable else None
        head = render_stream_head(response, self._listener.date_line, connection, chunked=request.chunkable)
        self._transport.write(head)

    def write(self, framed: bytes) -> None:
        """Send a framed piece of the body."""
        self._transport.write(framed)

    def finish(self) -> None:
        """End a streamed response, and the connection if that is what ends it."""
        request = self._deferred_request
        self._deferred = None
        if request.chunkable:
            self._transport.write(LAST_CHUNK)
        if self._stopping or not request.chunkable or request.connection is None:
            self._end()
        self._go_on()

    def _go_on(self) -> None:
        """Take up the requests that waited, in a turn of their own: those who feed us may not be done."""
        self._since = self._listener.now
        if self._queued:
            self._listener.loop.call_soon(self._handle_queued)

    # Bounds in time, looked at once a second

    def check(self, now: float) -> None:
        """End what has taken too long."""
        settings, waited_secs = self._application.settings.server, now - self._since
        if self._refused or self._ending:
            if waited_secs >= LINGER_SECS:
                self._transport.abort()
        elif self.congested:
            self._check_backlog(now, settings.slow_reader_timeout_secs)
        elif self._parser.receiving:
            allowed_secs = settings.request_timeout_secs + self._parser.body_bytes / MIN_BODY_BYTES_PER_SEC
            if waited_secs >= allowed_secs:
                self._refuse(RequestTimeout("the request took too long to arrive"))
        elif self._deferred is None and not self._parked and waited_secs >= settings.idle_timeout_secs:
            self._close_idle()

    def _check_backlog(self, now: float, timeout_secs: float) -> None:
        backlog_bytes = self._transport.get_write_buffer_size()
        if backlog_bytes < self._backlog_bytes:
            self._backlog_bytes, self._since = backlog_bytes, now
        elif now - self._since >= timeout_secs:
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
        if self._deferred is not None:
            if not self._parked:
                self._deferred.shut_down()
        elif not self._parked and not self._parser.receiving:
            self._close_idle()

    def abort(self) -> None:
        """End at once."""
        self._transport.abort()
