"""Time, chance and scheduling, as the engine is given them, so that every failure replays."""

import random
import secrets
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """Something that will happen unless it is cancelled."""

    def cancel(self) -> None:
        """Keep it from happening."""


class Scheduler(Protocol):
    """The part of an event loop that the engine uses; every asyncio loop has it."""

    def call_soon(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after what is running now."""

    def call_later(self, delay: float, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback after `delay` seconds."""

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: object) -> Timer:
        """Run a callback soon, from another thread."""


class Clock:
    """The wall clock in milliseconds, a clock for durations, and chance."""

    def now(self) -> int:
        """Give the time in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def elapsed(self) -> float:
        """Give seconds since some moment. Nobody sets this clock, so durations are measured by it, in any thread."""
        return time.perf_counter()

    def chance(self) -> float:
        """Draw a number in [0, 1)."""
        return random.random()  # noqa: S311 - it spreads cache keys, it guards nothing

    def token(self) -> str:
        """Draw a text that nobody can guess."""
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
        """Give a number that no stream has had."""
        self._last = max(self._last + 1, now << self._TIME_SHIFT)
        return self._last
