"""Admission control of one connection: under overload, requests are refused early, and the connection is held.

A read from a connection is admitted up to the first refused request. A connection that was refused is not read for a
while: what its client sends waits in the kernel.
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

    `current` is the admission of the present read, None while everything is admitted. If a client is `flooding`, it did
    not wait for answers, and gets one refusal for all that it sent when the hold is over.
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
        """Whether the connection is not read because it was refused."""
        return self._timer is not None

    def overloaded(self) -> Overloaded:
        """Make a refusal that tells the client when to come back."""
        return Overloaded(MESSAGE, wait_secs=wait_secs(len(self._overload.held)))

    def begin_read(self, late_secs: float) -> None:
        """Start to measure if the server was idle, or to admit requests one by one if there is strain."""
        overload = self._overload
        if late_secs > overload.limit_secs or not overload.calm:
            self.begin()
        elif late_secs < 0:
            overload.start()

    def begin(self) -> None:
        """Admit the further requests of this read one by one."""
        connection = self._connection
        self._overload.active.add(self)
        outstanding = len(connection.responder.parked) + len(connection.dispatcher.queued)
        self.current = Admission(self._overload, outstanding, returning=self._returning)
        self._returning = False

    def end_read(self, admission: Admission) -> None:
        """Refuse what was not admitted, and hold the connection.

        A client that sends one request at a time is told at once. One that sent more is told at the end of the hold.
        """
        self.current = None
        connection = self._connection
        if admission.refused is None or connection.state >= REFUSED:
            connection.throttle()
            return
        # A refusal at once would be sent before the answers to requests that wait for another turn.
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
            # The client has waited here for as long as others are told to wait.
            self._connection.refuse(Overloaded(MESSAGE, wait_secs=0))
        self._connection.throttle()

    def close(self) -> None:
        """Count the connection no more: the client is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._overload.forget(self)
