"""The catalogue written out for people: the table of metrics in `docs/observability.md`.

`python -m everbrook.server.observe.reference` rewrites it in the current folder; a test fails while it is old.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from everbrook.server.observe.catalogue import METRICS, PROCESS_METRICS

PAGE = Path("docs/observability.md")

_TABLE = re.compile(r"(?<=<!-- metrics: begin -->\n).*(?=<!-- metrics: end -->)", re.DOTALL)


def format_table() -> str:
    """Write a row for each metric."""
    return "\n" + "\n".join(_lines()) + "\n\n"


def _lines() -> Iterator[str]:
    yield "| metric | kind | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for metric in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.words} |"
    for name, words in PROCESS_METRICS.items():
        yield f"| `{name}` | {'counter' if name.endswith('_total') else 'gauge'} | | {words} |"


def render_page(page: str) -> str:
    """Give the page with its table brought up to date."""
    return _TABLE.sub(lambda _: format_table(), page)


def write() -> None:
    """Bring the page of the current folder up to date."""
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    write()
