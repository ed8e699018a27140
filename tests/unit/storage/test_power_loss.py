"""`file-fast` after its machine went down: a prefix of what was written, with a word about it. Without that, damage."""

from pathlib import Path

import pytest

from everbrook.storage import FILE_DURABLE, FILE_FAST
from everbrook.storage.check import known_damage
from tests.kit.damage import cut
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed


def lost_middle(folder: Path) -> tuple[Path, Draft]:
    """Leave a journal of ten changes, of which those from the fifth to the eighth were never written."""
    storage, stream = HeldStorage(folder / "store", mode=FILE_FAST, boot="first"), Draft(b"a", 1)
    for number in range(10):
        commit(storage, (stream.write(b"%d" % number * 100),))
    storage.seal()
    copy = killed(storage, folder / "copy")
    storage.close()
    [path] = journal_files(copy)
    log = bytearray(path.read_bytes())
    start, end = log.index(b"4" * 100), log.index(b"7" * 100)
    log[start - 50 : end + 100] = bytes(end + 150 - start)
    path.write_bytes(log)
    return copy, stream


def test_after_another_boot_a_prefix_is_taken(tmp_path: Path) -> None:
    copy, stream = lost_middle(tmp_path)
    storage = HeldStorage(copy, mode=FILE_FAST, boot="second")
    record = storage.load(b"a")
    assert record
    assert (record.head.tail, record.damage) == (400, None)
    assert storage.read(1, 0, 400) == stream.data[:400]
    assert (storage.damages, storage.refusal, storage.damaged_streams) == ([], None, 0)
    assert storage.remarks == ["the machine has been restarted since the last changes; those after 4 are lost"]
    storage.close()


def test_a_prefix_is_built_upon_and_what_was_behind_it_never_comes_back(tmp_path: Path) -> None:
    copy, _ = lost_middle(tmp_path)
    storage = HeldStorage(copy, mode=FILE_FAST, boot="second")
    other = Draft(b"b", 2)
    for number in range(3):
        commit(storage, (other.write(b"%d" % number),))
    again = killed(storage, tmp_path / "again")
    storage.close()
    storage = HeldStorage(again, mode=FILE_FAST, boot="second")
    assert (storage.read(1, 0, 400)[-1:], storage.read(2, 0, 3)) == (b"3", b"012")
    assert (storage.damages, storage.refusal) == ([], None)
    storage.close()


def test_a_prefix_is_no_known_damage(tmp_path: Path) -> None:
    copy, _ = lost_middle(tmp_path)
    assert known_damage(copy, boot="second").refusal is None
    assert known_damage(copy, boot="first").refusal


def test_in_the_same_boot_it_is_damage(tmp_path: Path) -> None:
    copy, _ = lost_middle(tmp_path)
    storage = HeldStorage(copy, mode=FILE_FAST, boot="first")
    assert storage.refusal
    assert [damage.problem for damage in storage.damages] == ["changes 5 to 8 are missing"]
    storage.close()


def test_in_the_same_boot_a_journal_that_is_shorter_is_damage(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path / "store", mode=FILE_FAST, boot="first")
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [path] = journal_files(copy)
    cut(path, 4_096)
    storage = HeldStorage(copy, mode=FILE_FAST, boot="first")
    assert storage.refusal
    storage.close()
    storage = HeldStorage(copy, mode=FILE_FAST, boot="second")
    assert (storage.refusal, storage.damages, storage.read(1, 0, 1)) == (None, [], b"x")
    storage.close()


def test_a_missing_journal_is_a_loss_after_another_boot_and_damage_in_the_same(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path / "store", mode=FILE_FAST, boot="first", checkpoint_bytes=1), Draft(b"a", 1)
    commit(storage, (stream.write(b"in the base"),))
    storage.settle()
    commit(storage, (stream.write(b", lost"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    for path in journal_files(copy):
        path.unlink()
    storage = HeldStorage(copy, mode=FILE_FAST, boot="first")
    assert storage.refusal
    storage.close()
    storage = HeldStorage(copy, mode=FILE_FAST, boot="second")
    assert (storage.refusal, storage.read(1, 0, 11)) == (None, b"in the base")
    storage.close()


@pytest.mark.parametrize("boot", ["first", "second"])
def test_a_durable_store_has_everything_after_any_boot(tmp_path: Path, boot: str) -> None:
    storage, stream = HeldStorage(tmp_path / "store", mode=FILE_DURABLE, boot="first"), Draft(b"a", 1)
    for number in range(5):
        commit(storage, (stream.write(b"%d" % number),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    storage = HeldStorage(copy, mode=FILE_FAST, boot=boot)
    assert (storage.read(1, 0, 5), storage.remarks) == (b"01234", [])
    storage.close()


def test_a_durable_store_that_lost_changes_is_damaged_after_any_boot(tmp_path: Path) -> None:
    copy, _ = lost_middle(tmp_path)
    HeldStorage(copy, mode=FILE_FAST, boot="second").close()
    storage, stream = HeldStorage(tmp_path / "durable", mode=FILE_DURABLE, boot="first"), Draft(b"a", 1)
    for number in range(3):
        commit(storage, (stream.write(b"%d" % number * 100),))
    again = killed(storage, tmp_path / "again")
    storage.close()
    [path] = journal_files(again)
    cut(path, 100)
    storage = HeldStorage(again, mode=FILE_DURABLE, boot="second")
    assert storage.refusal
    storage.close()
