"""The lock of a folder: it keeps others away for as long as its name leads to the file that is locked."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.file_lock import LockHeld
from everbrook.storage import FILE_DURABLE, DurableStorage, MemoryStorage, OsDisk, Storage, StoreError
from everbrook.storage.disk import OsLock, lost_lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def open_acid(folder: Path) -> DurableStorage:
    return DurableStorage(OsDisk(), folder, salt=1)


def open_files(folder: Path) -> DurableStorage:
    return DurableStorage(OsDisk(), folder, FILE_DURABLE, salt=1)


def test_a_lock_is_held_until_its_file_is_removed(path: Path) -> None:
    lock = OsLock(path)
    assert lock.held()
    path.unlink()
    assert not lock.held()


def test_a_lock_whose_file_was_replaced_is_not_held(path: Path) -> None:
    lock = OsLock(path)
    path.with_suffix(".new").write_text("")
    path.with_suffix(".new").replace(path)
    assert not lock.held()


def test_a_lock_whose_folder_was_moved_is_not_held(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    lock = OsLock(tmp_path / "store" / "lock")
    (tmp_path / "store").rename(tmp_path / "moved")
    assert not lock.held()
    (tmp_path / "store").write_text("")
    assert not lock.held()


def test_who_may_not_look_still_holds_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = OsLock(tmp_path / "lock")

    def forbid(_path: Path) -> os.stat_result:
        raise PermissionError

    monkeypatch.setattr(Path, "stat", forbid)
    assert lock.held()


def test_a_second_lock_names_the_process_of_the_first(path: Path) -> None:
    lock = OsLock(path)
    with pytest.raises(LockHeld) as refused:
        OsLock(path)
    assert refused.value.owner == os.getpid()
    lock.release()
    OsLock(path).release()


def test_a_file_that_is_replaced_while_it_is_locked_is_locked_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that opened the old file gets its lock, which keeps nobody away."""
    open_file, times = os.open, []

    def open_and_lose(*args: object, **named: object) -> int:
        descriptor = open_file(*args, **named)  # type: ignore[arg-type]
        times.append(descriptor)
        if len(times) == 1:
            path.unlink()
        return descriptor

    monkeypatch.setattr(os, "open", open_and_lose)
    lock = OsLock(path)
    assert (len(times), lock.held()) == (2, True)


def test_what_is_lost_is_named(path: Path) -> None:
    lock = OsLock(path)
    assert lost_lock(lock) is None
    path.unlink()
    assert lost_lock(lock) == f"{path} was removed or replaced, so that another server may use the store"


@pytest.mark.parametrize("open_store", [open_acid, open_files])
def test_a_store_tells_that_it_has_lost_its_folder(open_store: Callable[[Path], Storage], tmp_path: Path) -> None:
    storage = open_store(tmp_path / "store")
    assert storage.verify() is None
    with pytest.raises(StoreError, match="is in use by another server"):
        open_store(tmp_path / "store")
    (tmp_path / "store" / "lock").unlink()
    assert "lock was removed or replaced" in str(storage.verify())
    storage.close()


def test_memory_has_no_folder_to_lose() -> None:
    assert MemoryStorage().verify() is None
