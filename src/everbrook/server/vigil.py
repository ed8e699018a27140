"""A vigil over what takes long: it ends when the right to it does.

A token runs out while its reader waits, an API key is revoked, a policy changes: the reader must not go on for as long
as its connection happens to last, and a body that came slowly must not be taken for the sake of its head.
"""

from collections.abc import Callable

from everbrook.engine.clock import Timer
from everbrook.engine.faults import Callback, Faults
from everbrook.protocol.errors import Unauthorized
from everbrook.server.exchange import Request, Rights


class Vigil:
    """Looks at a request's rights now and then, and ends what it waits for when they have gone."""

    __slots__ = ("_end", "_faults", "_request", "_rights", "_timer")

    def __init__(self, faults: Faults, request: Request, rights: Rights, end: Callable[[], None]) -> None:
        """Call `end` when the request may go on no longer. What ends otherwise must cancel."""
        self._faults = faults
        self._request = request
        self._rights = rights
        self._end = end
        self._timer: Timer | None = None
        self._go_on(rights.lasts_secs(request))

    def _go_on(self, secs: float) -> None:
        # If nobody knows whether it may go on, it ends.
        self._timer = self._faults.later(Callback.RIGHTS, max(0.0, secs), self._look, failed=self._end)

    def _look(self) -> None:
        left_secs = self._rights.renew(self._request)
        if left_secs > 0:
            self._go_on(left_secs)
        else:
            self._end()

    def cancel(self) -> None:
        """Look no longer."""
        if self._timer:
            self._timer.cancel()


def keep_vigil(faults: Faults, request: Request, end: Callable[[], None]) -> Vigil | None:
    """Watch over a live read, where there is a policy."""
    return Vigil(faults, request, request.rights, end) if request.rights else None


def require_rights(request: Request) -> None:
    """Refuse a request that was welcome when its body began to come, and is no longer now that it is whole."""
    if request.rights and request.rights.renew(request) <= 0:
        raise Unauthorized("the right to do this ended while the body was on its way: nothing of it was kept")
