"""Tuning of a capture: sizes and intervals that users do not set. Only tests choose others."""

from msgspec import Struct


class CaptureTuning(Struct, frozen=True, kw_only=True):
    """How much a capture does at once, and how long it waits."""

    wait_secs: float = 0.5
    """How long Spark waits for something new. While it waits, a query can't be stopped."""
    advance_secs: float = 10.0
    advance_bytes: int = 16 * 1024 * 1024
    """When a batch without rows lets the slot advance over changes of other tables: after so long, or so much."""
    task_bytes: int = 4 * 1024 * 1024
    """How much of the copy each task reads."""
    small_bytes: int = 256 * 1024
    """The driver reads a batch of the copy up to this size by itself: to start a task would take longer."""
    pages_per_part: int = 8192
    """64 MiB of a table, which are one file of the copy."""
    lock_timeout: str = "10s"
    """How long the start waits for a lock on a table: whoever waits for one holds up all others."""
    look_secs: float = 10.0
    """How often a running capture looks whether publication and tables are unchanged."""
    unsure_secs: float = 0.5
    """How old the last look may be when a change gives reason to look again."""
    tell_secs: float = 5.0
    """How often Postgres hears of this side at least. It gives up after a minute of silence (wal_sender_timeout)."""


DEFAULT_TUNING = CaptureTuning()
