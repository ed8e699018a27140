"""Clients are compared only where each of them has done all that it was to do."""

import json
from pathlib import Path

import pytest

from bench.channel import LoadFailed
from bench.client import __main__ as command
from bench.client.__main__ import CASES
from bench.client.turns import CLIENTS, batches, turn_of


def test_every_client_takes_its_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results.json"

    assert command.main(["--quick", "--cases=together,list,latency", f"--json={results}"]) == 0

    taken = json.loads(results.read_text())["turns"]
    assert [(turn["case"], turn["client"]) for turn in taken] == [
        (case, client) for case in ("together", "list", "latency") for client in CLIENTS
    ]
    assert all(turn["per_second"] > 0 for turn in taken)
    assert "catch-up read into a list" in capsys.readouterr().out


def test_the_catch_up_read_is_of_a_hundred_megabytes() -> None:
    batch = next(batches(CASES["list"]))
    each = len(batch) / len(json.loads(batch))
    assert each * CASES["list"].messages > 95_000_000


def test_a_client_that_does_less_has_no_figures() -> None:
    with pytest.raises(LoadFailed, match="did 999"):
        turn_of(CASES["append"], "sync", 0, {"done": 999, "took": 1.0, "cpu": 1.0})
