"""The soak of damaged files: so many cases of each mode, or for so long."""

import itertools
import time
from collections.abc import Iterator, Sequence

from soak.flips.run import run_cases
from soak.ledger import PromiseBroken
from soak.progress import say


def soak_flips(
    seed: int,
    modes: Sequence[str],
    *,
    cases: int | None = None,
    secs: float | None = None,
    case: int | None = None,
    kinds: tuple[str, ...] = (),
) -> None:
    """Damage stores in each mode: `cases` times, for `secs` seconds, or as in one `case`."""
    violations: list[str] = []
    for mode in modes:
        numbers = _until(secs) if secs else range(cases or 0)
        tally = run_cases(seed, mode, numbers if case is None else [case], kinds)
        for line in tally.lines():
            say(line)
        violations += tally.violations
    if violations:
        raise PromiseBroken("\n".join(("a damaged store was silent, wrong, or lost too much:", *violations)))


def _until(secs: float) -> Iterator[int]:
    end = time.monotonic() + secs
    return itertools.takewhile(lambda _: time.monotonic() < end, itertools.count())
