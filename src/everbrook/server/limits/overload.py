"""Overload: what can't be done in good time is refused at once, so that the rest still is.

The signals are delays, never rates: how long what has arrived waits for its turn, and how long it will be until a
change is durable. The larger of them, in units of what it may be, is the strain. An overload begins when the strain was
above 1 for a while: a burst is none. From then on a share of the busy connections is refused something and left alone
for a while, in turns: so large a share that the strain would fall to `SOFT` if nothing else changed.

The delay of the loop is measured by a beat: by as much as it is late, everything that arrived meanwhile has waited.
While nothing arrives there is no beat, so that an idle server sleeps. On a machine that is busy with other things, or
with a disk that is, everything is late and nothing is overloaded: a delay counts only where there is much to be done.
"""

from math import ceil, inf
from time import monotonic, thread_time

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT
from everbrook.server.bodies import SUBSCRIPTIONS
from everbrook.server.exchange import Request
from everbrook.server.limits.tuning import OverloadTuning
from everbrook.server.observe.operations import follows

WRITES = {b"POST", b"PUT"}
# The strain up to which nobody is refused, and the one from which even those who follow are.
SOFT = 0.5
HARD = 4.0
# From so many reads between two beats on, it is their number that makes a beat late.
MANY_READS = 16
# How many requests of one connection may be under way while there is strain.
MOST_AT_ONCE = 64
# So much of what the disk did before is still believed in when it did less: a slow moment is not the end.
KEPT = 0.7
# How long a refused connection is left alone at most while there are few, and how many of them come back in a second.
HOLD_SECS = 0.8
RETURNING_PER_SEC = 2000
GOLDEN = 0.618033988749895


class Control:
    """Tells from the strain what share of the connections is refused. Times are arguments, to be replayed."""

    __slots__ = ("_seen_at", "_since", "_window_secs", "overloaded")

    def __init__(self, window_secs: float) -> None:
        self._window_secs = window_secs
        self._seen_at = 0.0
        self._since: float | None = None
        self.overloaded = False

    def observe(self, strain: float, now: float) -> None:
        """Take in the strain. An overload begins and ends when the strain says so throughout a window."""
        silent = now - self._seen_at > self._window_secs
        self._seen_at = now
        if not (strain < SOFT if self.overloaded else strain > 1.0):
            self._since = None
        elif self._since is None or silent:
            self._since = now
        elif now - self._since >= self._window_secs:
            self.overloaded = not self.overloaded
            self._since = None

    def refuses(self, strain: float, held: int, busy: int) -> bool:
        """Tell whether a connection is refused, if of `busy` ones so many are `held` already."""
        if not self.overloaded or strain < SOFT:
            return False
        # Rounded down: a client that is alone is not what there is too much of.
        return held < int((1.0 - (SOFT / strain) ** 2) * busy)


class Overload:
    """Measures the delays while requests come, and counts the connections that ask for something.

    `beat_at` is when the last beat was: never, while there is none. `limit_secs` is how long ago that may be before a
    read is looked at: a long turn of the loop in its midst. While `calm`, no other is. `active` are the connections
    that asked for something in this window, `before` those of the last one, and `held` those that are left alone.
    `in_time` is how many changes become durable in the time that one may take, as far as that is known.
    """

    def __init__(self, engine: Engine, wait_secs: float, commit_secs: float, tuning: OverloadTuning) -> None:
        """Bound the delays. Zero: as large as they will."""
        self._engine = engine
        self._tuning = tuning
        self._wait_secs = wait_secs or inf
        self._commit_secs = commit_secs or inf
        self.control = Control(tuning.window_secs)
        self._timer: Timer | None = None
        shorter_secs = min(self._wait_secs, self._commit_secs)
        self.beat_at = inf if shorter_secs < inf else 0.0
        self.limit_secs = tuning.beat_secs + SOFT * shorter_secs
        self.calm = True
        self.reads = 0
        self.late_secs = self._worked_secs = 0.0
        self.active: set[object] = set()
        self.before: set[object] = set()
        self.held: set[object] = set()
        self.in_time = inf
        self._read_at = self._window_at = self._counted_at = 0.0
        self._counted = 0

    def worked(self) -> float | None:
        """Give for how many seconds the thread of the loop has worked since the last beat; None where there is none."""
        return thread_time() - self._worked_secs if self.begun and self.beat_at < inf else None

    @property
    def begun(self) -> bool:
        """Whether there was ever a beat to schedule."""
        return self._timer is not None

    @property
    def busy(self) -> int:
        """How many connections ask for something, those included that are held."""
        return len(self.held) + max(len(self.active), len(self.before))

    @property
    def _pending(self) -> int:
        return self._engine.last_change - self._engine.durable_change

    @property
    def room(self) -> float:
        """How many more changes are taken in, be it a burst or an overload: what is beyond would come too late."""
        return inf if self._engine.failure else max(self._tuning.few_changes, self.in_time) - self._pending

    @property
    def spare_changes(self) -> int:
        """What is kept of a full queue for connections that wait for each answer: they did not fill it."""
        return self._tuning.few_changes

    def forget(self, connection: object) -> None:
        """Count a connection no more."""
        for each in (self.active, self.before, self.held):
            each.discard(connection)

    def hold(self, connection: object) -> float:
        """Count a connection as one that is left alone. Gives for how long."""
        self.forget(connection)
        self.held.add(connection)
        return hold_secs(len(self.held))

    def start(self) -> None:
        """Begin to beat: something has come."""
        self.beat_at = self._read_at = self._counted_at = monotonic()
        self._worked_secs = thread_time()
        self._counted, self.in_time = self._engine.durable_change, inf
        self.stop()
        self._timer = self._engine.faults.every(Callback.OVERLOAD, self._tuning.beat_secs, self._beat, self._skip)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer:
            self._timer.cancel()

    def _skip(self) -> None:
        """Take a beat for one in time that failed: what it would have seen is not known."""
        self.beat_at = monotonic()

    def _beat(self) -> None:
        now, window_secs = monotonic(), self._tuning.window_secs
        self._count_durable(now)
        self.late_secs = self._late(now)
        self._observe(now)
        self._worked_secs = thread_time()
        if self.reads or not self.calm:
            self._read_at = now
        self.reads = 0
        if now - self._window_at > window_secs:
            self._window_at = now
            self.before, self.active = self.active, set()
        self.beat_at = now
        if now - self._read_at > window_secs:
            self.beat_at = inf
            self.stop()

    def strain(self) -> float:
        """Give how far beyond the bounds the delays are at this moment.

        A turn of the loop in which very much is read is a long one: it is looked at in its midst, not only at its end.
        """
        return self._observe(monotonic())

    def _observe(self, now: float) -> float:
        commits = self._commit_strain()
        strain = max(max(self.late_secs, self._late(now)) / self._wait_secs, commits)
        self.control.observe(strain, now)
        # A queue that is too long is watched at once, though it may be a burst that passes.
        self.calm = not self.control.overloaded and commits <= 1.0
        return strain

    def _commit_strain(self) -> float:
        """Give how long a change would take to become durable that came now, or has taken if that is longer."""
        pending = self._pending
        if pending < self._tuning.few_changes or self._engine.failure:
            return 0.0
        return max(self._engine.pending_secs / self._commit_secs, pending / max(self.in_time, self._tuning.few_changes))

    def _count_durable(self, now: float) -> None:
        """Count how many changes become durable in the time that one may take, while there is always a queue of them:
        otherwise it would be counted how many were asked for.
        """
        secs, durable = now - self._counted_at, self._engine.durable_change
        if self._pending >= self._tuning.few_changes:
            if secs < self._commit_secs:
                return
            in_time = (durable - self._counted) * self._commit_secs / secs
            self.in_time = max(in_time, self.in_time * KEPT) if self.in_time < inf else in_time
        self._counted_at, self._counted = now, durable

    def _late(self, now: float) -> float:
        """Give how late the next beat is already by the loop's own work: what is read now may have waited that long.

        The rest of the delay was a wait for a processor that other programs had: refusing requests would not help.
        """
        late_secs = now - self.beat_at - self._tuning.beat_secs
        if late_secs <= 0 or self.reads < MANY_READS:
            return 0.0
        return min(late_secs, thread_time() - self._worked_secs)


class Admission:
    """One read from a connection under strain: what is in it is admitted as a whole, or not at all.

    What is refused first are writes and reads of the past. Readers that follow go on unless nothing else helps; probes,
    acks of work and what ends something pass always. `refused` is the first request that does not go on, `flooding`
    that more came behind it: who sent it does not wait for answers, and gets one for all of it.
    """

    __slots__ = ("_changes", "_overload", "_refuses", "_room", "_spare", "_strain", "flooding", "refused")

    def __init__(self, overload: Overload, outstanding: int, *, returning: bool) -> None:
        """Whoever returns after having been left alone is admitted: it is somebody else's turn to be.

        Whoever waits for many answers already has sent what comes now long ago: it is refused before others are.
        """
        self._strain = strain = overload.strain()
        self._overload = overload
        self._refuses: bool | None = False if returning else None
        self._changes = overload.room
        self._spare = 0 if outstanding else overload.spare_changes
        self._room = MOST_AT_ONCE - outstanding if strain >= SOFT else inf
        self.refused: Request | None = None
        self.flooding = False

    def admits(self, request: Request) -> bool:
        """Tell whether a request goes on."""
        if self.refused is not None:
            self.flooding = True
        elif not self._is_admitted(request):
            self.refused = request
        return self.refused is None

    def _is_admitted(self, request: Request) -> bool:
        if not sheddable(request):
            return True
        overload, strain = self._overload, self._strain
        if follows(request):
            return strain < HARD or not overload.control.overloaded
        if self._refuses is None:
            self._refuses = overload.control.refuses(strain, len(overload.held), overload.busy)
        self._room -= 1
        return not self._refuses and self._room >= 0 and (request.method not in WRITES or self._takes_change())

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


def hold_secs(held: int) -> float:
    """Tell how long a refused connection is left alone when so many are.

    However many there are, so few come back in a second that refusing them again costs next to nothing. They do not
    all come back at once.
    """
    return _longest_secs(held) * (0.1 + 0.9 * _spread(held))


def wait_secs(held: int) -> int:
    """Tell a refused client in how many seconds it may ask again (`Retry-After`). Not all are told the same."""
    return ceil(_longest_secs(held) * (0.3 + _spread(held)))


def _longest_secs(held: int) -> float:
    return max(HOLD_SECS, held / RETURNING_PER_SEC)


def _spread(held: int) -> float:
    """Give numbers between 0 and 1 that are far from those just before."""
    return (held * GOLDEN) % 1.0
