"""The contract: what a stream remembers of its producers is kept with its data."""

from pathlib import Path

from msgspec.structs import replace

from everbrook.protocol import Producer
from everbrook.storage import Storage
from tests.kit.drafts import Draft
from tests.kit.stores import commit, inspect, open_acid, rows
from tests.unit.storage.check.repairs import repair
from tests.unit.storage.engines import Store

FIRST = Producer(epoch=0, seq=0, seen_at=1)
SECOND = Producer(epoch=0, seq=1, seen_at=2)


def producers(storage: Storage, name: bytes = b"a") -> dict[bytes, Producer]:
    record = storage.load(name)
    assert record is not None
    return dict(record.producers)


def test_a_stream_without_producers_remembers_none(store: Store) -> None:
    store.commit((Draft(b"a", 1).write(b"one"),))
    assert producers(store.storage) == {}


def test_a_producer_is_remembered_with_its_append(store: Store) -> None:
    store.commit((Draft(b"a", 1).write(b"one", producer=(b"p", FIRST)),))
    assert producers(store.storage) == {b"p": FIRST}


def test_a_producer_is_remembered_where_it_only_closed_the_stream(store: Store) -> None:
    store.commit((Draft(b"a", 1).write(producer=(b"p", FIRST), closed=True),))
    assert producers(store.storage) == {b"p": FIRST}


def test_the_newest_state_of_a_producer_counts(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1", producer=(b"p", FIRST)),), (stream.write(b"2", producer=(b"p", SECOND)),))
    assert producers(store.storage) == {b"p": SECOND}


def test_the_position_of_a_producer_is_kept(store: Store) -> None:
    stream, placed = Draft(b"a", 1), replace(FIRST, position=b"line 7")
    store.commit((stream.write(b"1", producer=(b"p", placed)),), (stream.write(b"2", producer=(b"q", SECOND)),))
    assert producers(store.storage) == {b"p": placed, b"q": SECOND}


def test_a_write_without_a_producer_forgets_nobody(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1", producer=(b"p", FIRST)),))
    store.commit((stream.write(b"2"),))
    assert producers(store.storage) == {b"p": FIRST}


def test_producers_are_forgotten_when_another_takes_their_place(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit(*((stream.write(b"1", producer=(name, FIRST)),) for name in (b"p", b"q", b"r")))
    store.commit((stream.write(b"2", producer=(b"s", SECOND), forgotten=(b"p", b"r")),))
    assert producers(store.storage) == {b"q": FIRST, b"s": SECOND}


def test_producers_can_be_forgotten_by_a_write_of_nobody(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1", producer=(b"p", FIRST)),))
    store.commit((stream.write(forgotten=(b"p",)),))
    assert producers(store.storage) == {}


def test_a_producer_that_is_forgotten_and_comes_back_is_new(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1", producer=(b"p", SECOND)),))
    store.commit((stream.write(b"2", producer=(b"p", FIRST), forgotten=(b"p",)),))
    assert producers(store.storage) == {b"p": FIRST}


def test_streams_do_not_share_producers(store: Store) -> None:
    source = Draft(b"a", 1)
    store.commit((source.write(b"1", producer=(b"p", FIRST)),))
    store.commit((Draft(b"f", 2, source=source, offset=1).write(b"2", producer=(b"p", SECOND)),))
    assert producers(store.storage, b"a") == {b"p": FIRST}
    assert producers(store.storage, b"f") == {b"p": SECOND}


def test_producers_end_with_their_stream(store: Store) -> None:
    stream = Draft(b"a", 1)
    store.commit((stream.write(b"1", producer=(b"p", FIRST)),))
    store.commit((stream.drop(),))
    store.commit((Draft(b"a", 2).write(b"2"),))
    assert producers(store.storage) == {}


# Check and repair


def placed_store(folder: Path) -> Path:
    """A closed store with a stream that has a producer with a position."""
    storage = open_acid(folder / "acid")
    commit(storage, (Draft(b"a", 1).write(b"one", producer=(b"p", replace(FIRST, position=b"line 7"))),))
    storage.close()
    return folder / "acid"


def test_a_check_accepts_the_position_of_a_producer(tmp_path: Path) -> None:
    assert inspect(placed_store(tmp_path)).damages == []


def test_a_repair_keeps_producers_with_positions(tmp_path: Path) -> None:
    store = placed_store(tmp_path)
    with rows(store) as base:
        base.damage("names", b"a")
    repair(store)
    storage = open_acid(store)
    assert producers(storage) == {b"p": replace(FIRST, position=b"line 7")}
    storage.close()
