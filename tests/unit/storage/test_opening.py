"""Opening a store of which a part is gone, or that never was one: refused in words, and never taken for empty."""

import random
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from everbrook.storage import ACID, FILE_DURABLE, FILE_FAST, DurableMode, OsDisk, StorageFull, StoreError
from everbrook.storage.lmdb_pages import problem_of
from everbrook.storage.manifest import open_folder
from tests.kit.damage import cut, flip, rows
from tests.kit.disks import WatchedDisk
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, killed

PAGE_BYTES = 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The LMDB file of a store with a stream in it."""
    storage = HeldStorage(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"x" * 100_000),))
    storage.close()
    return tmp_path / "base" / "data.mdb"


def cut_off(size: int) -> Callable[[Path], object]:
    return lambda path: cut(path, size)


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (cut_off(0), "it is empty"),
        (cut_off(100), "its pages can't be read"),
        (cut_off(PAGE_BYTES + 20), "its pages can't be read"),
        (cut_off(2 * PAGE_BYTES), "it has 2 of its "),
        (cut_off(9 * PAGE_BYTES), "it has 9 of its "),
        (cut_off(-1), "of its "),
        (lambda path: path.write_bytes(bytes(50_000)), "it is not a file of LMDB"),
        (Path.unlink, "it is missing"),
    ],
)
def test_a_base_that_is_not_whole_is_refused(data: Path, spoil: Callable[[Path], object], problem: str) -> None:
    spoil(data)
    with pytest.raises(StoreError, match=rf"base/data\.mdb can't be opened: .*{problem}"):
        HeldStorage(data.parents[1])


def test_a_store_without_its_journal_is_refused(data: Path) -> None:
    (data.parents[1] / "journal").rmdir()
    with pytest.raises(StoreError, match="holds a store without its journal"):
        HeldStorage(data.parents[1])


def test_a_store_that_is_refused_can_be_opened_when_it_is_whole_again(data: Path) -> None:
    whole = data.read_bytes()
    data.write_bytes(b"")
    with pytest.raises(StoreError):
        HeldStorage(data.parents[1])
    data.write_bytes(whole)
    storage = HeldStorage(data.parents[1])
    assert storage.read(1, 0, 100_000) == b"x" * 100_000
    storage.close()


@pytest.mark.parametrize("left", [None, b"", b"\0" * 100, b"\0" * 5000])
def test_a_store_whose_making_was_cut_off_is_made(tmp_path: Path, left: bytes | None) -> None:
    """The folder of the journal is made last."""
    HeldStorage(tmp_path).close()
    (tmp_path / "journal").rmdir()
    data = tmp_path / "base" / "data.mdb"
    data.unlink()
    if left is not None:
        data.write_bytes(left)
    storage = HeldStorage(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    storage.close()
    storage = HeldStorage(tmp_path)
    assert storage.read(1, 0, 1) == b"x"
    storage.close()


def test_free_pages_that_were_never_written_are_not_missed(tmp_path: Path) -> None:
    """LMDB leaves those at the end of its file out that it gave up in the transaction that took them."""
    chance, shorter = random.Random(1), 0
    env = lmdb.open(str(tmp_path), map_size=1 << 30)
    stored = {b"%08d" % number: chance.randbytes(chance.randrange(2000)) for number in range(300)}
    for _ in range(60):
        with env.begin(write=True) as transaction:
            for key, value in chance.sample(sorted(stored.items()), 100):
                transaction.put(key, value)
            transaction.put(b"large", chance.randbytes(100_000))
            transaction.delete(b"large")
            for key in chance.sample(sorted(stored), chance.randrange(200)):
                transaction.delete(key)
        shorter += (tmp_path / "data.mdb").stat().st_size // PAGE_BYTES <= env.info()["last_pgno"]
        assert problem_of(tmp_path / "data.mdb") is None
    env.close()
    assert shorter


def test_what_lmdb_refuses_is_refused_in_words(data: Path) -> None:
    content = bytearray(data.read_bytes())
    for page in (0, 1):
        content[page * PAGE_BYTES + 20] ^= 0xFF
    data.write_bytes(content)
    assert problem_of(data) is None
    with pytest.raises(StoreError, match=r"data\.mdb can't be opened: "):
        HeldStorage(data.parents[1])


@pytest.mark.parametrize("key", [b"applied", b"incarnation", b"journal", b"opened", b"manifest"])
def test_a_base_that_does_not_know_itself_is_refused(data: Path, key: bytes) -> None:
    with rows(data.parents[1]) as changed:
        changed.flip(b"meta", key)
    with pytest.raises(StoreError, match=r"data\.mdb is damaged: .*its checksum is wrong"):
        HeldStorage(data.parents[1])


# Folders and manifests


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(StoreError, match="file can't be used as a folder for a store: File exists"):
        open_folder(OsDisk(), file)
    with pytest.raises(StoreError, match="acid can't be used as a folder for a store: Not a directory"):
        HeldStorage(file / "acid")


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, lambda path: path.write_bytes(b""), lambda path: flip(path, 3), lambda path: cut(path, 12)],
    ids=["missing", "empty", "flipped", "cut"],
)
def test_a_damaged_manifest_is_restored_from_its_copy(
    data: Path, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    manifest = data.parents[1] / "manifest.json"
    whole = manifest.read_bytes()
    spoil(manifest)
    storage = HeldStorage(data.parents[1])
    assert storage.read(1, 0, 5) == b"xxxxx"
    assert "restored from its copy" in caplog.text
    storage.close()
    assert manifest.read_bytes() == whole


@pytest.mark.parametrize("field, other", [(b'"format":2', b'"format":3'), (b'"acid"', b'"afid"')])
def test_a_manifest_of_another_kind_is_restored_from_its_copy(data: Path, field: bytes, other: bytes) -> None:
    manifest = data.parents[1] / "manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(field, other))
    HeldStorage(data.parents[1]).close()
    assert manifest.read_bytes() == whole


def test_a_flipped_salt_is_not_believed(tmp_path: Path) -> None:
    """It would turn all of the journal into torn bytes."""
    storage = HeldStorage(tmp_path / "store")
    commit(storage, (Draft(b"a", 1).write(b"precious"),))
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    manifest = copy / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"salt":7', b'"salt":5'))
    storage = HeldStorage(copy)
    assert storage.read(1, 0, 8) == b"precious"
    storage.close()


def test_a_store_of_format_1_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format":1,"mode":"acid","shard_count":4}')
    (tmp_path / "shard-000").mkdir()
    with pytest.raises(StoreError, match=r"has format 1, .*everbrook export.*everbrook import"):
        HeldStorage(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "manifest.json", "shard-000"]


def test_a_store_of_a_later_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format":3,"mode":"acid","salt":7}')
    with pytest.raises(StoreError, match="has format 3; this version reads format 2"):
        HeldStorage(tmp_path)


@pytest.mark.parametrize("folder", ["journal", "streams", "blobs", "shard-000"])
def test_a_store_without_its_manifest_is_not_taken_for_a_new_one(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir()
    with pytest.raises(StoreError, match="without its manifest"):
        HeldStorage(tmp_path)


# Who may open it


def test_a_store_in_use_is_refused(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path)
    with pytest.raises(StoreError, match="in use"):
        HeldStorage(tmp_path)
    storage.close()
    HeldStorage(tmp_path).close()


@pytest.mark.parametrize("made, wanted", [(ACID, FILE_DURABLE), (FILE_FAST, ACID)], ids=["acid", "file"])
def test_a_store_of_another_mode_is_refused_and_let_go(tmp_path: Path, made: DurableMode, wanted: DurableMode) -> None:
    HeldStorage(tmp_path, mode=made).close()
    for _ in range(2):
        with pytest.raises(StoreError, match=f"mode {made.store}, not {wanted.store}"):
            HeldStorage(tmp_path, mode=wanted)


def test_a_store_can_be_fast_and_durable_in_turn(tmp_path: Path) -> None:
    stream = Draft(b"a", 1)
    for number, mode in enumerate((FILE_FAST, FILE_DURABLE) * 3):
        storage = HeldStorage(tmp_path / str(number), mode=mode, boot="this one", chunk_bytes=2)
        commit(storage, (stream.write(b"x"),))
        killed(storage, tmp_path / str(number + 1))
        storage.close()
    storage = HeldStorage(tmp_path / "6", mode=FILE_FAST, boot="this one")
    assert storage.read(1, 0, 6) == b"xxxxxx"
    storage.close()


def test_the_modes_say_what_they_promise() -> None:
    assert "process" in FILE_FAST.promise
    assert all("machine" in mode.promise for mode in (ACID, FILE_DURABLE))


def test_a_store_can_be_read_though_there_is_no_room_to_write(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"one"),))
    storage.close()
    disk, group = WatchedDisk(), [(Draft(b"b", 2).write(b"two"),)]
    disk.room_bytes = 0
    storage = HeldStorage(tmp_path, disk)
    assert storage.read(1, 0, 3) == b"one"
    with pytest.raises(StorageFull):
        storage.persist(group)
    disk.room_bytes = None
    storage.persist(group)
    storage.apply(group)
    assert storage.read(2, 0, 3) == b"two"
    storage.close()
