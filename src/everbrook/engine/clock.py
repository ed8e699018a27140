"""Clock, randomness and scheduler. The engine gets them as arguments, so that a test can replay every failure."""

import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Don't make the call."""


class Scheduler(Protocol):
    """The part of an event loop that the engine uses; every asyncio loop has it."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after what is running now."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback soon, from another thread."""


class Clock:
    """The wall clock in milliseconds, a clock for durations, and randomness."""

    def now(self) -> int:
        """Return the time in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        """Return the seconds of a monotonic clock, for durations. Any thread may call."""
        return time.perf_counter()

    def chance(self) -> float:
        """Return a random number in [0, 1)."""
        return random.random()  # noqa: S311 - it spreads cache keys, it guards nothing

    def token(self) -> str:
        """Return a random text that can't be guessed."""
        return secrets.token_hex(12)


class Incarnations:
    """Numbers for new streams and blobs: unique, increasing, and beyond those of earlier runs.

    They begin with the time, unless a clock that was set back would make them begin below what was ever stored.
    """

    _TIME_SHIFT = 20

    def __init__(self, last: int) -> None:
        """Go on after `last`, the largest one that was ever stored (`Storage.last_incarnation`)."""
        self._last = last

    def next(self, now: int) -> int:
        """Return a number that no stream and no blob has had."""
        self._last = max(self._last + 1, now << self._TIME_SHIFT)
        return self._last
