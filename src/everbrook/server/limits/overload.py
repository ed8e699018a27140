"""Overload: what can't be done in good time is refused at once, so that the rest still is.

The signals are delays, never rates: how long what has arrived waits for its turn, and how old the oldest change is that
is not durable. A delay counts when it stands, that is when it was never small for a while: a burst is no overload. Then
a share of the busy connections is refused something and left alone for a while, in turns; a larger share in bounded
steps while a delay stands, and a smaller one while none does.
There is no clock here and no chance: times are arguments, so that every course of it can be replayed.
"""

from math import ceil

from msgspec import Struct

# How long a delay must stand before it counts, and how often the fraction moves.
STANDING_SECS = 0.5
STEP_SECS = 0.1
# How much smaller the fraction becomes in a step, and how much larger.
BACK = 0.88
FORTH = 0.04
LEAST = 0.05
# A single turn that has taken this many times what a delay may be admits nothing more.
HARD = 4.0
# How long a refused connection is left alone at least, and how many of them come back in a second.
HOLD_SECS = 1.0
RETURNING_PER_SEC = 2000
LONGEST_HOLD_SECS = 30.0
GOLDEN = 0.618033988749895


class Bounds(Struct, frozen=True):
    """How large the delays may be. Zero: as large as they will."""

    wait_secs: float = 0.0
    commit_secs: float = 0.0


class Delay:
    """One signal: it stands when it was above its bound throughout `STANDING_SECS`."""

    __slots__ = ("_above_since", "_seen_at", "bound_secs")

    def __init__(self, bound_secs: float) -> None:
        self.bound_secs = bound_secs
        self._seen_at = 0.0
        self._above_since: float | None = None

    def observe(self, secs: float, now: float) -> None:
        """Take in how large the delay is now."""
        if not 0 < self.bound_secs < secs:
            self._above_since = None
        elif self._above_since is None or now - self._seen_at > STANDING_SECS + secs:
            # Of what was before a silence nothing is known.
            self._above_since = now
        self._seen_at = now

    @property
    def above(self) -> bool:
        """Whether it was too large when it was last seen."""
        return self._above_since is not None

    def stands(self, now: float) -> bool:
        """Tell whether it was too large for a while, and up to now."""
        return self._above_since is not None and now - self._above_since >= STANDING_SECS


class Overload:
    """Decides which requests are admitted."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.waits = Delay(bounds.wait_secs)
        self.commits = Delay(bounds.commit_secs)
        self.fraction = 1.0
        self.refused = 0
        self._stepped_at = 0.0

    def observe(self, wait_secs: float, commit_secs: float, now: float) -> None:
        """Take in the delays at the end of a turn, and move the fraction if it is time."""
        self.waits.observe(wait_secs, now)
        self.commits.observe(commit_secs, now)
        if now - self._stepped_at >= STEP_SECS:
            self._step(now)

    def _step(self, now: float) -> None:
        steps = (now - self._stepped_at) / STEP_SECS
        self._stepped_at = now
        if self._too_slow(now):
            self.fraction = max(LEAST, self.fraction * BACK)
        else:
            # After a silence it is as large as if it had been looked at throughout.
            self.fraction = min(1.0, self.fraction + FORTH * steps)

    def _too_slow(self, now: float) -> bool:
        """While something is refused already, a delay need not stand again to count."""
        if self.fraction < 1.0:
            return self.waits.above or self.commits.above
        return self.waits.stands(now) or self.commits.stands(now)

    @property
    def calm(self) -> bool:
        """Whether everything is admitted."""
        return self.fraction >= 1.0

    def admits(self, wait_secs: float, held: int, busy: int) -> bool:
        """Tell whether a request is admitted that has waited for so long.

        Of `busy` connections so many are `held` already: if that is a large enough share, nobody else need be.
        """
        fraction = min(self.fraction, LEAST if self._too_late(wait_secs) else 1.0)
        # Rounded down: a client that is alone is not what there is too much of.
        if held >= int((1.0 - fraction) * busy):
            return True
        self.refused += 1
        return False

    def admits_follower(self, wait_secs: float) -> bool:
        """Tell whether a reader that follows may go on: only where nothing else helps it may not."""
        if self._too_late(wait_secs):
            self.refused += 1
            return False
        return True

    def _too_late(self, wait_secs: float) -> bool:
        return 0 < self.bounds.wait_secs * HARD < wait_secs


def hold_secs(held: int) -> float:
    """Tell how long a refused connection is left alone when so many are.

    However many there are, so few come back in a second that refusing them again costs next to nothing. They do not
    all come back at once.
    """
    spread = 0.6 + 0.4 * ((held * GOLDEN) % 1.0)
    return min(LONGEST_HOLD_SECS, max(HOLD_SECS, held / RETURNING_PER_SEC)) * spread


def wait_secs(held: int) -> int:
    """Tell a refused client in how many seconds it may ask again (`Retry-After`)."""
    return ceil(hold_secs(held))
