"""The pulse of the event loop: how late it is, and how long it will be until a change is durable.

A beat is due every `beat_secs`; by as much as it is late, everything that arrived meanwhile has waited. While nothing
arrives there is no beat, so that an idle server sleeps. On a machine that is busy with other things, or with a disk
that is, everything is late and nothing is overloaded: a delay counts only where there is much to be done.
"""

from math import inf
from time import monotonic, thread_time

from everbrook.engine.clock import Timer
from everbrook.engine.engine import Engine
from everbrook.engine.faults import Callback
from everbrook.server.limits.overload import Bounds, Overload
from everbrook.server.limits.tuning import PulseTuning

# From so many reads between two beats on, it is their number that makes a beat late.
MANY_READS = 16
# Of what one client has sent without waiting, so much is taken at least, and at most.
LEAST_AT_ONCE = 16
MOST_AT_ONCE = 256
# So much of a rate is still believed in when a lower one was seen: a slow moment is not the end.
KEPT = 0.7
# How long a connection counts as busy that has asked for something, and the window of one that has not:
# neither this one nor the one before.
WINDOW_SECS = 0.5
UNSEEN = -2


class Pulse:
    """Beats while requests come, and lets the `Overload` know.

    `beat_at` is when the last beat was: never, while there is none. `limit_secs` is how long ago that may be before a
    turn is looked at in its midst. `held` counts the connections that were refused something and are left alone for a
    while; `seen` and `seen_before` count those that asked for something in this window and in the one before.
    `late_secs` is how late the last beat was.
    """

    def __init__(self, engine: Engine, bounds: Bounds, tuning: PulseTuning) -> None:
        self.overload = Overload(bounds, tuning.overload)
        self.spare_changes = tuning.spare_changes
        self._beat_secs = tuning.beat_secs
        self._quiet_beats = tuning.quiet_beats
        self._few_changes = tuning.few_changes
        self._rate_secs = tuning.rate_secs
        self._assumed_per_sec = tuning.assumed_per_sec
        self._engine = engine
        self._on = bool(bounds.wait_secs or bounds.commit_secs)
        self._quiet = 0
        self._timer: Timer | None = None
        self.calm = True
        self.beat_at = inf if self._on else 0.0
        self.limit_secs = min(bounds.wait_secs or inf, tuning.long_turn_secs) + tuning.beat_secs if self._on else inf
        self.reads = 0
        self.held = 0
        self.window = 0
        self._window_at = 0.0
        self.seen = self.seen_before = 0
        self.late_secs = self._worked_secs = 0.0
        self._counted_at, self._counted = 0.0, 0
        self._durable_per_sec = self._assumed_per_sec

    def worked(self) -> float | None:
        """Give for how many seconds the thread of the loop has worked since the last beat; None where there is none."""
        return thread_time() - self._worked_secs if self._on and self.beat_at < inf else None

    @property
    def begun(self) -> bool:
        """Whether there was ever a beat to schedule."""
        return self._timer is not None

    @property
    def busy(self) -> int:
        """How many connections ask for something, those included that are held."""
        return self.held + max(self.seen, self.seen_before)

    @property
    def share(self) -> int:
        """How many requests of one connection may be under way: of what will be durable in good time, its part."""
        durable = self._durable_per_sec * self.overload.bounds.commit_secs
        return int(min(MOST_AT_ONCE, max(LEAST_AT_ONCE, durable / max(1, self.busy - self.held))))

    @property
    def room(self) -> float:
        """How many more changes are taken in, be it a burst or an overload: what is beyond would come too late."""
        secs = self.overload.bounds.commit_secs
        if not secs or self._durable_per_sec == inf or self._engine.failure:
            return inf
        pending = self._engine.last_change - self._engine.durable_change
        return max(self._few_changes, self._durable_per_sec * secs) - pending

    def see(self) -> int:
        """Count a connection that asks for something and is not held. Gives the window that it is counted in."""
        self.seen += 1
        return self.window

    def hold(self) -> int:
        """Count a connection that was just seen as held. Gives how many are."""
        self.held += 1
        # Who is seen now was most often seen before.
        self.seen = max(0, self.seen - 1)
        self.seen_before = max(0, self.seen_before - 1)
        return self.held

    def miss(self, window: int) -> None:
        """Count a connection no more that was last seen in a window, and is gone: it asks for nothing."""
        if window == self.window:
            self.seen = max(0, self.seen - 1)
        elif window == self.window - 1:
            self.seen_before = max(0, self.seen_before - 1)

    def let_go(self) -> None:
        """Count a connection that was held no more."""
        self.held -= 1

    def start(self) -> None:
        """Begin to beat: something has come."""
        self.beat_at = self._counted_at = monotonic()
        self._worked_secs = thread_time()
        self._counted = self._engine.durable_change
        self._durable_per_sec = self._assumed_per_sec
        self._quiet = 0
        self.stop()
        self._timer = self._engine.faults.every(Callback.OVERLOAD, self._beat_secs, self._beat, self._skip)

    def _skip(self) -> None:
        """Take a beat for one in time that failed: what it would have seen is not known."""
        self.beat_at = monotonic()

    def _beat(self) -> None:
        now = monotonic()
        self._count_durable(now)
        self.late_secs = self._late(now)
        self._observe(now)
        self._worked_secs = thread_time()
        self._quiet = 0 if self.reads or not self.calm else self._quiet + 1
        self.reads = 0
        if now - self._window_at > WINDOW_SECS:
            self._window_at = now
            self.window += 1
            self.seen_before, self.seen = self.seen, 0
        if self._quiet > self._quiet_beats:
            self.beat_at = inf
            self.stop()
        else:
            self.beat_at = now

    def strain(self) -> float:
        """Give how far beyond the bounds the delays are at this moment.

        A turn of the loop in which very much is read is a long one: it is looked at in its midst, not only at its end.
        """
        return self._observe(monotonic())

    def _observe(self, now: float) -> float:
        overload, wait_secs, commit_secs = self.overload, max(self.late_secs, self._late(now)), self._commit_secs()
        overload.observe(wait_secs, commit_secs, now)
        # A queue that is too long is watched at once, though it may be a burst that passes.
        self.calm = overload.calm and commit_secs <= (overload.bounds.commit_secs or inf)
        return overload.strain(wait_secs, commit_secs)

    def _count_durable(self, now: float) -> None:
        """Count how many changes become durable in a second, while there is always a queue of them: otherwise it would
        be counted how many were asked for.
        """
        engine = self._engine
        if engine.last_change - engine.durable_change < self._few_changes:
            self._counted_at, self._counted = now, engine.durable_change
        elif now - self._counted_at >= self._rate_secs:
            per_sec = (engine.durable_change - self._counted) / (now - self._counted_at)
            known = self._durable_per_sec < inf
            self._durable_per_sec = max(per_sec, self._durable_per_sec * KEPT) if known else per_sec
            self._counted_at, self._counted = now, engine.durable_change

    def _commit_secs(self) -> float:
        """Give how long a change would take to become durable that came now, or has taken if that is longer."""
        engine = self._engine
        pending = engine.last_change - engine.durable_change
        if pending < self._few_changes or engine.failure:
            return 0.0
        return max(engine.pending_secs, pending / max(self._durable_per_sec, self._few_changes))

    def _late(self, now: float) -> float:
        """Give how late the next beat is already by the loop's own work: what is read now may have waited that long.

        The rest of the delay was a wait for a processor that other programs had: refusing requests would not help.
        """
        late_secs = now - self.beat_at - self._beat_secs
        if late_secs <= 0 or self.reads < MANY_READS:
            return 0.0
        return min(late_secs, thread_time() - self._worked_secs)

    def stop(self) -> None:
        """Beat no more."""
        if self._timer:
            self._timer.cancel()
