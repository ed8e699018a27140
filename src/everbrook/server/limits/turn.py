"""One read from a connection while the server is under strain: what is in it is admitted as a whole, or not at all.

What is refused first are writes and reads of the past. Readers that follow go on unless nothing else helps; probes,
acks of work and what ends something pass always. Whoever has sent more behind a request that is refused does not wait
for answers, and gets one for all of it.
"""

from math import inf

from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.server.bodies import SUBSCRIPTIONS
from everbrook.server.exchange import Request
from everbrook.server.limits.overload import SOFT
from everbrook.server.limits.pulse import MOST_AT_ONCE, Pulse
from everbrook.server.observe.operations import follows

WRITES = {b"POST", b"PUT"}


class Turn:
    """Which requests of one read go on. `refused` is the first that does not, `flooding` that more came behind it."""

    __slots__ = ("_admits", "_changes", "_pulse", "_room", "_strain", "flooding", "refused")

    def __init__(self, pulse: Pulse, outstanding: int, *, returning: bool) -> None:
        """Whoever returns after having been left alone is admitted: it is somebody else's turn to be.

        Whoever waits for many answers already has sent what comes now long ago: it is refused before others are.
        """
        self._pulse = pulse
        self._strain = pulse.strain()
        self._admits: bool | None = True if returning else None
        self._changes = pulse.room
        self._room = inf
        if self._strain >= SOFT:
            self._room = MOST_AT_ONCE if pulse.overload.calm else pulse.share - outstanding
        self.refused: Request | None = None
        self.flooding = False

    def admits(self, request: Request) -> bool:
        """Tell whether a request goes on."""
        if self.refused is not None:
            self.flooding = True
            return False
        if not self._is_admitted(request):
            self.refused = request
            return False
        return True

    def _is_admitted(self, request: Request) -> bool:
        if not sheddable(request):
            return True
        if follows(request):
            return self._pulse.overload.admits_follower(self._strain)
        if self._admits is None:
            self._admits = self._pulse.overload.admits(self._strain, self._pulse.held, self._pulse.busy)
        self._room -= 1
        self._changes -= request.method in WRITES
        return self._admits and self._room >= 0 and (self._changes >= 0 or request.method not in WRITES)


def sheddable(request: Request) -> bool:
    """Tell whether a request may be refused for there being too many."""
    if not request.path.startswith((STREAM_ROOT, BUCKET_ROOT)):
        return False
    if request.method in WRITES:
        return SUBSCRIPTIONS not in request.path
    return request.method == b"GET"
