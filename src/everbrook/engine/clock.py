"""Clock, randomness and scheduler. The engine gets them as arguments, so that a test can replay every failure."""

import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class Scheduler(Protocol):
    """The part of an event loop that the engine uses. Every asyncio loop has it."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback in the next turn."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback in the next turn. Any thread may call."""


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

    They begin with the time. If the clock was set back, they continue after the largest number that was ever stored.
    """

    _TIME_SHIFT = 20

    def __init__(self, last: int) -> None:
        """Continue after `last`, the largest number that was ever stored (`Storage.last_incarnation`)."""
        self._last = last

    def next(self, now: int) -> int:
        """Return a number that no stream and no blob has had."""
        self._last = max(self._last + 1, now << self._TIME_SHIFT)
        return self._last
