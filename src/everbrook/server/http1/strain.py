"""Strain: bounds on what all connections ask for together, as one connection feels them.

Under overload a read is admitted as a whole or not at all, and who was refused is left alone for a while. Where too
much is held for all connections, less is held for this one.
"""

from typing import TYPE_CHECKING, cast

from everbrook.engine.faults import Callback
from everbrook.protocol.errors import Overloaded
from everbrook.server.http1.body import Http1Request
from everbrook.server.http1.requesting import Requesting
from everbrook.server.limits.overload import Admission, Overload

if TYPE_CHECKING:
    from everbrook.server.http1.listener import Listener


class Strain(Requesting):
    """Holds back when there is too much."""

    __slots__ = ("_returning", "dropped")

    def __init__(self, listener: "Listener") -> None:
        super().__init__(listener)
        self._returning = False
        self.dropped = False

    # Too much to do

    def _feel(self, overload: Overload, late_secs: float) -> None:
        """Begin what there is to begin when the server is not at rest: to measure, or to admit."""
        if late_secs > overload.limit_secs or not overload.calm:
            overload.active.add(self)
            self._admission = Admission(overload, len(self._parked) + len(self._queued), returning=self._returning)
            self._returning = False
        elif late_secs < 0:
            overload.start()

    def _end_read(self, admission: Admission | None) -> None:
        """Refuse what was not admitted, and leave the connection alone for a while: what it sends waits in the kernel.

        Who asks one thing after the other is told at once. Who sent more is told at the end, for all of it.
        """
        self._admission = None
        if admission is None or admission.refused is None or self._refused or self._ending:
            self._throttle()
            return
        self._flooding = admission.flooding or self._parser.receiving
        secs, failed = self._overload.hold(self), self._transport.abort
        self._held = self._listener.faults.later(Callback.CONNECTION, secs, self._come_back, failed=failed)
        if not self._flooding:
            refused = cast("Http1Request", admission.refused)
            self._answer(refused, self._application.refuse(self._overloaded(), refused.headers))
        self._throttle()

    def _come_back(self) -> None:
        self._held = None
        self._overload.forget(self)
        self._returning = True
        if self._flooding and not self._ending:
            self._flooding = False
            # It was left alone for as long as others are told to wait.
            self._refuse(Overloaded("more is asked of the server than it can do", wait_secs=0))
        self._throttle()

    def _let_be(self) -> None:
        """Leave the connection alone no longer, and count it no more: it is gone."""
        if self._held is not None:
            self._held.cancel()
        self._overload.forget(self)

    # Too much to hold

    def _count_buffered(self) -> None:
        """Count what is held for this connection. Beyond the bound for all of them, hold less."""
        self._set_buffered(self._held_bytes())
        if self._listener.buffered_bytes > self._listener.max_buffered_bytes:
            self._listener.relieve()
            if self._listener.buffered_bytes > self._listener.max_buffered_bytes:
                self._refuse_body()

    def _refuse_body(self) -> None:
        """Take no more of the request that is arriving: too much is held for others."""
        if self._parser.receiving and not self._refused:
            self._refuse(Overloaded("the server holds as much of requests and answers as it may"))
            self._set_buffered(0)

    def drop(self) -> None:
        """End at once, for the room that it takes."""
        self.dropped = True
        self._count("slow_ended", "dropped_for_room")
        self._ending = True
        self._set_buffered(0)
        self.abort()
