"""Pages of LMDB's file that are damaged: the storage names them, or refuses to open, and no other error leaves it."""

from pathlib import Path

import lmdb
import pytest

from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import DurableStorage, OsDisk, StoreError
from everbrook.storage.base_rows import INCARNATION, PLACE, seal
from everbrook.storage.check import check_store, known_damage, walk_base
from everbrook.storage.lmdb_pages import META, PAGE, problem_of
from tests.kit.damage import flip, places, rows
from tests.kit.drafts import Draft
from tests.kit.stores import commit
from tests.unit.storage.checkpoints import HeldStorage, loaded

PAGE_BYTES = 4096


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with some streams."""
    storage = HeldStorage(tmp_path, chunk_bytes=200)
    for number, name in enumerate((b"a", b"b", b"c"), 10):
        stream = Draft(name, number)
        commit(storage, (stream.write(b"x" * 100),))
        commit(storage, (stream.write(b"y" * 150),))
    storage.close()
    return tmp_path


def damage_page(store: Path, found: bytes) -> None:
    """Let the pages that hold some bytes be of no kind that LMDB knows."""
    for place in list(places(store, found)):
        flip(store / "base" / "data.mdb", place - place % PAGE_BYTES + 10, 1)


def test_a_stream_in_a_page_that_cant_be_read_is_marked(store: Path) -> None:
    damage_page(store, PLACE.pack(12, 0) + b"\0" + b"x" * 50)
    storage = HeldStorage(store)
    assert loaded(storage, b"c").damage is None
    with pytest.raises(StreamDamaged):
        storage.read(12, 0, 100)
    assert loaded(storage, b"c").damage
    storage.close()


def test_a_base_whose_marks_cant_be_read_is_refused(store: Path) -> None:
    with rows(store) as changed:
        changed.put(b"damaged", INCARNATION.pack(10), seal(INCARNATION.pack(10), bytes(8) + b"the only mark"))
    damage_page(store, b"the only mark")
    with pytest.raises(StoreError, match="is damaged"):
        HeldStorage(store)


def test_a_base_that_cant_be_written_is_refused(store: Path) -> None:
    with pytest.raises(StoreError, match="can't be written"):
        DurableStorage(
            OsDisk(), store, salt=7, open_environment=lambda base: lmdb.open(str(base), readonly=True, max_dbs=16)
        )


def test_a_value_beyond_the_end_of_the_file_is_found_by_the_walk(store: Path) -> None:
    key = PLACE.pack(12, 0)
    for place in list(places(store, key + b"\0" + b"x" * 50)):
        # The upper half of the length of a value, in front of its key.
        flip(store / "base" / "data.mdb", place - 5, 6)
    assert walk_base(store)


def test_a_damaged_list_of_free_pages_is_refused(store: Path) -> None:
    data = store / "base" / "data.mdb"
    assert problem_of(data) is None
    roots = [int.from_bytes(data.read_bytes()[start : start + 8], "little") for start in (80, PAGE_BYTES + 80)]
    for root in roots:
        flip(data, root * PAGE_BYTES + 10, 1)
    problem = problem_of(data)
    assert problem
    assert "free pages" in problem
    with pytest.raises(StoreError, match="free pages"):
        HeldStorage(store)


def test_a_list_of_free_pages_without_its_rows_is_refused_and_named(store: Path) -> None:
    """LMDB would find it at the first write: a store that the checker calls whole must open."""
    path = store / "base" / "data.mdb"
    data = bytearray(path.read_bytes())
    newer = max((0, 1), key=lambda page: META.unpack_from(data, page * PAGE_BYTES + PAGE.size)[-1])
    root = META.unpack_from(data, newer * PAGE_BYTES + PAGE.size)[11]
    data[(root + 1) * PAGE_BYTES - 512 : (root + 1) * PAGE_BYTES] = bytes(512)
    path.write_bytes(data)
    assert not check_store(store, lambda _done, _all: None).sound
    with pytest.raises(StoreError, match="free pages"):
        HeldStorage(store)


@pytest.mark.parametrize("database", [b"names", b"meta", b"producers", b"chunks"])
@pytest.mark.parametrize("how", ["name", "flags"])
def test_a_damaged_row_of_lmdbs_databases_keeps_the_store_from_opening(store: Path, database: bytes, how: str) -> None:
    """LMDB would make an empty database in the place of the one whose name is damaged, or search in another order."""
    # The first bit of a name leaves the names in order. The third flag is that of keys with several values.
    at, bit = (0, 0) if how == "name" else (len(database) + 4, 2)
    for place in list(places(store, database)):
        flip(store / "base" / "data.mdb", place + at, bit)
    before = (store / "base" / "data.mdb").read_bytes()
    with pytest.raises(StoreError, match="list of databases"):
        HeldStorage(store)
    assert (store / "base" / "data.mdb").read_bytes() == before
    assert not check_store(store, lambda _done, _all: None).sound
    assert known_damage(store).refusal
