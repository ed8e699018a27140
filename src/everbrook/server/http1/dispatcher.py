"""The dispatcher: has the requests of one connection handled in their order.

While a response is deferred, the requests behind it wait. A body that is processed while it arrives begins after the
requests before it are handled, and its request is handled when the body is complete. A refusal comes last.
"""

from collections import deque
from typing import TYPE_CHECKING

from everbrook.protocol.path import bucket_of
from everbrook.server.exchange import Response
from everbrook.server.http1.body import Http1Request, StreamedRequest
from everbrook.server.http1.state import ENDED, REFUSED
from everbrook.server.http1.wire import CONTINUE
from everbrook.server.limits.overload import SOFT

if TYPE_CHECKING:
    from everbrook.server.http1.connection import Connection


def held_bytes(request: Http1Request) -> int:
    """Return how much of a request's body is in memory."""
    return request.incoming.held_bytes if isinstance(request, StreamedRequest) else len(request.body)


class Dispatcher:
    """Takes requests from the parser. They are handled at once if possible, else they are `queued`.

    `arriving` is the request whose body is processed while it arrives, `refusal` the last response of the connection,
    and `at_once` how many more requests of this read may be handled in this turn of the loop. `postponed` is the part
    of the server's `Backlog` that is from this connection.
    """

    __slots__ = (
        "_admission",
        "_application",
        "_backlog",
        "_bucket_id",
        "_connection",
        "_engine",
        "_handled_at_once",
        "_max_outstanding",
        "_max_queued_bytes",
        "_overload",
        "_responder",
        "_yielding",
        "arriving",
        "at_once",
        "postponed",
        "queued",
        "queued_bytes",
        "refusal",
    )

    def __init__(self, connection: "Connection") -> None:
        listener = connection.listener
        self._connection = connection
        self._responder = connection.responder
        self._admission = connection.admission
        self._application = listener.application
        self._engine = listener.application.engine
        self._overload = listener.overload
        self._backlog = listener.overload.backlog
        self._handled_at_once = self.at_once = listener.handled_at_once
        self._max_outstanding = listener.connection_tuning.max_outstanding
        self._max_queued_bytes = listener.connection_tuning.max_queued_bytes
        self._yielding = False
        self._bucket_id: bytes | None = None
        self.postponed = 0
        self.queued: deque[Http1Request] = deque()
        self.queued_bytes = 0
        self.arriving: StreamedRequest | None = None
        self.refusal: tuple[Http1Request, Response] | None = None

    @property
    def busy(self) -> bool:
        """Whether requests or a refusal wait."""
        return bool(self.queued) or self.refusal is not None

    @property
    def stopped(self) -> bool:
        """Whether something waits here for the responses before it, or the connection is not read."""
        return (
            bool(self.queued) or self.arriving is not None or self.refusal is not None or not self._connection.reading
        )

    def has_room(self) -> bool:
        """Tell whether more requests may be outstanding."""
        outstanding = len(self.queued) + len(self._responder.parked)
        return outstanding < self._max_outstanding and self.queued_bytes < self._max_queued_bytes

    def take(self, request: Http1Request) -> None:
        """Handle or queue a complete request of the parser."""
        admission, begun, self.arriving = self._admission.current, self.arriving, None
        if self._connection.state >= REFUSED or (admission is not None and admission.refused):
            self._refuse_rest()
            return
        if (self.queued and not self._yielding) or self._responder.blocks(request):
            self._put_off(request)
        elif admission is None or begun is request or admission.admits(request):
            self.at_once -= 1
            if self.at_once >= 0 and not self.queued:
                self._handle(request)
            else:
                self._put_off(request)
                if self._yielding:
                    self._count_postponed(1)
                else:
                    self._yield()
                if admission is None and self._overload.backlog_strain() >= SOFT:
                    self._admission.begin()

    def _refuse_rest(self) -> None:
        """Drop what follows a refusal under overload: the client gets one response for all of it.

        The exception ends the parsing of this read, so that a refused flood costs as little as possible.
        """
        if self._connection.state < REFUSED and self._admission.current is not None:
            self._admission.current.flooding = True
            raise self._admission.overloaded()

    def _put_off(self, request: Http1Request) -> None:
        self.queued.append(request)
        self.queued_bytes += held_bytes(request)
        self._connection.throttle()

    def _handle(self, request: Http1Request) -> None:
        if type(request) is StreamedRequest:
            reply = request.incoming.finish(self._application, request, self._connection.throttle)
        else:
            reply = self._application.handle(request)
        if isinstance(reply, Response):
            self._responder.answer(request, reply)
        else:
            self._responder.defer(request, reply)

    def dispatch(self) -> None:
        """Handle queued requests as far as possible. When none is left, send a refusal that waits behind them.

        Requests that wait for a turn of their own stay: a group of changes becomes durable in one turn for all
        connections.
        """
        at_once, connection, responder = self._handled_at_once, self._connection, self._responder
        while self.queued and not self._yielding and connection.state is not ENDED:
            if responder.blocks(self.queued[0]):
                break
            if not at_once:
                self._yield()
                break
            at_once -= 1
            request = self.queued.popleft()
            self.queued_bytes -= held_bytes(request)
            self._handle(request)
        if self.arriving is not None:
            self._begin_in_turn(self.arriving)
        if not connection.reading:
            connection.throttle()
        if self.refusal is not None and not self.queued and not responder.busy:
            refusal, self.refusal = self.refusal, None
            responder.answer(*refusal)

    def refuse(self, request: Http1Request, response: Response) -> None:
        """Send the last response of the connection, after all others."""
        self.refusal = request, response
        self.dispatch()

    def _yield(self) -> None:
        """Handle the queued requests in a later turn of the loop, after other connections."""
        if not self._yielding:
            self._yielding = True
            self._backlog.connections += 1
            name = self.queued[0].path
            self._count_postponed(-self.postponed)
            self._bucket_id = bucket_of(name)
            self._count_postponed(len(self.queued))
            engine, failed = self._engine, self._connection.transport.abort
            # Wait until most of the earlier changes are durable. Otherwise everything that is pipelined would be one
            # group of changes, and the changes of other connections would wait for its sync.
            engine.when_durable(
                engine.last_change - self._handled_at_once, lambda _: engine.turns.wait(name, self._resume, failed)
            )

    def _count_postponed(self, count: int) -> None:
        self.postponed += count
        self._backlog.add(self._bucket_id, count)

    def _resume(self) -> None:
        if self._stop_yielding():
            queued = len(self.queued)
            self.dispatch()
            self._backlog.resumed += queued - len(self.queued)
            if not self._yielding:
                # The rest of the queue waits for the response before it and not for a turn, so it is no load.
                self._count_postponed(-self.postponed)

    def _stop_yielding(self) -> bool:
        """Stop to wait for a turn. Return whether the connection waited for one."""
        yielding, self._yielding = self._yielding, False
        self._backlog.connections -= yielding
        return yielding

    # Bodies that are processed while they arrive

    def expect_body(self, request: StreamedRequest) -> None:
        """Handle the head of a request whose body follows."""
        if self._connection.state >= REFUSED:
            return
        if self._admission.current is not None and not self._admission.current.admits(request):
            return
        self.arriving = request
        if not self.queued and not self._responder.blocks(request):
            request.incoming.begin(self._application, request, self._connection.throttle)

    def _begin_in_turn(self, request: StreamedRequest) -> None:
        """Begin with a body that waited for its turn, if that has come."""
        incoming = request.incoming
        if not incoming.waiting or self.queued or self._connection.state is ENDED:
            return
        if self._responder.blocks(request):
            return
        incoming.begin(self._application, request, self._connection.throttle)
        if b"expect" in request.headers and request.chunkable:
            self.send_continue()
        self.check_body(request)

    def send_continue(self) -> None:
        """Send `100 Continue`, unless the body is refused or earlier responses are outstanding.

        An interim response among the final responses to earlier requests would break their order.
        """
        refused = self._connection.state >= REFUSED
        welcome = not refused if self.arriving is None else self.arriving.incoming.accepted
        if welcome and not self.queued and not self._responder.busy:
            self._connection.transport.write(CONTINUE)

    def check_body(self, request: StreamedRequest) -> None:
        """Refuse a body early if it is not accepted, and apply back-pressure if it arrives too fast."""
        if request.incoming.error is not None:
            self._connection.refuse(request.incoming.error, self._engine.last_change)
        elif request.incoming.blocked:
            self._connection.throttle()

    def cancel_arriving(self) -> None:
        """Cancel the body that is arriving."""
        if self.arriving is not None:
            self.arriving.incoming.cancel()
            self.arriving = None

    def close(self) -> None:
        """Cancel the requests that are not handled, because the connection is lost."""
        self.cancel_arriving()
        for request in self.queued:
            if isinstance(request, StreamedRequest):
                request.incoming.cancel()
        self.queued.clear()
        self._count_postponed(-self.postponed)
        self._stop_yielding()
        self.refusal = None
