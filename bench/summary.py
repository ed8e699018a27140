"""From rounds to figures. Machines drift: two servers are compared within a round, and the median round speaks."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One server under one case in one round."""

    case: str
    subject: str
    round: int
    operations: float
    missing: int
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    cpu_share: float
    generator_us: float
    generator_share: float
    rss_mb: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The medians of a server's rounds."""

    subject: str
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    cpu_share: float
    generator_share: float
    rss_mb: float
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A case on a server and on its reference. All ratios are the better the greater they are.

    `memory_ratio` says how much of the speed of our memory mode is left, where that took its turns too.
    """

    case: str
    ours: Figures
    reference: Figures
    speed_ratio: float
    cpu_ratio: float
    p50_ratio: float
    p99_ratio: float
    memory_ratio: float | None = None


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in ascending order: always a value that was measured."""
    if not ordered:
        raise ValueError("a percentile of no values")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(samples: Sequence[Sample]) -> Figures:
    """The medians over the rounds of one server under one case."""

    def middle(value: Callable[[Sample], float]) -> float:
        return median(value(sample) for sample in samples)

    return Figures(
        subject=samples[0].subject,
        per_second=middle(lambda sample: sample.per_second),
        p50_ms=middle(lambda sample: sample.p50_ms),
        p99_ms=middle(lambda sample: sample.p99_ms),
        cpu_us=middle(lambda sample: sample.cpu_us),
        cpu_share=middle(lambda sample: sample.cpu_share),
        generator_share=middle(lambda sample: sample.generator_share),
        rss_mb=middle(lambda sample: sample.rss_mb),
        missing=sum(sample.missing for sample in samples),
    )


def compare(ours: Sequence[Sample], reference: Sequence[Sample], memory: Sequence[Sample] = ()) -> Comparison:
    """Compare two servers under one case, round by round, and with our memory mode if that was measured as well."""
    rounds = list(zip(ours, reference, strict=True))
    memory_rounds = list(zip(ours, memory, strict=bool(memory)))
    return Comparison(
        case=ours[0].case,
        ours=summarise(ours),
        reference=summarise(reference),
        speed_ratio=median(mine.per_second / theirs.per_second for mine, theirs in rounds),
        cpu_ratio=median(theirs.cpu_us / mine.cpu_us for mine, theirs in rounds),
        p50_ratio=median(theirs.p50_ms / mine.p50_ms for mine, theirs in rounds),
        p99_ratio=median(theirs.p99_ms / mine.p99_ms for mine, theirs in rounds),
        memory_ratio=median(mine.per_second / fast.per_second for mine, fast in memory_rounds) if memory else None,
    )
