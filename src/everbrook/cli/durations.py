"""Durations as people type them: `90s`, `15m`, `1h`, `7d`, or seconds alone."""

import re

import click

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"([0-9]{1,9})([smhd]?)")


def parse_duration(text: str) -> int:
    """Read a duration, in seconds. The name of an option's type, as click uses it."""
    parts = _DURATION.fullmatch(text)
    if parts is None or int(parts[1]) == 0:
        raise click.BadParameter(f"must be a number and a unit, such as 90s, 15m, 1h or 7d, got {text[:40]!r}")
    return int(parts[1]) * _UNITS[parts[2]]
