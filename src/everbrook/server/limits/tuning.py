"""Tuning of the overload control: timers and sizes that are not settings. Only tests choose others."""

from math import inf

from msgspec import Struct


class OverloadTuning(Struct, frozen=True, kw_only=True):
    """When a delay is an overload."""

    standing_secs: float = 0.5
    """How long a delay must stay above its bound before it counts."""


class PulseTuning(Struct, frozen=True, kw_only=True):
    """How the delays are measured."""

    beat_secs: float = 0.025
    """How often the lateness of the event loop is measured."""

    quiet_beats: int = 40
    """Beats in a row without a request that end the pulse."""

    few_changes: int = 2048
    """Fewer pending changes are not a queue: however slow the disk is, one sync is enough for them."""

    spare_changes: int = 2048
    """The part of a full queue that is kept for connections that wait for each answer: they did not fill it."""

    long_turn_secs: float = 0.1
    """A turn of the loop that takes longer is looked at before it ends."""

    rate_secs: float = 0.25
    """The time over which the rate of changes that become durable is measured."""

    assumed_per_sec: float = inf
    """The rate of changes that become durable, before it was measured."""

    overload: OverloadTuning = OverloadTuning()
