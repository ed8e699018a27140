"""Opening an acid store of which a part is gone, or that never was one: refused in words, and never taken for empty."""

import random
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from everbrook.storage import OsDisk, StoreError
from everbrook.storage.acid.pages import problem_of
from everbrook.storage.acid.shard import Shard
from everbrook.storage.manifest import open_folder
from tests.storage.checking import commit, inspect, open_acid
from tests.storage.drafts import Draft

PAGE_BYTES = 4096


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The file of the only shard of a store with a stream in it."""
    storage = open_acid(tmp_path)
    commit(storage, (Draft(b"a", 1).write(b"x" * 100_000),))
    storage.close()
    return tmp_path / "shard-000" / "data.mdb"


def cut_off(size: int) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(path.read_bytes()[:size])


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
def test_a_shard_that_is_not_whole_is_refused(data: Path, spoil: Callable[[Path], object], problem: str) -> None:
    spoil(data)
    with pytest.raises(StoreError, match=rf"shard-000/data\.mdb can't be opened: .*{problem}"):
        open_acid(data.parents[1])
    assert any(problem in damage for damage in inspect(data.parents[1]).damages)


def test_a_store_without_its_journal_is_refused(data: Path) -> None:
    store = data.parents[1]
    for path in (store / "journal").iterdir():
        path.unlink()
    (store / "journal").rmdir()
    with pytest.raises(StoreError, match="holds a store without its journal"):
        open_acid(store)


def test_a_store_that_is_refused_can_be_opened_when_it_is_whole_again(data: Path) -> None:
    whole = data.read_bytes()
    data.write_bytes(b"")
    with pytest.raises(StoreError):
        open_acid(data.parents[1])
    data.write_bytes(whole)
    storage = open_acid(data.parents[1])
    assert storage.read(1, 0, 100_000) == b"x" * 100_000
    storage.close()


@pytest.mark.parametrize("left", [None, b"", b"\0" * 100, b"\0" * 5000])
def test_a_store_whose_making_was_cut_off_is_made(tmp_path: Path, left: bytes | None) -> None:
    """The folder of the journal is made last."""
    open_acid(tmp_path, 2).close()
    (tmp_path / "journal").rmdir()
    data = tmp_path / "shard-001" / "data.mdb"
    data.unlink()
    if left is not None:
        data.write_bytes(left)
    assert inspect(tmp_path, 2).sound
    storage = open_acid(tmp_path, 2)
    commit(storage, (Draft(b"a", 1).write(b"x"),))
    storage.close()
    assert inspect(tmp_path, 2).sound


def test_free_pages_that_were_never_written_are_not_missed(tmp_path: Path) -> None:
    """LMDB leaves those at the end of its file out that it gave up in the transaction that took them."""
    chance, shorter = random.Random(1), 0
    env = lmdb.open(str(tmp_path), map_size=1 << 30)
    rows = {b"%08d" % number: chance.randbytes(chance.randrange(2000)) for number in range(300)}
    for _ in range(60):
        with env.begin(write=True) as transaction:
            for key, value in chance.sample(sorted(rows.items()), 100):
                transaction.put(key, value)
            transaction.put(b"large", chance.randbytes(100_000))
            transaction.delete(b"large")
            for key in chance.sample(sorted(rows), chance.randrange(200)):
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
        Shard(data.parent)


# Folders and manifests


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(StoreError, match="file can't be used as a folder for a store: File exists"):
        open_folder(OsDisk(), file)
    with pytest.raises(StoreError, match="acid can't be used as a folder for a store: Not a directory"):
        open_acid(file / "acid")


@pytest.mark.parametrize("count", [-1, 0, 3, 512])
def test_a_manifest_with_an_impossible_number_of_shards_is_refused(data: Path, count: int) -> None:
    manifest = data.parents[1] / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"shard_count":1', f'"shard_count":{count}'))
    with pytest.raises(StoreError, match=f"shard_count must be a power of two from 1 to 256, got {count}"):
        open_acid(data.parents[1])
