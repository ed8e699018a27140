"""Admission control of one connection: under overload, it refuses requests early and holds the connection.

Of the requests in one read from the socket, those before the first refusal are handled. Then the connection is held:
it is not read for a while, so that what its client sends waits in the kernel, and TCP slows the client down.
"""

from typing import TYPE_CHECKING, cast

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback
from everbrook.protocol.errors import Overloaded
from everbrook.server.http1.body import Http1Request
from everbrook.server.http1.state import ENDED, REFUSED
from everbrook.server.limits.overload import Admission, wait_secs

if TYPE_CHECKING:
    from everbrook.server.http1.connection import Connection

MESSAGE = "the server is overloaded"


class AdmissionControl:
    """Applies the server's `Overload` to one connection.

    `current` is the admission of the present read, and None while every request is admitted. A client that is
    `flooding` did not wait for responses: it gets one refusal for all that it sent, at the end of the hold.
    """

    __slots__ = ("_connection", "_overload", "_returning", "_timer", "current", "flooding")

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._overload = connection.listener.overload
        self._returning = False
        self._timer: Timer | None = None
        self.current: Admission | None = None
        self.flooding = False

    @property
    def held(self) -> bool:
        """Whether the connection is not read, because a request of it was refused."""
        return self._timer is not None

    def overloaded(self) -> Overloaded:
        """Return a refusal whose `Retry-After` spreads the clients that come back."""
        return Overloaded(MESSAGE, wait_secs=wait_secs(len(self._overload.held)))

    def begin_read(self, late_secs: float) -> None:
        """Admit requests one by one if there is strain; start to measure delays if the server was idle."""
        overload = self._overload
        if late_secs > overload.limit_secs or not overload.calm:
            self.begin()
        elif late_secs < 0:
            overload.start()

    def begin(self) -> None:
        """Admit the remaining requests of this read one by one."""
        connection = self._connection
        self._overload.active.add(self)
        outstanding = len(connection.responder.parked) + len(connection.dispatcher.queued)
        self.current = Admission(self._overload, outstanding, returning=self._returning)
        self._returning = False

    def end_read(self, admission: Admission) -> None:
        """Send the refusal of a request that was not admitted, and hold the connection.

        A client that sent one request gets the refusal at once. One that pipelines gets a single refusal at the end of
        the hold, and its connection ends.
        """
        self.current = None
        connection = self._connection
        if admission.refused is None or connection.state >= REFUSED:
            connection.throttle()
            return
        # A refusal that is sent now would overtake the responses to requests that wait for another turn. The client
        # would then take a refused append for an acknowledged one.
        unordered = bool(connection.dispatcher.queued)
        self.flooding = admission.flooding or connection.parser.receiving or unordered
        secs, failed = self._overload.hold(self), connection.transport.abort
        self._timer = connection.listener.faults.later(Callback.CONNECTION, secs, self._release, failed=failed)
        if not self.flooding:
            refused = cast("Http1Request", admission.refused)
            refusal = connection.listener.application.refuse(self.overloaded(), refused.headers)
            connection.responder.answer(refused, refusal)
        connection.throttle()

    def _release(self) -> None:
        self._timer = None
        self._overload.forget(self)
        self._returning = True
        if self.flooding and self._connection.state is not ENDED:
            self.flooding = False
            # A live read that began meanwhile may wait for hours: it ends first, in the order of the requests.
            self._connection.responder.shut_down()
            # Retry-After is 0: the hold was as long as the wait that other clients get.
            self._connection.refuse(Overloaded(MESSAGE, wait_secs=0))
        self._connection.throttle()

    def close(self) -> None:
        """Remove the connection from the counts of the overload control."""
        if self._timer is not None:
            self._timer.cancel()
        self._overload.forget(self)
