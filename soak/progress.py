"""Telling the person who waits how far it has got."""

import time

_BEGIN = time.monotonic()


def say(line: str) -> None:
    """Print a line at once, with the time since the run began."""
    print(f"[{time.monotonic() - _BEGIN:6.1f} s] {line}", flush=True)  # noqa: T201 - this is what it is for
