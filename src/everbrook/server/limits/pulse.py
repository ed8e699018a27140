"""The pulse of the event loop: how late it is, and how long changes take to become durable.

A beat is due every `BEAT_SECS`; by as much as it is late, everything that arrived meanwhile has waited. While nothing
arrives there is no beat, so that an idle server sleeps.
"""

import asyncio
from math import inf
from time import monotonic

from everbrook.engine.engine import Engine
from everbrook.server.limits.overload import Bounds, Overload

BEAT_SECS = 0.025
# So many beats in a row without a request end it.
QUIET_BEATS = 40
# From so many reads between two beats on, it is their number that makes a beat late.
MANY_READS = 16
# How long a connection counts as busy that has asked for something.
WINDOW_SECS = 0.5


class Pulse:
    """Beats while requests come, and lets the `Overload` know.

    `beat_at` is when the last beat was: never, while there is none. `limit_secs` is how long ago that may be in a loop
    that is not late. `held` counts the connections that were refused something and are left alone for a while.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop, bounds: Bounds) -> None:
        self.overload = Overload(bounds)
        self._loop = loop
        self._engine = engine
        self._on = bool(bounds.wait_secs or bounds.commit_secs)
        self._quiet = 0
        self._timer: asyncio.TimerHandle | None = None
        self.calm = True
        self.beat_at = inf if self._on else 0.0
        self.limit_secs = bounds.wait_secs + BEAT_SECS if bounds.wait_secs else inf
        self.reads = 0
        self.held = 0
        self.window = 0
        self._window_at = 0.0
        self._seen = self._seen_before = 0

    @property
    def busy(self) -> int:
        """How many connections ask for something, those included that are held."""
        return self.held + max(self._seen, self._seen_before)

    def see(self) -> int:
        """Count a connection that asks for something and is not held. Gives the window that it is counted in."""
        self._seen += 1
        return self.window

    def start(self) -> None:
        """Begin to beat: something has come."""
        self.beat_at = monotonic()
        self._quiet = 0
        self._timer = self._loop.call_later(BEAT_SECS, self._beat)

    def _beat(self) -> None:
        now = monotonic()
        self.overload.observe(self.waited_secs(now), self._commit_secs(), now)
        self.calm = self.overload.calm
        self._quiet = 0 if self.reads or not self.calm else self._quiet + 1
        self.reads = 0
        if now - self._window_at > WINDOW_SECS:
            self._window_at = now
            self.window += 1
            self._seen_before, self._seen = self._seen, 0
        if self._quiet > QUIET_BEATS:
            self.beat_at = inf
            return
        self.beat_at = now
        self._timer = self._loop.call_later(BEAT_SECS, self._beat)

    def _commit_secs(self) -> float:
        engine = self._engine
        if engine.durable_change >= engine.last_change or engine.failure:
            return 0.0
        return engine.survey().pending_secs

    def waited_secs(self, now: float) -> float:
        """Give how long what is read now may have waited for its turn.

        If hardly anything was read meanwhile, it waited for something else: the process had to stand still.
        """
        return max(0.0, now - self.beat_at - BEAT_SECS) if self.reads >= MANY_READS else 0.0

    def stop(self) -> None:
        """Beat no more."""
        if self._timer:
            self._timer.cancel()
