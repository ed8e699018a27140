"""Faults: exceptions in callbacks, which must stop nothing but the callback itself.

An answer, a follower or a timer that raises is a bug of its own part. The committer and the others go on: each fault is
counted by its kind and logged with its stack. A follower may fail at every change, so the log gets one stack of each
kind in a while, with the number of those that it left out; the count has all of them.
"""

import logging
from enum import StrEnum

from everbrook.engine.clock import Clock

logger = logging.getLogger(__name__)

LOG_EVERY_SECS = 1.0


class Callback(StrEnum):
    """What raised."""

    ANSWER = "answer"
    """An answer that waited for its change to be durable."""
    BETWEEN_GROUPS = "between_groups"
    COMMIT = "commit"
    """The change of the engine's own state. It is the only one after which the store takes no more writes."""
    FAILURE = "failure"
    """Who was told that the store takes no more writes."""
    FOLLOWER = "follower"
    """Somebody who follows what becomes durable."""
    READER = "reader"
    """A reader at the tail of a stream."""
    ROLL_BACK = "roll_back"
    """Who was told which changes there was no room for."""
    TIMER = "timer"
    """Upkeep: an expiry, a retention policy, the patrol."""


class Faults:
    """Counts and logs the exceptions of callbacks."""

    def __init__(self, clock: Clock) -> None:
        self.counts = dict.fromkeys(Callback, 0)
        self._clock = clock
        self._logged_at: dict[Callback, float] = {}
        self._unlogged = dict.fromkeys(Callback, 0)

    def note(self, callback: Callback) -> None:
        """Count the exception that is being handled, and log it with its stack. Call it in the `except` clause."""
        self.counts[callback] += 1
        now, logged_at = self._clock.elapsed(), self._logged_at.get(callback)
        if logged_at is not None and now - logged_at < LOG_EVERY_SECS:
            self._unlogged[callback] += 1
            return
        self._logged_at[callback] = now
        unlogged, self._unlogged[callback] = self._unlogged[callback], 0
        more = f" ({unlogged} more since the last such line)" if unlogged else ""
        logger.exception("a callback of the engine failed: %s%s", callback, more)  # noqa: LOG004 - the caller handles it
