"""``everbrook check``: what a person reads, and the exit code that a script does."""

import sys
from pathlib import Path

import pytest

from everbrook.cli.check import format_report
from everbrook.storage import check_store
from tests.cli.conftest import Run
from tests.storage.checking import flip, journal_file, make_store, open_acid


@pytest.fixture
def store(folder: Path) -> Path:
    """A store that a killed server left in the data folder `data`."""
    (folder / "data").mkdir()
    make_store(folder).rename(folder / "data" / "acid")
    return folder / "data" / "acid"


def test_a_store_that_verifies_is_exit_code_0(run: Run, store: Path) -> None:
    ran = run("check", "data")
    assert (ran.code, ran.err) == (0, "")
    first, *_, last = ran.out.splitlines()
    assert first.startswith("data/acid: acid, streams: 5, their bytes: 30")
    assert first.endswith("; changes still in the journal: 4")
    assert last == "  every byte verifies"


def test_a_store_can_be_named_by_its_own_folder(run: Run, store: Path) -> None:
    assert run("check", "data/acid").code == 0


def test_a_torn_tail_is_told_and_exit_code_0(run: Run, store: Path) -> None:
    path = journal_file(store)
    path.write_bytes(path.read_bytes()[:-1])
    ran = run("check", "data")
    assert ran.code == 0
    assert "bytes of a write that a crash cut off" in ran.out


def test_damage_is_told_with_its_place_and_exit_code_1(run: Run, store: Path) -> None:
    path = journal_file(store)
    flip(path, 60)
    ran = run("check", "data")
    assert ran.code == 1
    assert f"  damaged: journal/{path.name} at byte 20: " in ran.out
    assert ran.out.splitlines()[-1].startswith("  damaged places: ")


def test_much_damage_is_told_in_part(store: Path) -> None:
    flip(journal_file(store), 60)
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
