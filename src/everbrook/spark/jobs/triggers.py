"""When a job takes its next batch: as soon as something is there, every so often, or once for all that is there now."""

from typing import Any

from msgspec import Struct

from everbrook.durations import UNIT_MS, parse_duration_ms

CONTINUOUS, AVAILABLE_NOW = "continuous", "available-now"
_LONGEST_MS = 365 * 24 * 3_600_000


class Trigger(Struct, frozen=True):
    """A trigger: how often, or, without a pause, whether it ends."""

    every_ms: int | None = None
    ends: bool = False

    @property
    def of_spark(self) -> dict[str, Any]:
        """Give it as Spark wants it."""
        if self.ends:
            return {"availableNow": True}
        return {"processingTime": f"{self.every_ms or 0} milliseconds"}


def parse_trigger(text: str) -> Trigger:
    """Read a trigger, or raise ValueError."""
    words = text.strip().lower()
    if words in {CONTINUOUS, AVAILABLE_NOW}:
        return Trigger(ends=words == AVAILABLE_NOW)
    pause = words.removeprefix("every")
    try:
        every_ms = parse_duration_ms(pause) if pause != words and pause[:1].isspace() else 0
    except ValueError:
        every_ms = 0
    if not 0 < every_ms <= _LONGEST_MS:
        raise ValueError(
            f'must be "{CONTINUOUS}", "{AVAILABLE_NOW}", or a pause such as "every 5s" of up to a year, got {text!r}'
        )
    return Trigger(every_ms)


def format_trigger(trigger: Trigger) -> str:
    """Write a trigger as `parse_trigger` reads it."""
    if trigger.every_ms is not None:
        unit = next(unit for unit in ("h", "m", "s", "ms") if trigger.every_ms % UNIT_MS[unit] == 0)
        return f"every {trigger.every_ms // UNIT_MS[unit]}{unit}"
    return AVAILABLE_NOW if trigger.ends else CONTINUOUS
