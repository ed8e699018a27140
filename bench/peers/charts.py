"""`python -m bench.peers.charts RESULTS.json`: one page of tables with bars, without scripts or requests."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from bench.report import BUSY_SHARE

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; margin: 0 0 2rem }
caption { text-align: left; font-weight: 600; padding: 0 0 .4rem }
th, td { text-align: right; padding: .2rem .5rem; border-bottom: 1px solid #ddd; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
td.bar { background: linear-gradient(to right, #cfe3f7 var(--share), transparent var(--share)) }
tr.first td { font-weight: 600 }
"""
_COLUMNS = (
    ("per second", "per_second", "{:,.0f}"),
    ("CPU µs", "cpu_us", "{:.1f}"),
    ("p50 ms", "p50_ms", "{:.2f}"),
    ("p99 ms", "p99_ms", "{:.2f}"),
)
_RATIOS = (("x", "speed_ratio"), ("x CPU", "cpu_ratio"), ("x p50", "p50_ratio"), ("x p99", "p99_ratio"))


def write_page(results: Path) -> Path:
    """Draw the page of a result beside it."""
    page = results.with_suffix(".html")
    page.write_text(draw_page(json.loads(results.read_text(encoding="utf-8"))), encoding="utf-8")
    return page


def draw_page(report: Mapping[str, Any]) -> str:
    """The whole page as HTML."""
    machine = report["machine"]
    notes = [
        f"{report['rounds']} rounds of {report['seconds']:g} s; each server ran alone in its turns; medians.",
        f"{machine['cpus']} CPUs, {machine['architecture']}, kernel {machine['kernel']}.",
        f"{machine['python']}, built {machine['python_build']}.",
        "Versions: " + ", ".join(f"{name} {version}" for name, version in report["versions"].items()) + ".",
        "x is the first server relative to the one of the row, within the rounds; above 1 is in its favour.",
        "*: the load generator was busy, so the server may be faster.",
        *(f"{name} is skipped: {reason}" for name, reason in report["skipped"].items()),
    ]
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Servers side by side</title>',
            f"<style>{_STYLE}</style></head><body><h1>Servers side by side</h1><ul>",
            *(f"<li>{escape(note)}</li>" for note in notes),
            "</ul>",
            *(_table(standing) for standing in report["standings"]),
            "</body></html>\n",
        )
    )


def _table(standing: Mapping[str, Any]) -> str:
    ratios = {comparison["reference"]["subject"]: comparison for comparison in standing["comparisons"]}
    most = {key: max((figures[key] for figures in standing["figures"]), default=0.0) for _, key, _ in _COLUMNS}
    headings = ["server", *(title for title, _, _ in _COLUMNS), "RSS MB", *(title for title, _ in _RATIOS)]
    return "".join(
        (
            f"<table><caption>{escape(standing['title'])}, {escape(standing['group'])}</caption><tr>",
            *(f"<th>{escape(heading)}</th>" for heading in headings),
            "</tr>",
            *(_row(figures, most, ratios.get(figures["subject"])) for figures in standing["figures"]),
            *_remarks(standing, len(headings)),
            "</table>",
        )
    )


def _row(figures: Mapping[str, Any], most: Mapping[str, float], ratios: Mapping[str, Any] | None) -> str:
    cells = [f"<td>{escape(figures['subject'])}</td>"]
    for _, key, form in _COLUMNS:
        share = figures[key] / most[key] if most[key] else 0.0
        bound = "*" if key == "per_second" and figures["generator_share"] > BUSY_SHARE else ""
        cells.append(f'<td class="bar" style="--share:{share:.1%}">{form.format(figures[key])}{bound}</td>')
    cells.append(f"<td>{figures['rss_mb']:.0f}</td>")
    cells += [f"<td>{f'{ratios[key]:.2f}' if ratios else ''}</td>" for _, key in _RATIOS]
    return f"<tr{'' if ratios else ' class=first'}>{''.join(cells)}</tr>"


def _remarks(standing: Mapping[str, Any], columns: int) -> Iterable[str]:
    remarks = [f"{name} failed: {reason}" for name, reason in standing["failures"].items()]
    remarks += [
        f"{figures['subject']} left {figures['missing']:,} deliveries undone in the time given."
        for figures in standing["figures"]
        if figures["missing"]
    ]
    return (f'<tr><td colspan="{columns}">{escape(remark)}</td></tr>' for remark in remarks)


def main(arguments: Sequence[str]) -> int:
    """Draw the pages of the results that are named."""
    for name in arguments:
        print(write_page(Path(name)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
