"""Damage of a stream is met by whoever reads it, is remembered, and goes with the stream."""

from collections.abc import Callable
from pathlib import Path

import pytest

from everbrook.protocol import Producer
from everbrook.storage import (
    ACID,
    FILE_DURABLE,
    DamageMark,
    DurableMode,
    JournalTuning,
    OsDisk,
    Record,
    StorageFull,
    StoreError,
)
from everbrook.storage.base_rows import INCARNATION, PLACE
from everbrook.storage.chunk import BLOCK_BYTES
from everbrook.storage.damage import Damaged
from everbrook.storage.journal import Journal
from everbrook.storage.journal_scan import Needed, read_journal
from tests.kit.damage import flip, rows
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed

MODES = pytest.mark.parametrize("mode", [ACID, FILE_DURABLE], ids=["acid", "file"])


def damaged_store(folder: Path) -> Draft:
    """Make a store of which the second block of the second chunk of a stream is damaged."""
    storage, stream = HeldStorage(folder, chunk_bytes=20_000), Draft(b"a", 1)
    commit(storage, *((stream.write(bytes([number]) * 1_000),) for number in range(60)))
    commit(storage, (Draft(b"b", 2).write(b"whole"),))
    storage.close()
    with rows(folder) as changed:
        changed.flip(b"chunks", PLACE.pack(1, 20_000), 1 + BLOCK_BYTES + 7)
    return stream


def test_only_the_damaged_block_is_lost(tmp_path: Path) -> None:
    stream = damaged_store(tmp_path)
    storage, start = HeldStorage(tmp_path), 20_000 + BLOCK_BYTES
    assert storage.read(1, 0, start) == stream.data[:start]
    assert storage.read(1, start + BLOCK_BYTES, 60_000) == stream.data[start + BLOCK_BYTES :]
    assert storage.damaged_streams == 0
    with pytest.raises(Damaged, match=r"damaged from offset 28192 on: base/data\.mdb chunks 0{15}10{12}4e20") as raised:
        storage.read(1, 0, 60_000)
    assert (raised.value.incarnation, raised.value.mark.offset) == (1, start)
    assert storage.read(2, 0, 5) == b"whole"
    storage.close()


def test_a_mark_survives_checkpoints_and_reopening(tmp_path: Path) -> None:
    damaged_store(tmp_path)
    storage = HeldStorage(tmp_path, checkpoint_bytes=1)
    with pytest.raises(Damaged):
        storage.read(1, 0, 60_000)
    record = storage.load(b"a")
    assert record
    assert record.damage
    assert record.damage.offset == 20_000 + BLOCK_BYTES
    for number in range(3, 6):
        commit(storage, (Draft(b"%d" % number, number).write(b"x"),))
        storage.settle()
        assert storage.load(b"a") == record
    storage.close()
    for _ in range(2):
        storage = HeldStorage(tmp_path)
        assert (storage.damaged_streams, storage.load(b"a")) == (1, record)
        storage.close()


@pytest.mark.parametrize("reopened", [False, True])
def test_dropping_a_stream_removes_its_mark(tmp_path: Path, *, reopened: bool) -> None:
    stream = damaged_store(tmp_path)
    storage = HeldStorage(tmp_path)
    with pytest.raises(Damaged):
        storage.read(1, 0, 60_000)
    if reopened:
        storage.close()
        storage = HeldStorage(tmp_path)
    commit(storage, (stream.drop(),))
    for _ in range(2):
        assert (storage.damaged_streams, storage.load(b"a")) == (0, None)
        storage.close()
        storage = HeldStorage(tmp_path)
    storage.close()


def test_nothing_of_a_damaged_stream_is_let_go(tmp_path: Path) -> None:
    stream = damaged_store(tmp_path)
    storage = HeldStorage(tmp_path)
    with pytest.raises(Damaged):
        storage.read(1, 0, 60_000)
    commit(storage, (stream.cut(stream.head.tail),))
    storage.discard(1)
    storage.close()
    storage = HeldStorage(tmp_path)
    assert storage.stored_bytes(1) == 60_000
    storage.close()


def test_a_stream_without_its_head_is_damaged_as_a_whole(tmp_path: Path) -> None:
    damaged_store(tmp_path)
    with rows(tmp_path) as changed:
        changed.flip(b"streams", INCARNATION.pack(2))
    storage = HeldStorage(tmp_path)
    record = storage.load(b"b")
    assert record
    assert record.damage
    assert (record.damage.offset, record.head.identity.name, record.head.identity.incarnation) == (0, b"b", 2)
    assert storage.scan(b"", b"", 10)[1] == (b"b", None)
    storage.close()


def test_damage_to_producers_leaves_the_bytes_readable(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path), Draft(b"a", 1)
    commit(storage, (stream.write(b"one", producer=(b"p", Producer(1, 2, 3))),))
    storage.close()
    with rows(tmp_path) as changed:
        changed.flip(b"producers", INCARNATION.pack(1) + b"p")
    storage = HeldStorage(tmp_path)
    record = storage.load(b"a")
    assert record
    assert record.damage
    assert (record.damage.offset, record.producers, storage.read(1, 0, 3)) == (3, {}, b"one")
    storage.close()


def test_a_mark_that_is_damaged_itself_leaves_nothing_readable(tmp_path: Path) -> None:
    damaged_store(tmp_path)
    storage = HeldStorage(tmp_path)
    with pytest.raises(Damaged):
        storage.read(1, 0, 60_000)
    storage.close()
    with rows(tmp_path) as changed:
        changed.flip(b"damaged", INCARNATION.pack(1))
    storage = HeldStorage(tmp_path)
    record = storage.load(b"a")
    assert record
    assert record.damage == DamageMark(0, "the row that describes its damage is damaged too")
    storage.close()


# The journal


def journaled(folder: Path, mode: DurableMode = ACID) -> tuple[Path, list[Draft]]:
    """Leave three changes of one stream, and one of another, in a sealed journal. Gives a copy of the store."""
    storage = HeldStorage(folder / "store", mode=mode)
    one, two = Draft(b"a", 1), Draft(b"b", 2)
    for change in ((one.write(b"first"),), (one.write(b"LOST"),), (one.write(b"third"),), (two.write(b"other"),)):
        commit(storage, change)
    storage.seal()
    copy = killed(storage, folder / "copy")
    storage.close()
    return copy, [one, two]


@MODES
def test_a_lost_change_ends_its_stream_and_no_other(tmp_path: Path, mode: DurableMode) -> None:
    copy, (_, two) = journaled(tmp_path, mode)
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"LOST"))
    for _ in range(3):
        storage = HeldStorage(copy, mode=mode, checkpoint_bytes=1)
        record = storage.load(b"a")
        assert record
        assert record.damage
        assert (record.damage.offset, record.head.tail, storage.read(1, 0, 5)) == (5, 5, b"first")
        assert "change 2 can't be read" in record.damage.reason
        assert (storage.load(b"b"), storage.damaged_streams, storage.refusal) == (Record(two.head, {}), 1, None)
        commit(storage, (two.write(b"x"),))
        storage.close()


def test_a_flip_in_the_last_change_of_a_stream_is_told_after_a_seal(tmp_path: Path) -> None:
    copy, _ = journaled(tmp_path)
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"other"))
    storage = HeldStorage(copy)
    [damage] = storage.damages
    assert damage.streams == (2,)
    assert (storage.load(b"b"), storage.damaged_streams) == (None, 1)
    assert storage.read(1, 0, 14) == b"firstLOSTthird"
    storage.close()


def test_a_torn_write_is_kept_aside_and_reported(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path / "store"), Draft(b"a", 1)
    commit(storage, (stream.write(b"first"),))
    storage.persist([(stream.write(b"never acknowledged"),)])
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"never"), bit=5)
    storage = HeldStorage(copy)
    assert (storage.read(1, 0, 5), storage.damages, storage.damaged_streams) == (b"first", [], 0)
    [kept] = (copy / "lost+found").iterdir()
    assert b"Never acknowledged" in kept.read_bytes()
    [remark] = storage.remarks
    assert "never acknowledged was cut off" in remark
    assert f"streams: {1:016x}" in remark
    storage.close()
    storage = HeldStorage(copy)
    assert storage.remarks == []
    storage.close()


def test_a_torn_write_that_there_is_no_room_for_is_reported_all_the_same(tmp_path: Path) -> None:
    storage, disk = HeldStorage(tmp_path / "store"), WatchedDisk()
    commit(storage, (Draft(b"a", 1).write(b"never"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"never"))
    disk.room_bytes = 10
    storage = HeldStorage(copy, disk)
    assert "its bytes could not be kept: No space left on device" in storage.remarks[0]
    assert storage.load(b"a") is None
    storage.close()


def test_a_record_of_unknown_kind_is_refused_in_words(tmp_path: Path) -> None:
    """Its checksum is right: a later version has written it, or the code is wrong. Nothing may be skipped."""
    HeldStorage(tmp_path).close()
    folder = tmp_path / "journal"
    recovered = read_journal(OsDisk(), folder, 7, 0, Needed())
    journal = Journal(OsDisk(), folder, 7, recovered, sync=True, tuning=JournalTuning(first_file_bytes=1 << 16))
    journal.append(journal.frame([((1,), b"\x09")], 0))
    journal.close(trimmed=False)
    with pytest.raises(StoreError, match="change 1 of the journal can't be read, though its checksum is right"):
        HeldStorage(tmp_path)


def test_a_stream_that_was_made_and_lost_in_the_journal_leaves_no_mark_when_it_is_dropped(tmp_path: Path) -> None:
    copy, (one, _) = journaled(tmp_path)
    [path] = journal_files(copy)
    flip(path, path.read_bytes().index(b"LOST"))
    storage = HeldStorage(copy)
    assert storage.damaged_streams == 1
    commit(storage, (one.drop(),))
    storage.close()
    storage = HeldStorage(copy)
    assert (storage.damaged_streams, storage.load(b"a")) == (0, None)
    storage.close()


def lose_file(path: Path) -> None:
    path.unlink()


def lose_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lose_frame(path: Path) -> None:
    data = bytearray(path.read_bytes())
    place = data.index(b"LOST")
    data[place - 60 : place + 4] = bytes(64)
    path.write_bytes(data)


@MODES
@pytest.mark.parametrize("lose", [lose_file, lose_end, lose_frame])
def test_a_loss_of_which_nobody_knows_the_streams_refuses_changes_until_it_is_repaired(
    tmp_path: Path, mode: DurableMode, lose: Callable[[Path], None]
) -> None:
    """Also after another start: what is lost does not come back by itself."""
    copy, _ = journaled(tmp_path, mode)
    [path] = journal_files(copy)
    lose(path)
    for _ in range(3):
        storage = HeldStorage(copy, mode=mode)
        assert storage.damages
        assert storage.refusal
        assert "run everbrook repair" in storage.refusal
        with pytest.raises(StorageFull, match="run everbrook repair"):
            storage.persist([(Draft(b"c", 3).write(b"x"),)])
        storage.close()


def test_a_refused_store_can_be_read(tmp_path: Path) -> None:
    copy, _ = journaled(tmp_path)
    [path] = journal_files(copy)
    lose_frame(path)
    storage = HeldStorage(copy)
    assert (storage.read(1, 0, 5), storage.read(2, 0, 5)) == (b"first", b"other")
    record = storage.load(b"a")
    assert record
    assert record.damage == DamageMark(5, "a change before this one is lost")
    storage.close()
