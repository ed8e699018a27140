"""The watchdog: a process that only sleeps, and so knows when the machine itself stood still."""

import sys
import time

from msgspec import Struct

BEAT_SECS = 0.002
STALL_SECS = 0.02
"""A sleep that takes so much longer is a stall of the machine."""


class Stalls(Struct, frozen=True):
    """When the watchdog did not run: pairs of moments of the system's monotonic clock."""

    spans: list[tuple[float, float]]

    def overlap_secs(self, begin: float, end: float) -> float:
        """Give how much of a span the machine stood still."""
        return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in self.spans)


def parse_stalls(text: str) -> Stalls:
    """Read what the watchdog has printed."""
    spans = [line.split() for line in text.splitlines()]
    return Stalls([(float(since), float(until)) for since, until in spans])


def main() -> None:
    """Print each stall until standard input ends or the process is told to end."""
    before = time.monotonic()
    while True:
        time.sleep(BEAT_SECS)
        now = time.monotonic()
        if now - before > BEAT_SECS + STALL_SECS:
            sys.stdout.write(f"{before:.6f} {now:.6f}\n")
            sys.stdout.flush()
        before = now


if __name__ == "__main__":
    main()
