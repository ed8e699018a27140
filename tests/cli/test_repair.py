"""``everbrook repair``: it shows what is lost, asks, and ends with a store that verifies."""

import json
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.test_check import damage_text
from tests.kit.stores import journal_file, open_acid


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have somebody type an answer."""
    monkeypatch.setattr("sys.stdin", StringIO(text))


def test_a_sound_store_is_left_alone(run: Run, store: Path) -> None:
    ran = run("repair", "data")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "  every byte verifies"
    assert journal_file(store).exists()


def test_it_says_what_is_lost_and_repairs_if_the_answer_is_yes(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage_text(store)
    answer(monkeypatch, "y\n")
    ran = run("repair", "data")
    assert ran.code == 0
    assert "  stream 'text' will lose its last changes, and its producers; it gets a new incarnation" in ran.err
    assert "Repair it?" in ran.err
    assert "  stream 'text' ends at offset 307205 now, it was 307205" in ran.out
    assert ran.out.splitlines()[-1] == "  every byte verifies"
    assert run("check", "data").code == 0


@pytest.mark.parametrize("text", ["n\n", "\n"])
def test_without_a_yes_the_store_stays_as_it_was(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    damage_text(store)
    before = journal_file(store).read_bytes()
    answer(monkeypatch, text)
    ran = run("repair", "data")
    assert (ran.code, ran.out) == (1, "")
    assert "data/acid is unchanged" in ran.err
    assert journal_file(store).read_bytes() == before


def test_a_store_that_takes_no_changes_takes_them_again(run: Run, store: Path) -> None:
    journal_file(store).unlink()
    ran = run("repair", "--yes", "data")
    assert ran.code == 0
    assert "and the store takes changes again" in ran.out
    storage = open_acid(store)
    assert storage.refusal is None
    storage.close()


def test_drop_deletes_the_stream(run: Run, store: Path) -> None:
    damage_text(store)
    ran = run("repair", "--yes", "--drop", "data")
    assert ran.code == 0
    assert "  stream 'text' will be deleted" in ran.err
    assert "  stream 'text' is deleted" in ran.out


def test_json_is_one_object_in_a_line(run: Run, store: Path) -> None:
    damage_text(store)
    ran = run("repair", "--yes", "--json", "data")
    [line] = ran.out.splitlines()
    repaired = json.loads(line)
    assert (repaired["sound"], repaired["mode"], repaired["damages"]) == (True, "acid", [])
    assert any("'text' ends at offset" in done for done in repaired["done"])


def test_an_acid_store_without_its_base_is_told_to_need_a_backup(run: Run, store: Path) -> None:
    (store / "base" / "data.mdb").write_bytes(b"")
    ran = run("repair", "--yes", "data")
    assert ran.code == 0
    assert "if there is a backup, restore that instead" in ran.err
    assert "restore a backup to get the bytes that are lost" in ran.out


def test_a_store_in_use_is_one_line_and_exit_code_1(run: Run, folder: Path) -> None:
    storage = open_acid(folder / "acid")
    ran = run("repair", ".")
    storage.close()
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert "is in use" in ran.err
