"""The contract: what is pinned stays as it was, whatever becomes of the storage meanwhile."""

import random
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from everbrook.storage import MemoryStorage, Pin
from tests.kit.drafts import Draft
from tests.unit.storage.engines import ENGINES, Store, scratch_folder
from tests.unit.storage.pinning import Life, copy_of, found, reopened, write_blob

DURABLE = [name for name, engine in ENGINES.items() if engine.durable]


def pinned(store: Store) -> Pin:
    pin = store.storage.pin()
    assert pin is not None
    return pin


@pytest.fixture
def target() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield Path(folder)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", DURABLE)
def test_a_copy_holds_what_the_store_held_when_it_was_pinned(name: str, seed: int, target: Path) -> None:
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=False) as store:
        life = Life(store, random.Random(seed))
        life.live(60)
        expected, pin = life.model(), pinned(store)
        life.live(120)
        assert reopened(ENGINES[name], pin, target) == expected
        pin.release()
        assert found(store.storage) == life.model()


@pytest.mark.parametrize("name", DURABLE)
def test_two_pins_hold_two_moments(name: str, target: Path) -> None:
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=False) as store:
        life = Life(store, random.Random(5))
        life.live(40)
        first, first_pin = life.model(), pinned(store)
        life.live(40)
        second, second_pin = life.model(), pinned(store)
        life.live(40)
        assert reopened(ENGINES[name], first_pin, target / "1") == first
        first_pin.release()
        life.live(40)
        assert reopened(ENGINES[name], second_pin, target / "2") == second


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", DURABLE)
def test_a_copy_is_as_good_while_others_write(name: str, seed: int, target: Path) -> None:
    with scratch_folder() as folder, Store(ENGINES[name], Path(folder), reopening=False) as store:
        life = Life(store, random.Random(seed))
        life.live(150)
        expected, pin = life.model(), pinned(store)
        copying = Thread(target=copy_of, args=(pin, target / pin.store))
        copying.start()
        while copying.is_alive():
            life.live(5)
    with Store(ENGINES[name], target, reopening=False) as copy:
        assert found(copy.storage) == expected


def files_of(store: Store, incarnation: int) -> list[str]:
    """The segments and blobs of a stream."""
    return sorted(path.name for path in store.folder.rglob(f"{incarnation:016x}-*"))


def test_what_is_dropped_goes_when_the_last_pin_does(durable_store: Store) -> None:
    stream = Draft(b"a", 1)
    durable_store.commit((stream.write(bytes(200_000)),))
    durable_store.reopen()
    write_blob(durable_store.storage.blobs, 1, 9, b"snapshot")
    before = files_of(durable_store, 1)
    first, second = pinned(durable_store), pinned(durable_store)
    durable_store.storage.blobs.remove(1, 9)
    durable_store.commit((stream.drop(),))
    durable_store.commit((Draft(b"b", 2).write(b"so that a small store makes a checkpoint" * 10),))
    first.release()
    assert files_of(durable_store, 1) == before
    second.release()
    durable_store.reopen()
    assert files_of(durable_store, 1) == []


def test_a_storage_that_is_closed_lets_its_pins_go(durable_store: Store) -> None:
    stream = Draft(b"a", 1)
    durable_store.commit((stream.write(b"x"),))
    pin = pinned(durable_store)
    durable_store.reopen()
    pin.release()
    durable_store.commit((stream.write(b"y"),))
    assert durable_store.storage.read(1, 0, 2) == b"xy"


def test_a_blob_that_is_begun_after_the_pin_is_not_in_it(durable_store: Store) -> None:
    write_blob(durable_store.storage.blobs, 1, 1, b"old")
    pin = pinned(durable_store)
    write_blob(durable_store.storage.blobs, 1, 2, b"young")
    names = [file.name for folder in pin.folders() if folder.startswith("blobs/") for file in pin.files(folder)]
    assert len(names) == 1
    assert pin.read(names[0], 0, 3) == b"old"


@pytest.mark.parametrize(
    "name",
    ["lock", "../secret", "/etc/passwd", "blobs/../lock", "blobs/aa/../../lock", "streams/aa/..", "journal/x", ""],
)
def test_nothing_can_be_read_that_is_not_a_file_of_the_store(durable_store: Store, name: str) -> None:
    pin = pinned(durable_store)
    with pytest.raises(FileNotFoundError):
        pin.read(name, 0, 10)


@pytest.mark.parametrize("folder", ["..", "blobs/..", "streams/../..", "/etc", "blobs/../../etc"])
def test_nothing_is_listed_that_is_not_of_the_store(durable_store: Store, folder: str) -> None:
    assert pinned(durable_store).files(folder) == []


def test_memory_has_nothing_to_pin() -> None:
    assert MemoryStorage().pin() is None  # type: ignore[func-returns-value]
