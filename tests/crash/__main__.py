"""Crash a store again and again, from the command line: `python -m tests.crash --points 10000 --seed 1`.

With `--point` only that one is judged: that is how a failure replays.
"""

import argparse
import logging
import sys
import time

from tests.crash.simulation.modes import MODES
from tests.crash.simulation.promises import Violation
from tests.crash.simulation.replay import DRIVERS, Plan, replay


def main() -> int:
    """Crash as often as asked. The exit code says whether every promise was kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--mode", choices=list(MODES), help="one storage mode; all of them otherwise")
    parser.add_argument("--level", choices=list(DRIVERS), help="the storage alone, or with the engine on it; else both")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--point", type=int, help="one point of this seed")
    parser.add_argument("--points", type=int, default=1000, help="how many points, in each mode")
    asked = parser.parse_args()
    logging.getLogger("everbrook").setLevel(logging.CRITICAL)
    for mode in [asked.mode] if asked.mode else MODES:
        try:
            if asked.point is None:
                _crash_often(mode, list(DRIVERS) if asked.level is None else [asked.level], asked.seed, asked.points)
            else:
                list(replay(Plan(mode, asked.seed, asked.level or "storage", only=asked.point)))
        except Violation as violation:
            print(violation)  # noqa: T201 - it speaks to whoever runs it
            return 1
    return 0


def _crash_often(mode: str, levels: list[str], seed: int, points: int) -> None:
    done, begin = 0, time.monotonic()
    while done < points:
        for _ in replay(Plan(mode, seed, levels[seed % len(levels)])):
            done += 1
        seed += 1
        if seed % 20 == 0:
            print(f"{mode}: {done} points, {time.monotonic() - begin:.0f} s", file=sys.stderr)  # noqa: T201
    print(f"{mode}: {done} crash points, every promise kept (up to seed {seed - 1})")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
