"""Load shedding: refuses requests early under overload, so that admitted requests meet their deadline.

The signals are delays, never rates: how long a request waits for its turn of the event loop, how long pipelined
requests wait for later turns, and how long a change waits until it is durable. The strain is the largest of the three,
each divided by its bound. An overload begins when the strain has been above 1 for a window of time, so that a burst is
no overload. From then on a share of the busy connections is refused and then held, in turns: a held connection is not
read for a while. The share is as large as it must be for the strain to fall to `SOFT`.

A periodic timer, the beat, measures the delay of the loop: if it is late, all requests that arrived meanwhile have
waited as long. While no requests arrive there is no beat, so that an idle server sleeps. If other programs use the
processor or the disk, everything is late without an overload. So a delay counts only if many requests or changes wait.
"""

from collections import Counter
from math import ceil, inf
from time import monotonic, thread_time

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.protocol.path import BUCKET_ROOT, STREAM_ROOT, bucket_of
from everbrook.server.exchange import Request
from everbrook.server.methods import SUBSCRIPTIONS, follows
from everbrook.server.tuning import OverloadTuning

WRITES = {b"POST", b"PUT"}
# Below the strain `SOFT` no connection is refused. From `HARD` on even live reads are.
SOFT = 0.5
HARD = 4.0
# With fewer reads between two beats than this, the server is not the cause of a late beat.
MANY_READS = 16
# How many requests of one connection may be unanswered while there is strain.
MOST_AT_ONCE = 64
# How fast the measured rate of the disk may fall: to this fraction per measurement, because one may be an outlier.
KEPT = 0.7
# The assumed rate of postponed requests until it is measured, and the weight of each new measurement.
ASSUMED_PER_SEC = 100_000.0
WEIGHT = 0.3
# The longest hold of a refused connection while few are held, and how many held connections return per second.
HOLD_SECS = 0.8
RETURNING_PER_SEC = 2000
# Multiples of the golden ratio, modulo 1, are evenly spread (a low-discrepancy sequence).
GOLDEN = 0.618033988749895


class Shedding:
    """Decides from the strain which share of the connections is refused. Times are arguments, so tests can replay."""

    __slots__ = ("_seen_at", "_since", "_window_secs", "overloaded")

    def __init__(self, window_secs: float) -> None:
        self._window_secs = window_secs
        self._seen_at = 0.0
        self._since: float | None = None
        self.overloaded = False

    def observe(self, strain: float, now: float) -> None:
        """Record the strain. An overload begins or ends when the strain was above 1, or below `SOFT`, for a window."""
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
        """Tell whether one more connection is refused, if `held` of `busy` ones are held already."""
        if not self.overloaded or strain < SOFT:
            return False
        # Rounded down, so that a lone client is never refused.
        return held < int((1.0 - (SOFT / strain) ** 2) * busy)


class Backlog:
    """The pipelined requests of all connections that wait for another turn of the event loop.

    `requests` counts them, `connections` those that they are from, and `resumed` the requests that had their turn
    since the last measurement. The dispatchers of the connections keep these counts.
    """

    __slots__ = ("_by_bucket", "_per_sec", "connections", "requests", "resumed")

    def __init__(self) -> None:
        self.requests = self.connections = self.resumed = 0
        self._by_bucket = Counter[bytes | None]()
        self._per_sec = ASSUMED_PER_SEC

    def add(self, bucket_id: bytes | None, count: int) -> None:
        """Count more requests of a bucket, or fewer. The base surface counts as one bucket."""
        self.requests += count
        self._by_bucket[bucket_id] += count
        if not self._by_bucket[bucket_id]:
            del self._by_bucket[bucket_id]

    def wait_secs_of(self, bucket_id: bytes | None) -> float:
        """Return the time until the requests of a bucket are handled: the buckets that wait take turns."""
        return self._secs(min(self.requests, self._by_bucket[bucket_id] * len(self._by_bucket)))

    @property
    def wait_secs(self) -> float:
        """The time that all requests will take.

        Turns of the loop are short however much is pipelined, because each handles a few requests of one connection. So
        the delay of the loop does not show this wait. It is measured in processor time of the loop, not in elapsed
        time: on a busy machine a lone client would otherwise look like an overload. The backlog of a single connection
        does not count, because it delays no other client.
        """
        return self._secs(self.requests)

    def _secs(self, requests: int) -> float:
        return requests / self._per_sec if self.connections > 1 else 0.0

    def measure(self, worked_secs: float) -> None:
        """Measure how many requests are handled in a second of the loop's processor time."""
        if self.resumed >= MANY_READS and worked_secs > 0:
            self._per_sec += (self.resumed / worked_secs - self._per_sec) * WEIGHT
        self.resumed = 0

    def restart(self) -> None:
        """Forget the measurements, because the server was idle since."""
        self.resumed, self._per_sec = 0, ASSUMED_PER_SEC


class Overload:
    """Measures the delays while requests arrive, and counts the busy connections.

    `beat_at` is the time of the last beat, infinite while there is none. While `calm`, the reads from connections are
    admitted without a check, unless the last beat is longer ago than `limit_secs`: then the present turn of the loop is
    long. `active` are the connections with requests in this window, `before` those of the last window, `held` those
    that are refused and not read. `in_time` is how many changes become durable within the bound of their delay,
    infinite while it is unknown.
    """

    def __init__(self, engine: Engine, wait_secs: float, commit_secs: float, tuning: OverloadTuning) -> None:
        """`wait_secs` limits the delays of requests, `commit_secs` the delay of changes; zero means no limit."""
        self._engine = engine
        self._tuning = tuning
        self._wait_secs = wait_secs or inf
        self._commit_secs = commit_secs or inf
        self.shedding = Shedding(tuning.window_secs)
        self.backlog = Backlog()
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
        """Return the processor time of the loop since the last beat, or None while there is no beat."""
        return thread_time() - self._worked_secs if self.begun and self.beat_at < inf else None

    @property
    def begun(self) -> bool:
        """Whether the beat was ever started."""
        return self._timer is not None

    def is_idle(self) -> bool:
        """Tell whether no requests arrive at the moment."""
        return self.beat_at == inf

    @property
    def busy(self) -> int:
        """How many connections are busy, held ones included."""
        return len(self.held) + max(len(self.active), len(self.before))

    @property
    def _pending(self) -> int:
        return self._engine.last_change - self._engine.durable_change

    @property
    def room(self) -> float:
        """How many more changes may be pending. Changes beyond that would miss their deadline, also in a burst."""
        return inf if self._engine.failure else max(self._tuning.few_changes, self.in_time) - self._pending

    @property
    def spare_changes(self) -> int:
        """The extra room for connections without outstanding responses, because they did not fill the queue."""
        return self._tuning.few_changes

    def forget(self, connection: object) -> None:
        """Remove a connection from all counts."""
        for each in (self.active, self.before, self.held):
            each.discard(connection)

    def hold(self, connection: object) -> float:
        """Count a connection as held. Return for how many seconds it is held."""
        self.forget(connection)
        self.held.add(connection)
        return hold_secs(len(self.held))

    def start(self) -> None:
        """Start the beat, because a request has arrived."""
        self.beat_at = self._read_at = self._counted_at = monotonic()
        self._worked_secs = thread_time()
        self._counted, self.in_time = self._engine.durable_change, inf
        self.backlog.restart()
        self.stop()
        self._timer = self._engine.faults.every(Callback.OVERLOAD, self._tuning.beat_secs, self._beat, self._skip)

    def stop(self) -> None:
        """Stop the beat."""
        if self._timer:
            self._timer.cancel()

    def _skip(self) -> None:
        """Treat a beat that failed as punctual. Otherwise every later read would look late."""
        self.beat_at = monotonic()

    def _beat(self) -> None:
        now, window_secs = monotonic(), self._tuning.window_secs
        self._count_durable(now)
        self.late_secs = self._late(now)
        self.backlog.measure(thread_time() - self._worked_secs)
        self._observe(now)
        self._worked_secs = thread_time()
        if self.reads or self.backlog.requests or not self.calm:
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
        """Return the present strain. Within a long turn of the loop it counts the beat that is already late."""
        return self._observe(monotonic())

    def _observe(self, now: float) -> float:
        commits = self._commit_strain()
        strain = max(max(self.late_secs, self._late(now)) / self._wait_secs, commits)
        self.shedding.observe(max(strain, self.backlog_strain()), now)
        # A queue of changes that is too long ends the calm at once, even if it is only a burst: further changes would
        # miss their deadline. So does a long backlog, because new requests would make it longer.
        self.calm = not self.shedding.overloaded and commits <= 1.0 and self.backlog_strain() < SOFT
        return strain

    def backlog_strain(self) -> float:
        """Return the wait in the backlog, divided by its bound."""
        return self.backlog.wait_secs / self._wait_secs

    def backlog_strain_of(self, bucket_id: bytes | None) -> float:
        """Return the wait of a bucket's requests in the backlog, divided by its bound."""
        return self.backlog.wait_secs_of(bucket_id) / self._wait_secs

    def _commit_strain(self) -> float:
        """Return the larger of the expected and the present delay of changes, divided by its bound."""
        pending = self._pending
        if pending < self._tuning.few_changes or self._engine.failure:
            return 0.0
        return max(self._engine.pending_secs / self._commit_secs, pending / max(self.in_time, self._tuning.few_changes))

    def _count_durable(self, now: float) -> None:
        """Measure how many changes become durable within the bound of their delay.

        The measurement counts only while changes queue up all the time: otherwise it would be the rate of arrivals.
        """
        secs, durable = now - self._counted_at, self._engine.durable_change
        if self._pending >= self._tuning.few_changes:
            if secs < self._commit_secs:
                return
            in_time = (durable - self._counted) * self._commit_secs / secs
            self.in_time = max(in_time, self.in_time * KEPT) if self.in_time < inf else in_time
        self._counted_at, self._counted = now, durable

    def _late(self, now: float) -> float:
        """Return by how much the loop's own work delays the next beat: a request may have waited as long.

        The rest of the delay was a wait for a processor that other programs used. Refusing requests would not help.
        """
        late_secs = now - self.beat_at - self._tuning.beat_secs
        if late_secs <= 0 or self.reads < MANY_READS:
            return 0.0
        return min(late_secs, thread_time() - self._worked_secs)


class Admission:
    """Admission of the requests in one read from a connection under strain: they are admitted up to the first refusal.

    Writes and catch-up reads are refused first, live reads only under the highest strain. Probes, acknowledgements and
    deletions always pass. `refused` is the first refused request. `flooding` means that more requests follow it: the
    client does not wait for responses, and gets one response for all of them.
    """

    __slots__ = (
        "_changes",
        "_outstanding",
        "_overload",
        "_refuses",
        "_room",
        "_spare",
        "_strain",
        "flooding",
        "refused",
    )

    def __init__(self, overload: Overload, outstanding: int, *, returning: bool) -> None:
        """A `returning` connection was held, and is admitted now: it is the turn of others to be refused.

        A connection with many `outstanding` responses is refused before others: its requests would wait for long.
        """
        self._strain = overload.strain()
        self._overload = overload
        self._outstanding = outstanding
        self._refuses: bool | None = False if returning else None
        self._changes = overload.room
        self._spare = 0 if outstanding else overload.spare_changes
        self._room: float | None = None
        self.refused: Request | None = None
        self.flooding = False

    def admits(self, request: Request) -> bool:
        """Tell whether a request is admitted."""
        if self.refused is not None:
            self.flooding = True
        elif not self._is_admitted(request):
            self.refused = request
        return self.refused is None

    def _is_admitted(self, request: Request) -> bool:
        if not sheddable(request):
            return True
        overload, room = self._overload, self._room
        if room is None:
            room = self._measure_backlog(request)
        if follows(request):
            return self._strain < HARD or not overload.shedding.overloaded
        if self._refuses is None:
            self._refuses = overload.shedding.refuses(self._strain, len(overload.held), overload.busy)
        self._room = room = room - 1
        return not self._refuses and room >= 0 and (request.method not in WRITES or self._takes_change())

    def _measure_backlog(self, request: Request) -> float:
        """Take the backlog of the bucket into account. Return how many requests of this read are admitted.

        Only a client with outstanding responses adds to the backlog, so only such a client is refused for it.
        """
        pipelined = max(self._strain, self._overload.backlog_strain_of(bucket_of(request.path)))
        if self._outstanding:
            self._strain = pipelined
        self._room = MOST_AT_ONCE - self._outstanding if pipelined >= SOFT else inf
        return self._room

    def _takes_change(self) -> bool:
        """Tell whether there is room for one more change. The first one in a read may use the spare room."""
        spare, self._spare = self._spare, 0
        self._changes -= 1
        return self._changes + spare >= 0


def sheddable(request: Request) -> bool:
    """Tell whether a request may be refused under overload."""
    if not request.path.startswith((STREAM_ROOT, BUCKET_ROOT)):
        return False
    if request.method in WRITES:
        return SUBSCRIPTIONS not in request.path
    return request.method == b"GET"


def hold_secs(held: int) -> float:
    """Return how long a refused connection is held, if `held` connections are.

    The more are held, the longer: the number that returns per second is bounded, so that refusing them again costs
    little. The times are spread, so that connections do not return together.
    """
    return _longest_secs(held) * (0.1 + 0.9 * _spread(held))


def wait_secs(held: int) -> int:
    """Return the `Retry-After` of a refused client. The values are spread, so that clients do not return together."""
    return ceil(_longest_secs(held) * (0.3 + _spread(held)))


def _longest_secs(held: int) -> float:
    return max(HOLD_SECS, held / RETURNING_PER_SEC)


def _spread(held: int) -> float:
    """Return a number between 0 and 1 that is far from those of the preceding counts."""
    return (held * GOLDEN) % 1.0
