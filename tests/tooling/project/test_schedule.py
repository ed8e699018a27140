"""Workers get the longest files first."""

from pathlib import Path

import pytest

from tests.schedule import longest_first, measured, read_durations


def test_the_longest_file_comes_first_and_keeps_its_order(request: pytest.FixtureRequest) -> None:
    here = [item for item in request.session.items if item.path == request.path]
    other = [item for item in request.session.items if item.path != request.path]
    ordered = [*here, *other]
    longest_first(ordered, {item.nodeid.partition("::")[0]: 1.0 for item in other})
    assert ordered[: len(here)] == here


def test_durations_are_added_up_by_file(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    case = '<testcase classname="tests.tooling.project.test_schedule" name="x" time="{}"/>'
    report.write_text(f"<testsuite>{case.format(1.5)}{case.format(2)}</testsuite>")
    assert measured([report]) == {"tests/tooling/project/test_schedule.py": 3.5}


def test_every_file_with_a_duration_exists() -> None:
    root = Path(__file__).parents[3]
    assert [file for file in read_durations() if not (root / file).is_file()] == []
