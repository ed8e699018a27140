"""The table for people and the JSON for whatever comes after."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.cases import AIMS, CASES
from bench.interpreter import describe_build
from bench.load import Case
from bench.rounds import Turns
from bench.summary import Comparison, Figures, Sample, compare

_HEADINGS = ("case", "per second", "x", "CPU µs", "x less", "p50 / p99 ms", "CPU %", "RSS MB")
_DURABLE_HEADINGS = (*_HEADINGS, "x memory", "aim")
BUSY_SHARE = 0.9


@dataclass(slots=True)
class Report:
    """Everything a run has shown."""

    rounds: int
    seconds: float
    versions: Mapping[str, str]
    generator_us: float
    idle_rss_mb: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)

    def add(self, turns: Turns) -> None:
        """Take in one case; idle memory hardly differs between starts, so the last start speaks."""
        self.idle_rss_mb |= turns.idle_rss_mb
        known = {id(sample) for sample in self.samples}  # several subjects share the turns of one reference
        self.samples += [s for s in (*turns.ours, *turns.reference, *turns.memory) if id(s) not in known]
        self.comparisons.append(compare(turns.ours, turns.reference, turns.memory))


def machine() -> dict[str, str]:
    """What the figures depend on most."""
    return {
        "cpus": str(os.cpu_count()),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_build": describe_build(),
    }


def format_report(report: Report, cases: Mapping[str, Case] = CASES) -> str:
    """The table and what one has to know to read it."""
    lines = [line for table in _tables(report.comparisons, cases) for line in table]
    lines.append("Each pair is ours | reference. Ratios are medians of the rounds' ratios; above 1 is in our favour.")
    if any(comparison.memory_ratio is not None for comparison in report.comparisons):
        lines.append("x memory: what is left of the speed of our memory mode in the same rounds.")
    lines.append(
        f"Generator: {report.generator_us:.1f} µs of its own CPU per append; * it was busy, so ours is a bound."
    )
    idle = ", ".join(f"{name} {rss_mb:.1f} MB" for name, rss_mb in report.idle_rss_mb.items())
    lines.append(f"Idle memory after start: {idle}.")
    lines.extend(_shortfalls(report.comparisons))
    return "\n".join(lines)


def write_json(report: Report, path: Path) -> None:
    """Write every sample beside the comparisons drawn from them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), **asdict(report)}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _tables(comparisons: Sequence[Comparison], cases: Mapping[str, Case]) -> list[list[str]]:
    """One table for each pair of servers."""
    pairs: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        pairs.setdefault((comparison.ours.subject, comparison.reference.subject), []).append(comparison)
    return [[f"{ours} | {theirs}", *_table(rows, cases), ""] for (ours, theirs), rows in pairs.items()]


def _table(comparisons: Sequence[Comparison], cases: Mapping[str, Case]) -> list[str]:
    if all(comparison.memory_ratio is None for comparison in comparisons):
        return align([_HEADINGS, *(_row(comparison, cases) for comparison in comparisons)])
    return align([_DURABLE_HEADINGS, *(_durable_row(comparison, cases) for comparison in comparisons)])


def _durable_row(comparison: Comparison, cases: Mapping[str, Case]) -> tuple[str, ...]:
    return (*_row(comparison, cases), f"{comparison.memory_ratio:.2f}", AIMS.get(comparison.case, ""))


def _row(comparison: Comparison, cases: Mapping[str, Case]) -> tuple[str, ...]:
    ours, theirs = comparison.ours, comparison.reference
    bound = "*" if ours.generator_share > BUSY_SHARE else ""
    return (
        cases[comparison.case].title,
        f"{ours.per_second:,.0f}{bound} | {theirs.per_second:,.0f}",
        f"{comparison.speed_ratio:.2f}",
        f"{ours.cpu_us:.1f} | {theirs.cpu_us:.1f}",
        f"{comparison.cpu_ratio:.2f}",
        f"{_latencies(ours)} | {_latencies(theirs)}",
        f"{ours.cpu_share:.0%} | {theirs.cpu_share:.0%}",
        f"{ours.rss_mb:.0f} | {theirs.rss_mb:.0f}",
    )


def _latencies(figures: Figures) -> str:
    return f"{figures.p50_ms:.2f} / {figures.p99_ms:.2f}"


def align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Make the lines of a table, of which the first row is the headings."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join([first, *(other.rstrip().rjust(len(other)) for other in others)]))
    lines.insert(1, "  ".join("-" * width for width in widths))
    return lines


def _shortfalls(comparisons: Sequence[Comparison]) -> list[str]:
    return [
        f"{figures.subject} left {figures.missing:,} deliveries of {comparison.case!r} undone in the time given."
        for comparison in comparisons
        for figures in (comparison.ours, comparison.reference)
        if figures.missing
    ]
