"""``everbrook check``: what a person reads, and the exit code that a script does."""

import json
import sys
from pathlib import Path

import pytest

from everbrook.cli.commands.check import format_report
from everbrook.storage import check_store
from tests.cli.conftest import Run
from tests.kit.damage import flip
from tests.kit.stores import journal_file, open_acid


def damage_text(store: Path) -> None:
    """Damage the change in the journal that is about the stream `text`."""
    path = journal_file(store)
    flip(path, path.read_bytes().index(b"again"))


def test_a_store_that_verifies_is_exit_code_0(run: Run, store: Path) -> None:
    ran = run("check", "data")
    assert (ran.code, ran.err) == (0, "")
    first, *_, last = ran.out.splitlines()
    assert first.startswith("data/acid: acid, streams: 6, their bytes: 30")
    assert first.endswith("; changes still in the journal: 4")
    assert last == "  every byte verifies"


def test_a_store_can_be_named_by_its_own_folder(run: Run, store: Path) -> None:
    assert run("check", "data/acid").code == 0


def test_a_write_that_a_crash_cut_off_is_told_and_exit_code_0(run: Run, folder: Path, store: Path) -> None:
    path = journal_file(store)
    data = path.read_bytes()
    end = data.index(b"the last one")
    path.write_bytes(data[:end] + bytes(len(data) - end))
    ran = run("check", "data")
    assert ran.code == 0
    assert "bytes of a write that a crash cut off" in ran.out


def test_damage_is_told_with_its_stream_and_exit_code_1(run: Run, store: Path) -> None:
    damage_text(store)
    ran = run("check", "data")
    assert ran.code == 1
    place = f"journal/{journal_file(store).name} at byte 0"
    assert f"  damaged: {place}: stream 'text' is readable up to offset 307205 of 307205: change 27 can't" in ran.out
    *_, places, consequence = ran.out.splitlines()
    assert places == "  damaged places: 1"
    assert consequence.startswith("  damaged streams: 1; a server reads them up to the damage and refuses appends")
    assert consequence.endswith("; `everbrook repair data/acid` shows the losses, and repairs the rest")


def test_a_store_that_a_server_refuses_is_told_so(run: Run, store: Path) -> None:
    journal_file(store).unlink()
    ran = run("check", "data")
    assert ran.code == 1
    assert ran.out.splitlines()[-1].startswith("  a server takes no changes: a part of the journal is lost")


def test_json_has_the_damaged_streams(run: Run, store: Path) -> None:
    damage_text(store)
    found = json.loads(run("check", "--json", "data").out)
    assert (found["sound"], found["refusals"]) == (False, [])
    assert found["damaged_streams"] == [
        {"stream": "text", "incarnation": 1, "readable_to": 307205, "tail": 307205},
    ]


def test_much_damage_is_told_in_part(store: Path) -> None:
    damage_text(store)
    (store / "manifest.json").write_text("{")
    report = check_store(store, lambda _read_bytes, _total_bytes: None)
    told = list(format_report(report, most_damages=1))
    assert len(report.damages) > 1
    assert [line for line in told if "damaged: " in line] == [f"  damaged: {report.damages[0]}"]
    assert f"  and {len(report.damages) - 1} more" in told


def test_a_store_in_use_is_one_line_and_exit_code_1(run: Run, folder: Path) -> None:
    storage = open_acid(folder / "acid")
    ran = run("check", ".")
    storage.close()
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "is in use" in ran.err


@pytest.mark.parametrize("place", [".", "none"])
def test_a_folder_without_a_store_is_one_line_and_exit_code_1(run: Run, place: str) -> None:
    ran = run("check", place)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_a_terminal_shows_how_far_it_is(run: Run, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ran = run("check", "data")
    assert ran.code == 0
    assert "checking data/acid" in ran.err
    assert "100%" in ran.err
