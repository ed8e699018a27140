"""Durations as people type them: a number and a unit, such as `500ms`, `90s`, `15m`, `1.5h` or `7d`."""

import re

UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(ms|s|m|h|d|)")


def parse_duration_ms(text: str, unit: str = "") -> int:
    """Read a duration above zero, or raise ValueError. `unit` is that of a number alone, if one is allowed."""
    found = _DURATION.fullmatch(text.strip().lower())
    duration_ms = round(float(found[1]) * UNIT_MS.get(found[2] or unit, 0)) if found else 0
    if duration_ms <= 0:
        raise ValueError("must be a number and a unit, such as 90s, 15m, 1h or 7d")
    return duration_ms
