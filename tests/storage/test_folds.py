"""Folding the journal into LMDB when something fails on the way: nothing is taken in twice, nothing is forgotten."""

from pathlib import Path

import pytest

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import OsDisk, StoreError
from everbrook.storage.acid.shard import Fold
from tests.storage.checking import mortal
from tests.storage.drafts import Draft
from tests.storage.folding import HeldAcid


class StuckDisk(OsDisk):
    """A disk from which nothing can be removed while it is stuck."""

    stuck = False

    def remove(self, path: Path) -> None:
        if self.stuck:
            raise PermissionError(path)
        super().remove(path)


def open_acid(folder: Path, disk: OsDisk | None = None, shard_count: int = 1) -> HeldAcid:
    return HeldAcid(folder, disk, shard_count=shard_count, fold_at_bytes=1)


def commit(storage: HeldAcid, draft: Draft, data: bytes) -> None:
    change = (draft.write(data),)
    storage.persist([change])
    storage.apply([change])
    storage.background.finish()


def test_a_fold_that_is_tried_again_takes_nothing_in_twice(tmp_path: Path) -> None:
    disk, stream = StuckDisk(), Draft(b"a", 1)
    storage = open_acid(tmp_path, disk)
    disk.stuck = True
    for number in range(5):
        commit(storage, stream, b"%d" % number)
    disk.stuck = False
    for number in range(5, 9):
        commit(storage, stream, b"%d" % number)
    storage.close()
    again = open_acid(tmp_path)
    assert again.read(1, 0, 9) == b"012345678"
    again.close()


def test_a_shard_that_cannot_commit_does_not_hold_up_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage, stream = open_acid(tmp_path, shard_count=4), Draft(b"a", 1)
    committed: list[int] = []
    commit_shard = Fold.commit

    def fail_once(fold: Fold, number: int) -> None:
        committed.append(number)
        if len(committed) == 2:
            raise OSError(28, "No space left on device")
        commit_shard(fold, number)

    monkeypatch.setattr(Fold, "commit", fail_once)
    for number in range(6):
        commit(storage, stream, b"%d" % number)
    storage.close()
    again = open_acid(tmp_path, shard_count=4)
    assert again.read(1, 0, 6) == b"012345"
    again.close()


def test_a_store_can_be_closed_when_a_fold_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, stream = open_acid(tmp_path), Draft(b"a", 1)

    def fail(_fold: Fold, _number: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Fold, "commit", fail)
        commit(storage, stream, b"one")
        storage.close()
    again = open_acid(tmp_path)
    assert again.read(1, 0, 3) == b"one"
    again.close()


def test_a_stream_of_which_a_part_was_lost_stays_damaged_when_the_journal_is_gone(tmp_path: Path) -> None:
    stream = Draft(b"a", 1)
    storage = HeldAcid(tmp_path)
    for data in (b"one", b"LOST", b"three"):
        storage.persist([(stream.write(data),)])
    storage.close()
    [path] = (tmp_path / "journal").glob("*.log")
    path.write_bytes(path.read_bytes().replace(b"LOST", b"lost"))
    open_acid(tmp_path).close()
    again = open_acid(tmp_path)
    with pytest.raises(StreamDamaged):
        again.load(b"a")
    again.close()


def test_a_shard_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    storage = open_acid(tmp_path, shard_count=2)
    for number in range(1, 9):
        commit(storage, Draft(b"%d" % number, number), b"x")
    storage.close()
    for path in (tmp_path / "shard-001").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match=r"shard-001/data\.mdb can't be opened: it is missing"):
        open_acid(tmp_path, shard_count=2)


def test_a_store_without_its_manifest_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    open_acid(tmp_path).close()
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(StoreError, match="without its manifest"):
        open_acid(tmp_path)


def test_streams_that_were_dropped_do_not_hide_the_mortal_ones_behind_them(tmp_path: Path) -> None:
    storage = HeldAcid(tmp_path)
    streams = [mortal(b"%d" % number, number) for number in range(1, 4)]
    for stream in streams:
        commit(storage, stream, b"x")
    storage.close()
    again = HeldAcid(tmp_path)
    dropped = [(stream.drop(),) for stream in streams[:2]]
    again.persist(dropped)
    again.apply(dropped)
    assert [head.identity.incarnation for head in again.mortal(0, 2)] == [3]
    again.close()
