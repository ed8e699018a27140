"""A file that holds one offset: whatever happens to whoever writes it, it holds an old one or a new one."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everbrook.client.offsets import FileOffsets

SAVING_FOR_EVER = """
import sys
from everbrook.client.offsets import FileOffsets
offsets = FileOffsets(sys.argv[1])
print("begun", flush=True)
number = 0
while True:
    number += 1
    offsets.save(f"{number:0200d}")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reader.offset"


def test_an_offset_outlives_its_run(path: Path) -> None:
    FileOffsets(path).save("0042")
    FileOffsets(path).save("0043")
    assert FileOffsets(str(path)).load() == "0043"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_without_a_file_there_is_no_offset(path: Path) -> None:
    assert FileOffsets(path).load() is None


def test_an_empty_file_is_no_offset(path: Path) -> None:
    path.write_text("\n")
    assert FileOffsets(path).load() is None


@pytest.mark.parametrize("content", [b"\xff\xfe", b"two words", b"a\nb"])
def test_a_file_of_something_else_is_named(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path} must hold an offset, got "):
        FileOffsets(path).load()


def test_a_folder_that_is_not_there_is_noticed_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        FileOffsets(tmp_path / "missing" / "offset").load()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_offset_and_no_litter(path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    FileOffsets(path).save("0042")
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="the disk is full"):
        FileOffsets(path).save("0043")
    assert FileOffsets(path).load() == "0042"
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_run_that_is_killed_leaves_a_whole_offset(path: Path) -> None:
    for _ in range(5):
        command = [sys.executable, "-c", SAVING_FOR_EVER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as saving:
            assert saving.stdout is not None
            saving.stdout.readline()
            while not path.exists():
                pass
            saving.kill()
        assert len(FileOffsets(path).load() or "") == 200


def test_many_at_once_do_not_get_in_each_others_way(path: Path) -> None:
    offsets, failures = FileOffsets(path), []

    def save(name: str) -> None:
        try:
            for _ in range(50):
                offsets.save(name * 100)
                assert len({*(offsets.load() or "")}) == 1
        except Exception as error:  # noqa: BLE001 - shown by the test
            failures.append(error)

    threads = [threading.Thread(target=save, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
