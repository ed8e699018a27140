"""What all packages share: locks on files, files that are replaced as a whole, durations, suggestions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from everbrook.atomic_file import replace_file
from everbrook.durations import parse_duration_ms
from everbrook.file_lock import LockHeld, find_owner, locked, take_lock
from everbrook.suggestions import suggest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_a_lock_refuses_others_and_names_its_owner(path: Path) -> None:
    with locked(path):
        with pytest.raises(LockHeld) as refused:
            take_lock(path)
        assert (refused.value.owner, find_owner(path)) == (os.getpid(), os.getpid())
    assert find_owner(path) is None


def test_a_lock_of_a_killed_process_is_free(path: Path) -> None:
    code = "import os, pathlib, sys; from everbrook.file_lock import take_lock; take_lock(pathlib.Path(sys.argv[1])); "
    subprocess.run([sys.executable, "-c", code + "os.kill(os.getpid(), 9)", str(path)], check=False, timeout=60)
    with locked(path):
        assert find_owner(path) == os.getpid()


def test_nobody_has_the_lock_of_a_file_that_is_not_there(path: Path) -> None:
    assert find_owner(path) is None


def test_a_file_that_can_not_be_replaced_is_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="the disk is full"):
        replace_file(path, b"new", durable=True)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (b"old", [path])


def test_a_file_of_secrets_is_its_owners_alone(path: Path) -> None:
    path.write_text("readable")
    replace_file(path, b"secret", mode=0o600)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"secret", 0o600)


@pytest.mark.parametrize(
    "text, ms", [("500ms", 500), ("90s", 90_000), ("1.5h", 5_400_000), (" 7 D ", 604_800_000), ("1m", 60_000)]
)
def test_a_duration_is_a_number_and_a_unit(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "0s", "-1s", "1w", "s", "1_0s", "1e3s", "0.1ms", "٣s"])
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number and a unit, such as 90s"):
        parse_duration_ms(text)


def test_a_number_alone_has_the_unit_that_is_usual() -> None:
    assert parse_duration_ms("5", "s") == 5000


@pytest.mark.parametrize("name, hint", [("prot", "; did you mean port?"), ("PORT", "; did you mean port?"), ("x", "")])
def test_the_nearest_name_is_suggested(name: str, hint: str) -> None:
    assert suggest(name, ["port", "host"]) == hint
