"""Guesses: how many bad signatures are looked at, of one address and in all.

To verify a signature is the one dear thing that somebody without any credential can ask for: up to a millisecond, while
everybody else waits. So whoever sends bad ones is soon not listened to (429). A token that was verified is remembered
and never comes here; when there are too many guesses in all, only those wait who have guessed themselves.
"""

from collections.abc import Callable, Hashable
from math import ceil
from time import monotonic

from everbrook.protocol.errors import TooManyRequests
from everbrook.server.auth.tuning import GuessTuning
from everbrook.server.limits.buckets import Rate

_ALL = ""


class Guesses:
    """Counts signatures that were bad."""

    def __init__(self, tuning: GuessTuning, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._by_whom = Rate(tuning.per_sec, tuning.burst_secs)
        self._in_all = Rate(tuning.all_per_sec, tuning.burst_secs)
        self._guessers = Rate(1 / tuning.remembered_secs, 0.0)

    def require_few(self, whose: Hashable) -> None:
        """Refuse to look at another signature of somebody who has sent too many bad ones."""
        now = self._clock()
        wait_secs = self._by_whom.wait_secs(whose, now)
        if self._guessers.wait_secs(whose, now):
            wait_secs = max(wait_secs, self._in_all.wait_secs(_ALL, now))
        if wait_secs > 0:
            wait = ceil(wait_secs)
            raise TooManyRequests(
                f"too many tokens with bad signatures came from this address; try again in {wait} s", wait_secs=wait
            )

    def note(self, whose: Hashable) -> None:
        """Count a signature that was bad."""
        now = self._clock()
        self._by_whom.draw(whose, 1, now)
        self._in_all.draw(_ALL, 1, now)
        if not self._guessers.wait_secs(whose, now):
            self._guessers.draw(whose, 1, now)
