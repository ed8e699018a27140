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

    __slots__ = ("_admits", "_changes", "_pulse", "_room", "_spare", "_strain", "flooding", "refused")

    def __init__(self, pulse: Pulse, outstanding: int, *, returning: bool) -> None:
        """Whoever returns after having been left alone is admitted: it is somebody else's turn to be.

        Whoever waits for many answers already has sent what comes now long ago: it is refused before others are.
        """
        self._pulse = pulse
        self._strain = pulse.strain()
        self._admits: bool | None = True if returning else None
        self._changes = pulse.room
        # Of a full queue some is kept for those who ask one thing after the other: they did not fill it.
        self._spare = 0 if outstanding else pulse.spare_changes
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
        return self._admits and self._room >= 0 and (request.method not in WRITES or self._takes_change())

    def _takes_change(self) -> bool:
        """Tell whether there is room for one more change; for the first of a read there may be where there is none."""
        spare, self._spare = self._spare, 0
        self._changes -= 1
        return self._changes + spare >= 0


def sheddable(request: Request) -> bool:
    """Tell whether a request may be refused for there being too many."""
    if not request.path.startswith((STREAM_ROOT, BUCKET_ROOT)):
        return False
    if request.method in WRITES:
        return SUBSCRIPTIONS not in request.path
    return request.method == b"GET"
