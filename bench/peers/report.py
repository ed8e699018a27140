"""The result of a run with all servers: the tables for people, and the JSON, from which the page is drawn."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.peers.turns import Standing, Turns
from bench.report import BUSY_SHARE, align, machine
from bench.summary import Comparison, Figures, Sample

_HEADINGS = ("per second", "CPU µs", "p50 / p99 ms", "CPU %", "RSS MB", "x", "x CPU", "x p50", "x p99")


@dataclass(slots=True)
class PeersReport:
    """Everything a run has shown."""

    rounds: int
    seconds: float
    versions: Mapping[str, str]
    generator_us: float
    skipped: Mapping[str, str]
    machine: Mapping[str, str] = field(default_factory=machine)
    idle_rss_mb: dict[str, float] = field(default_factory=dict)
    standings: list[Standing] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)

    def add(self, standing: Standing, turns: Turns) -> None:
        """Take in one case of a group; idle memory hardly differs between starts, so the last start speaks."""
        self.idle_rss_mb |= turns.idle_rss_mb
        self.standings.append(standing)
        self.samples += [sample for samples in turns.samples.values() for sample in samples]


def write_json(report: PeersReport, path: Path) -> None:
    """Write every sample beside what was drawn from them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(report), indent=1) + "\n", encoding="utf-8")


def format_report(report: PeersReport) -> str:
    """The tables and what one has to know to read them."""
    lines = [line for standing in report.standings for line in (*_table(standing), "")]
    lines.append("x: the first server relative to this one, medians of the rounds' ratios; above 1 is in its favour.")
    lines.append(
        f"Generator: {report.generator_us:.1f} µs of its own CPU per append; * it was busy: the server may be faster."
    )
    idle = ", ".join(f"{name} {rss_mb:.1f} MB" for name, rss_mb in report.idle_rss_mb.items())
    lines.append(f"Idle memory after start: {idle}.")
    lines.append(f"{report.machine['python']}, built {report.machine['python_build']}.")
    lines.extend(skipped_lines(report.skipped))
    return "\n".join(lines)


def skipped_lines(skipped: Mapping[str, str]) -> list[str]:
    """Say who did not take part, and why."""
    return [f"{name} is skipped: {reason}" for name, reason in skipped.items()]


def _table(standing: Standing) -> Iterable[str]:
    ratios = {comparison.reference.subject: comparison for comparison in standing.comparisons}
    yield f"{standing.title}, {standing.group}"
    rows = [_row(figures, ratios.get(figures.subject)) for figures in standing.figures]
    yield from align([("server", *_HEADINGS), *rows])
    yield from (f"{name} failed: {reason}" for name, reason in standing.failures.items())
    for figures in standing.figures:
        if figures.missing:
            yield f"{figures.subject} left {figures.missing:,} deliveries undone in the time given."


def _row(figures: Figures, comparison: Comparison | None) -> tuple[str, ...]:
    bound = "*" if figures.generator_share > BUSY_SHARE else ""
    return (
        figures.subject,
        f"{figures.per_second:,.0f}{bound}",
        f"{figures.cpu_us:.1f}",
        f"{figures.p50_ms:.2f} / {figures.p99_ms:.2f}",
        f"{figures.cpu_share:.0%}",
        f"{figures.rss_mb:.0f}",
        *_ratios(comparison),
    )


def _ratios(comparison: Comparison | None) -> tuple[str, ...]:
    if comparison is None:
        return ("",) * 4
    ratios = (comparison.speed_ratio, comparison.cpu_ratio, comparison.p50_ratio, comparison.p99_ratio)
    return tuple(f"{ratio:.2f}" for ratio in ratios)
