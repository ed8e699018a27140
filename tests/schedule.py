"""The schedule of the workers of pytest-xdist: the longest files first, so that no long one begins at the end.

A file runs on one worker, because its tests share servers. `durations.json` holds the seconds of each file; `make
durations` measures them anew.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[1]
DURATIONS = Path(__file__).with_name("durations.json")
UNKNOWN_SECS = 10.0  # a new file may be a long one


def longest_first(items: list[pytest.Item], durations: dict[str, float]) -> None:
    """Sort tests in place by the seconds of their files; those of a file keep their order."""
    files = [item.nodeid.partition("::")[0] for item in items]
    rank = {file: -durations.get(file, UNKNOWN_SECS) for file in files}
    items[:] = [item for item, _ in sorted(zip(items, files, strict=True), key=lambda pair: (rank[pair[1]], pair[1]))]


def read_durations() -> dict[str, float]:
    durations: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    return durations


def measured(reports: list[Path]) -> dict[str, float]:
    """Add up the seconds of each file in reports of `pytest --junit-xml`."""
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by pytest
            seconds[_file_of(case.get("classname", ""))] += float(case.get("time", "0"))
    return {file: round(spent, 1) for file, spent in sorted(seconds.items()) if file and spent >= 1}


def _file_of(dotted: str) -> str:
    """Give the file of a class name in a report: a module, and the classes within it."""
    parts = dotted.split(".")
    found = (Path("/".join(parts[:end]) + ".py") for end in range(len(parts), 0, -1))
    return next((str(path) for path in found if (ROOT / path).is_file()), "")


if __name__ == "__main__":
    DURATIONS.write_text(json.dumps(measured([Path(name) for name in sys.argv[1:]]), indent=0) + "\n", encoding="utf-8")
