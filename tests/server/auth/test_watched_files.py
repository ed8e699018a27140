"""Files of keys: read again when they change, and never to the worse."""

import logging
from pathlib import Path

import pytest

from everbrook.server.auth.key_file import WatchedFile
from everbrook.server.tuning import WatchTuning
from everbrook.settings import SettingsError


def parse(text: bytes) -> str:
    if text.startswith(b"bad"):
        raise ValueError("it is bad")
    if text.startswith(b"odd"):
        raise TypeError(f"nobody thought of {text!r}")
    return text.decode()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "keys"
    file.write_text("one")
    return file


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def file(path: Path, clock: list[float]) -> WatchedFile[str]:
    return WatchedFile(str(path), parse, setting="auth.keys", clock=lambda: clock[0])


def test_a_change_is_seen_within_a_second(file: WatchedFile[str], path: Path, clock: list[float]) -> None:
    path.write_text("three")
    clock[0] = 0.9
    assert file.value == "one"
    clock[0] = 1.0
    assert (file.value, file.generation) == ("three", 1)


def test_a_file_that_is_replaced_by_one_of_the_same_size_is_a_change(file: WatchedFile[str], path: Path) -> None:
    beside = path.with_name("new")
    beside.write_text("two")
    beside.replace(path)
    file.refresh()
    assert file.value == "two"


@pytest.mark.parametrize("spoil", [lambda path: path.write_text("bad text"), lambda path: path.unlink()])
def test_a_bad_new_file_is_said_once_and_the_old_text_stays(
    file: WatchedFile[str], path: Path, spoil: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(spoil)
    spoil(path)
    for _ in range(3):
        file.refresh()
    assert (file.value, file.generation) == ("one", 0)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_new_file_that_nobody_thought_of_leaves_the_old_text_and_is_not_shown(
    file: WatchedFile[str], path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.write_text("odd secret")
    file.refresh()
    assert file.value == "one"
    assert "TypeError" in caplog.text
    assert "secret" not in caplog.text


def test_a_file_that_is_mended_is_taken(file: WatchedFile[str], path: Path) -> None:
    path.write_text("bad text")
    file.refresh()
    path.write_text("mended")
    file.refresh()
    assert file.value == "mended"


def test_the_first_reading_must_succeed(path: Path) -> None:
    path.write_text("bad text")
    with pytest.raises(SettingsError, match=r"auth\.keys: .*keys can't be used: it is bad"):
        WatchedFile(str(path), parse, setting="auth.keys")
    with pytest.raises(SettingsError, match="can't be used: No such file"):
        WatchedFile(str(path) + "x", parse, setting="auth.keys")


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(SettingsError, match="more than 1000 bytes"):
        WatchedFile("/dev/zero", parse, setting="auth.keys", tuning=WatchTuning(max_file_bytes=1000))


def test_a_reload_reads_what_has_not_changed_too(file: WatchedFile[str]) -> None:
    file.reload()
    assert (file.value, file.generation) == ("one", 1)


def test_a_reload_of_what_can_not_be_used_is_an_error_each_time(file: WatchedFile[str], path: Path) -> None:
    path.write_text("bad text")
    for _ in range(2):
        with pytest.raises(ValueError, match="can't be used"):
            file.reload()
    assert file.value == "one"
