"""Segments that a checkpoint has begun and that the base never referred to: what is certainly that is removed."""

import shutil
from pathlib import Path

import pytest

from everbrook.storage import FILE_DURABLE, FILE_FAST, DurableMode
from everbrook.storage.base_rows import PLACE
from everbrook.storage.segments import segment_path
from tests.kit.damage import rows
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit, inspect
from tests.unit.storage.checkpoints import HeldStorage, killed, segments

CHUNK_BYTES = 100


def opened(folder: Path, mode: DurableMode = FILE_DURABLE, boot: str = "") -> HeldStorage:
    return HeldStorage(folder, mode=mode, boot=boot, chunk_bytes=CHUNK_BYTES)


def cut_off(folder: Path, mode: DurableMode = FILE_DURABLE) -> tuple[Path, Draft, Draft]:
    """Leave a store whose checkpoint has written its segments, and has not been committed.

    The base has a part of the old stream, and nothing of the new one.
    """
    storage, old, new = opened(folder / "store", mode, "first"), Draft(b"old", 1), Draft(b"new", 2)
    commit(storage, (old.write(b"x" * 300),))
    storage.close()
    storage = opened(folder / "store", mode, "first")
    commit(storage, (old.write(b"y" * 300),), (new.write(b"z" * 300),))
    copy = killed(storage, folder / "copy")
    storage.close()
    shutil.rmtree(copy / "streams")
    shutil.copytree(folder / "store" / "streams", copy / "streams")
    return copy, old, new


def left(folder: Path) -> list[str]:
    return [path.name for path in segments(folder)]


def test_a_store_is_left_without_them(tmp_path: Path) -> None:
    copy, old, new = cut_off(tmp_path)
    assert len(left(copy)) == 2
    storage = opened(copy)
    storage.background.finish()
    assert left(copy) == [segment_path(copy, 1, 0).name]
    commit(storage, (new.drop(),))
    assert storage.read(1, 0, 600) == old.data
    storage.close()
    checked = inspect(copy)
    assert (checked.damages, checked.remarks) == ([], [])


@pytest.mark.parametrize("boot", ["first", "second"])
def test_so_is_one_whose_journal_ended_with_the_machine(tmp_path: Path, boot: str) -> None:
    copy, _, _ = cut_off(tmp_path, FILE_FAST)
    if boot == "second":
        for path in (copy / "journal").iterdir():
            path.unlink()
    storage = opened(copy, FILE_FAST, boot)
    storage.background.finish()
    assert left(copy) == [segment_path(copy, 1, 0).name]
    storage.close()


def test_what_the_base_may_refer_to_stays(tmp_path: Path) -> None:
    """A row that is lost may be about a segment that nothing refers to."""
    copy, _, _ = cut_off(tmp_path)
    with rows(copy) as there:
        there.delete(b"chunks", PLACE.pack(1, 0))
    kept = segment_path(copy / "streams", 1, 400)
    shutil.copy(segment_path(copy / "streams", 1, 0), kept)
    storage = opened(copy)
    storage.background.finish()
    assert kept.exists()
    storage.close()


def test_a_file_between_the_segments_of_a_stream_stays(tmp_path: Path) -> None:
    copy, _, _ = cut_off(tmp_path)
    between = segment_path(copy / "streams", 1, 100)
    shutil.copy(segment_path(copy / "streams", 1, 0), between)
    storage = opened(copy)
    storage.background.finish()
    assert between.exists()
    storage.close()


def test_a_pin_keeps_them_since_their_names_may_be_used_again(tmp_path: Path) -> None:
    copy, _, new = cut_off(tmp_path)
    storage = HeldStorage(copy, mode=FILE_DURABLE, chunk_bytes=CHUNK_BYTES, checkpoint_bytes=1)
    storage.background.finish()
    pin = storage.pin()
    storage.settle()
    commit(storage, (new.write(b"more"),))
    storage.settle()
    pin.release()
    storage.settle()
    assert storage.read(2, 0, 304) == new.data
    storage.close()


def test_a_checkpoint_that_fails_removes_what_it_has_begun(tmp_path: Path) -> None:
    disk, stream = WatchedDisk(), Draft(b"a", 1)
    storage = HeldStorage(tmp_path, disk, FILE_DURABLE, chunk_bytes=CHUNK_BYTES, checkpoint_bytes=1)
    held = storage.background.hold()
    commit(storage, (stream.write(b"x" * 300),))
    disk.fails_sync_of = "streams"
    held.set()
    storage.background.finish()
    assert segments(tmp_path) == []
    storage.settle()
    assert storage.read(1, 0, 300) == stream.data
    assert len(segments(tmp_path)) == 1
    storage.close()
