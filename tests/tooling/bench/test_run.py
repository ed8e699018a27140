"""The whole run, against servers that are not what they should be."""

import json
import sys
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.cases import CASES
from bench.report import Report, format_report, write_json
from bench.rounds import Turns
from bench.subjects import DEFAULT_SUBJECTS, SUBJECTS, Subject
from bench.summary import Sample
from tests.tooling.bench.test_summary import sample

CONSTANT = {
    "constant": Subject(name="constant", command=lambda port: [sys.executable, "-m", "bench.constant", str(port)])
}
"""A subject that acknowledges whatever it is sent, the creation of a stream included."""
KNOWN = {"append": CASES["head"]}


def test_a_wrong_answer_ends_the_run_with_an_error_and_no_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"

    status = command.main(
        ["--subjects=constant", "--cases=head", "--seconds=0.05", f"--json={path}"], CONSTANT, lambda: "v0"
    )

    assert status == 1
    assert (
        "head on constant: PUT /v1/stream/bench/head/0/warm-up/0 must be answered with 201" in capsys.readouterr().err
    )
    assert not path.exists()


def test_an_unknown_case_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["--subjects=constant", "--cases=haed"], CONSTANT)

    assert "unknown: haed" in capsys.readouterr().err


def report_of(*samples: Sample) -> Report:
    report = Report(rounds=len(samples), seconds=1, versions={"node": "v0"}, generator_us=7.0)
    ours, reference = list(samples), [sample(per_second=50, cpu_us=40) for _ in samples]
    report.add(Turns({"everbrook-memory": 33.3}, ours, reference))
    return report


def test_the_table_shows_both_servers_and_both_ratios() -> None:
    row = next(line for line in format_report(report_of(sample()), KNOWN).splitlines() if line.startswith("HEAD"))

    assert "100 | 50" in row
    assert "2.00" in row
    assert "4.00" in row


def test_missing_deliveries_are_reported() -> None:
    assert "left 12 deliveries" in format_report(report_of(sample(missing=12)), KNOWN)


def test_the_json_holds_every_sample(tmp_path: Path) -> None:
    write_json(report_of(sample(), sample()), tmp_path / "new" / "results.json")

    content = json.loads((tmp_path / "new" / "results.json").read_text())
    assert [entry["per_second"] for entry in content["samples"]] == [100, 100, 50, 50]
    assert content["comparisons"][0]["speed_ratio"] == 2


def test_a_durable_table_shows_what_is_left_of_the_speed_of_memory() -> None:
    report = Report(rounds=1, seconds=1, versions={}, generator_us=7.0)
    report.add(Turns({}, [sample()], [sample(per_second=50)], [sample(per_second=400)]))

    assert "x memory" in format_report(report, KNOWN)
    assert " 0.25 " in format_report(report, KNOWN)


def test_the_turns_of_a_shared_reference_are_reported_once() -> None:
    report = Report(rounds=1, seconds=1, versions={}, generator_us=7.0)
    shared = [sample(per_second=50)]
    report.add(Turns({}, [sample()], shared))
    report.add(Turns({}, [sample()], shared))

    assert len(report.samples) == 3


def test_subjects_with_one_reference_take_turns_together() -> None:
    contests = command.contests([SUBJECTS[name] for name in DEFAULT_SUBJECTS])

    assert [[subject.name for subject in contest.servers] for contest in contests] == [
        ["everbrook-memory", "node-memory"],
        ["everbrook-acid", "everbrook-file-durable", "node-file", "everbrook-memory"],
    ]
