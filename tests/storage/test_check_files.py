"""Checking a store of the file modes: what is whole verifies, and what is not is found, with its place."""

import shutil
from pathlib import Path

import pytest

from everbrook.storage import check_store
from everbrook.storage.files.layout import Layout
from everbrook.storage.record import LOG_HEADER, parse_log_header, records
from tests.storage.checking import flip, inspect_files, make_files, open_files

JSON, FORK, MORTAL = 2, 3, 4


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_files(folder)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A store that was killed, for one test to damage."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


def segment(store: Path, incarnation: int, number: int = 0) -> Path:
    return Layout(store).segment(incarnation, number)


def catalogue(store: Path) -> Path:
    [path] = store.glob("catalogue-*.log")
    return path


@pytest.mark.parametrize("which", ["store", "origin"])
def test_a_store_verifies_whether_it_was_killed_or_closed(made: Path, which: str) -> None:
    checked = inspect_files(made / which)
    assert (checked.damages, checked.remarks, checked.tally.streams) == ([], [], 5)


def test_a_store_that_was_only_just_made_verifies(tmp_path: Path) -> None:
    open_files(tmp_path).close()
    assert inspect_files(tmp_path).sound


def test_a_store_is_checked_as_what_its_manifest_says(store: Path) -> None:
    report = check_store(store, lambda _read_bytes, _total_bytes: None)
    assert (report.mode, report.sound, report.tally.streams) == ("file", True, 5)


def test_every_flipped_byte_of_an_ended_segment_is_found(store: Path) -> None:
    path = segment(store, MORTAL)
    assert segment(store, MORTAL, 1).exists()
    whole = path.read_bytes()
    for position in range(len(whole)):
        flip(path, position)
        damages = inspect_files(store).damages
        assert any(damage.startswith(str(path.relative_to(store))) for damage in damages), position
        path.write_bytes(whole)


def test_every_flipped_byte_of_the_last_segment_is_damage_or_the_last_write(store: Path) -> None:
    path = max(segment(store, MORTAL).parent.glob(f"{MORTAL:016x}-*.log"))
    whole = path.read_bytes()
    salt, _ = parse_log_header(whole) or (0, 0)
    *_, last = records(whole, salt)
    for position in range(LOG_HEADER.size, len(whole)):
        flip(path, position)
        checked = inspect_files(store)
        assert checked.damages or checked.remarks, position
        assert position < last.position or checked.sound
        path.write_bytes(whole)


def test_a_tail_that_a_crash_cut_off_is_told_and_fine(store: Path) -> None:
    path = segment(store, FORK)
    path.write_bytes(path.read_bytes()[:-1])
    checked = inspect_files(store)
    assert checked.sound
    assert "bytes of a write that a crash cut off" in checked.remarks[0]


def test_a_segment_that_was_only_begun_is_told_and_fine(store: Path) -> None:
    segment(store, FORK, 1).write_bytes(b"EBL1")
    checked = inspect_files(store)
    assert checked.sound
    assert "it holds nothing yet" in checked.remarks[0]


def test_a_missing_log_is_found(store: Path) -> None:
    segment(store, FORK).unlink()
    path = segment(store, FORK).relative_to(store)
    assert f"{path}: the log is missing" in inspect_files(store).damages


def test_a_missing_segment_is_found(store: Path) -> None:
    segment(store, MORTAL, 1).unlink()
    assert any(damage.endswith("the log has gaps") for damage in inspect_files(store).damages)


def test_a_log_of_another_stream_is_found(store: Path) -> None:
    shutil.copy(segment(store, FORK), segment(store, JSON))
    assert any("it is not the stream that the catalogue calls b'json'" in each for each in inspect_files(store).damages)


def test_logs_of_streams_that_are_gone_are_told_and_fine(store: Path) -> None:
    path = segment(store, 99)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"left over")
    checked = inspect_files(store)
    assert checked.sound
    assert checked.remarks == ["1 logs are left of streams that are gone; the next start removes them"]


def test_a_missing_catalogue_is_found(store: Path) -> None:
    catalogue(store).unlink()
    assert "there are streams and no catalogue" in inspect_files(store).damages[0]


def test_every_flipped_byte_of_the_catalogue_is_damage_or_the_last_write(store: Path) -> None:
    path = catalogue(store)
    whole = path.read_bytes()
    salt, _ = parse_log_header(whole) or (0, 0)
    *_, last = records(whole, salt)
    for position in range(len(whole)):
        flip(path, position)
        checked = inspect_files(store)
        assert checked.damages or position >= last.position, position
        assert checked.damages or checked.remarks, position
        path.write_bytes(whole)
    flip(path, 0)
    assert f"{path.name} at byte 0: it can't be read; the next start makes it anew" in inspect_files(store).damages


def test_a_catalogue_set_aside_by_a_server_is_damage(store: Path) -> None:
    catalogue(store).with_suffix(".damaged").touch()
    assert "was set aside when a server found it damaged" in inspect_files(store).damages[0]
