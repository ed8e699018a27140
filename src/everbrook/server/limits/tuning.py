"""Tuning of the overload control: timers and sizes that are not settings. Tests choose other values."""

from msgspec import Struct


class OverloadTuning(Struct, frozen=True, kw_only=True):
    """The timers and thresholds of the overload control."""

    beat_secs: float = 0.025
    """How often the lateness of the event loop is measured."""

    window_secs: float = 0.5
    """How long the strain must last for an overload to begin or end. Also how long a connection counts as busy."""

    few_changes: int = 2048
    """With fewer pending changes there is no overload, because one sync is enough for all of them."""
