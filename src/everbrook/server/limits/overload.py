"""Overload: what can't be done in good time is refused at once, so that the rest still is.

The signals are delays, never rates: how long what has arrived waits for its turn, and how long it will be until a
change is durable. A delay counts when it stands, that is when it was never small for a while: a burst is no overload.
From then on, whenever there is a delay, a share of the busy connections is refused something and left alone for a
while, in turns: a larger share while a delay does not become smaller, and a smaller one while none is too large.
There is no clock here and no chance: times are arguments, so that every course of it can be replayed.
"""

from math import ceil

from msgspec import Struct

from everbrook.server.limits.tuning import OverloadTuning

# How often the fraction moves.
STEP_SECS = 0.1
# By what the fraction is multiplied when a delay begins to count, and when it is too large and becomes no smaller: not
# again before there was time for that to show. How much larger it becomes in a step in which there is no delay at all.
FIRST_BACK = 0.6
BACK = 0.8
BACK_SECS = 0.3
FORTH = 0.03
LEAST = 0.05
# What is still waited for shrinks before the wait does: a delay that is so much smaller than a step ago is on its way.
SHRINKING = 0.97
# In units of what a delay may be: up to which nobody is refused, and from which even those who follow are.
SOFT = 0.5
HARD = 4.0
# How long a refused connection is left alone at most while there are few, and how many of them come back in a second.
HOLD_SECS = 1.0
RETURNING_PER_SEC = 2000
LONGEST_HOLD_SECS = 30.0
GOLDEN = 0.618033988749895


class Bounds(Struct, frozen=True):
    """How large the delays may be. Zero: as large as they will."""

    wait_secs: float = 0.0
    commit_secs: float = 0.0


class Delay:
    """One signal: it stands when it was above its bound throughout `standing_secs`."""

    __slots__ = ("_above_since", "_seen_at", "_standing_secs", "bound_secs")

    def __init__(self, bound_secs: float, standing_secs: float) -> None:
        self.bound_secs = bound_secs
        self._standing_secs = standing_secs
        self._seen_at = 0.0
        self._above_since: float | None = None

    def observe(self, secs: float, now: float) -> None:
        """Take in how large the delay is now."""
        if not 0 < self.bound_secs < secs:
            self._above_since = None
        elif self._above_since is None or now - self._seen_at > self._standing_secs + secs:
            # Of what was before a silence nothing is known.
            self._above_since = now
        self._seen_at = now

    def stands(self, now: float) -> bool:
        """Tell whether it was too large for a while, and up to now."""
        return self._above_since is not None and now - self._above_since >= self._standing_secs


class Overload:
    """Decides which requests are admitted."""

    def __init__(self, bounds: Bounds, tuning: OverloadTuning) -> None:
        self.bounds = bounds
        self.waits = Delay(bounds.wait_secs, tuning.standing_secs)
        self.commits = Delay(bounds.commit_secs, tuning.standing_secs)
        self.fraction = 1.0
        self.refused = 0
        self._stepped_at = self._backed_at = 0.0
        self._strain = 0.0
        self._most = 0.0

    def strain(self, wait_secs: float, commit_secs: float) -> float:
        """Give the larger of the delays, in units of what it may be."""
        bounds = self.bounds
        wait = wait_secs / bounds.wait_secs if bounds.wait_secs else 0.0
        return max(wait, commit_secs / bounds.commit_secs if bounds.commit_secs else 0.0)

    def observe(self, wait_secs: float, commit_secs: float, now: float) -> None:
        """Take in the delays at the end of a turn, and move the fraction if it is time."""
        self.waits.observe(wait_secs, now)
        self.commits.observe(commit_secs, now)
        self._most = max(self._most, self.strain(wait_secs, commit_secs))
        if now - self._stepped_at >= STEP_SECS:
            self._step(now)

    def _step(self, now: float) -> None:
        steps, before = (now - self._stepped_at) / STEP_SECS, self._strain
        self._stepped_at, self._strain, self._most = now, self._most, 0.0
        if self.calm:
            if self.waits.stands(now) or self.commits.stands(now):
                self._back(FIRST_BACK, now)
        elif self._strain < 1.0:
            # After a silence it is as large as if it had been looked at throughout.
            self.fraction = min(1.0, self.fraction * (1.0 + FORTH * (1.0 - self._strain)) ** steps)
        elif self._strain > before * SHRINKING and now - self._backed_at >= BACK_SECS:
            self._back(BACK, now)

    def _back(self, factor: float, now: float) -> None:
        self.fraction = max(LEAST, self.fraction * factor)
        self._backed_at = now

    @property
    def calm(self) -> bool:
        """Whether everything is admitted."""
        return self.fraction >= 1.0

    def admits(self, strain: float, held: int, busy: int) -> bool:
        """Tell whether a request is admitted under such a strain.

        Of `busy` connections so many are `held` already: if that is a large enough share, nobody else need be.
        """
        fraction = max(LEAST, self.fraction / max(1.0, strain))
        # Rounded down: a client that is alone is not what there is too much of.
        if self.calm or strain < SOFT or held >= int((1.0 - fraction) * busy):
            return True
        self.refused += 1
        return False

    def admits_follower(self, strain: float) -> bool:
        """Tell whether a reader that follows may go on: only where nothing else helps it may not."""
        if self.calm or strain < HARD:
            return True
        self.refused += 1
        return False


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
    return min(LONGEST_HOLD_SECS, max(HOLD_SECS, held / RETURNING_PER_SEC))


def _spread(held: int) -> float:
    """Give numbers between 0 and 1 that are far from those just before."""
    return (held * GOLDEN) % 1.0
