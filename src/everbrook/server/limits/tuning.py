"""Tuning of the overload control: timers and sizes that are not settings. Only tests choose others."""

from msgspec import Struct


class OverloadTuning(Struct, frozen=True, kw_only=True):
    """How delays are measured, and when one is an overload."""

    beat_secs: float = 0.025
    """How often the lateness of the event loop is measured."""

    window_secs: float = 0.5
    """How long an overload must last to be one, or to be over, and how long a connection that asked counts as busy."""

    few_changes: int = 2048
    """Fewer pending changes are not a queue: however slow the disk is, one sync is enough for them."""
