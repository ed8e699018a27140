"""Requests, each in its turn.

While an answer is deferred, the requests behind it wait. A body that is taken as it comes begins when the requests
before it are handled, and its request is handled when it is whole. What can't be read is refused after everything that
could be.
"""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from everbrook.protocol.errors import Overloaded, ProtocolError, TooManyRequests
from everbrook.server.exchange import Deferred, Response
from everbrook.server.http1.answering import NO_REQUEST, Answering
from everbrook.server.http1.body import Http1Request, IncomingBody, StreamedRequest
from everbrook.server.http1.parser import RequestParser
from everbrook.server.http1.wire import CONTINUE, chunk, unframed
from everbrook.server.limits.overload import Admission, wait_secs

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener

READS = {b"GET", b"HEAD"}


def _held_bytes(request: Http1Request) -> int:
    return request.incoming.held_bytes if isinstance(request, StreamedRequest) else len(request.body)


class Requesting(Answering):
    """Takes requests from the parser, and has them handled in order."""

    __slots__ = ("_admission", "_at_once", "_handled_at_once", "_overload", "_refused_request", "_resting")

    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        limits = listener.application.settings.limits
        self._parser = RequestParser(
            limits.max_header_bytes,
            limits.max_append_bytes,
            self._expect_body,
            self._take,
            self._send_continue,
            listener.application.roots.inward,
            judges_heads=listener.application.judges_heads,
        )
        self._overload = listener.overload
        self._refused_request = NO_REQUEST
        self._admission: Admission | None = None
        self._handled_at_once = self._at_once = listener.connection_tuning.handled_at_once
        self._resting = False

    def _take(self, request: Http1Request) -> None:
        """Take a whole request from the parser."""
        if self._refused or self._ending:
            return
        begun, self._arriving = self._arriving, None
        if (self._queued and not self._resting) or self._must_wait(request):
            self._put_off(request)
        elif self._admission is None or begun is request or self._admission.admits(request):
            self._at_once -= 1
            if self._at_once >= 0 and not self._queued:
                self._handle(request)
            else:
                self._put_off(request)
                self._rest()
        elif self._admission.flooding:
            # There is no need to parse the rest.
            raise self._overloaded()

    def _put_off(self, request: Http1Request) -> None:
        self._queued.append(request)
        self._queued_bytes += _held_bytes(request)
        self._throttle()

    def _rest(self) -> None:
        """Take up the requests that wait in another turn: other connections have theirs before."""
        if not self._resting:
            self._resting = True
            # A path need not have what follows a bucket's id.
            name, engine = self._queued[0].path + b"/", self._engine
            # Most of what was decided becomes durable first: a group of all that is pipelined would hold up others.
            engine.when_durable(
                engine.last_change - self._handled_at_once,
                lambda _: engine.turns.wait(name, self._end_rest, self._transport.abort),
            )

    def _end_rest(self) -> None:
        self._resting = False
        self._handle_queued()

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
        if not isinstance(reply, Response):
            self._defer(request, reply)
        elif self._parked or (reply.rests_on and reply.rests_on > self._engine.durable_change):
            self._park(request, reply)
        else:
            self._write(request, reply)

    def _defer(self, request: Http1Request, deferred: Deferred) -> None:
        if not deferred.brief:
            try:
                self._reading_place = self._application.holdings.begin_reading(request)
            except TooManyRequests as error:
                self._answer(request, self._application.refuse(error, request.headers))
                return
        self._deferred = deferred
        self._deferred_request = request
        self.frame = chunk if request.chunkable else unframed
        if not self._parked:
            self._start_deferred(deferred)

    def _handle_queued(self) -> None:
        at_once = self._handled_at_once
        while self._queued and not self._ending and not self._must_wait(self._queued[0]):
            if not at_once:
                self._rest()
                break
            at_once -= 1
            request = self._queued.popleft()
            self._queued_bytes -= _held_bytes(request)
            self._handle(request)
        if self._arriving is not None:
            self._begin_in_turn(self._arriving)
        if not self._reading:
            self._throttle()
        if self._refusal is not None and not self._answering():
            refusal, self._refusal = self._refusal, None
            self._answer(self._refused_request, refusal)

    def _refuse(self, error: ProtocolError, rests_on: int = 0) -> None:
        """Answer what can't be read, after everything that could be, and end. Nobody waits for an answer that others
        have to bring about.
        """
        if self._refused or (self._admission is not None and self._admission.flooding):
            return
        self._refused = True
        # What is known of it is written down: what was asked for, or at least by whom.
        arriving = self._arriving
        self._refused_request = self._unread() if arriving is None else replace(arriving, connection=None)
        self._cancel_arriving()
        self._parser.discard_body()
        if self._deferred is not None and not self._deferred.brief:
            self._transport.abort()
            return
        self._refusal = self._application.refuse(error, self._parser.headers, self._refused_request)
        self._refusal.rests_on = rests_on
        self._handle_queued()

    def _refuse_unread(self, error: ProtocolError) -> None:
        """Refuse what can't be read. It counts for its address as any request does; others were counted before."""
        if self._arriving is None and not isinstance(error, Overloaded):
            error = self._application.charge(self._unread()) or error
        self._refuse(error)

    def _unread(self) -> Http1Request:
        """Give a request of which not more is known than who sent it, and perhaps some headers."""
        parser = self._parser
        return Http1Request(
            *(b"", b"", b"", parser.headers, b"", parser.scheme, b"", parser.peer),
            connection=None,
            chunkable=True,
            operation="other",
        )

    def _overloaded(self) -> Overloaded:
        return Overloaded("more is asked of the server than it can do", wait_secs=wait_secs(len(self._overload.held)))

    # Bodies that are taken as they come

    def _expect_body(self, request: StreamedRequest) -> None:
        """Take the head of a request whose body follows."""
        if self._refused or self._ending:
            return
        if self._admission is not None and not self._admission.admits(request):
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

    def _send_continue(self) -> None:
        """Ask for the body that a client holds back, unless earlier answers are due first or it is not welcome."""
        welcome = not self._refused if self._arriving is None else self._arriving.incoming.accepted
        if welcome and self._deferred is None and not self._queued and not self._parked:
            self._transport.write(CONTINUE)

    def _look_at(self, incoming: IncomingBody) -> None:
        """Refuse a body that is not welcome before all of it has come; read no more of one that comes too fast."""
        if incoming.error is not None:
            self._refuse(incoming.error, self._engine.last_change)
        elif incoming.blocked:
            self._throttle()

    def _cancel_arriving(self) -> None:
        if self._arriving is not None:
            self._arriving.incoming.cancel()
            self._arriving = None
