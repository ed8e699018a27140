"""A row whose key is damaged is not where it belongs: whoever looks for it is told, and nobody else."""

from contextlib import suppress
from pathlib import Path

import pytest

from everbrook.protocol import Producer
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage import FILE_DURABLE
from everbrook.storage.base_rows import INCARNATION, PLACE, seal
from tests.kit.damage import flip, places, rows
from tests.kit.drafts import Draft
from tests.kit.stores import commit, inspect
from tests.unit.storage.checkpoints import HeldStorage, journal_files, killed, loaded, segments

NAMES = [b"a", b"b", b"c", b"d", b"e"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A closed store with some streams, each with producers, and forks of the first one."""
    storage = HeldStorage(tmp_path, chunk_bytes=200)
    streams = [Draft(name, number, ttl_secs=60) for number, name in enumerate(NAMES, 10)]
    for stream in streams:
        commit(storage, (stream.write(b"x" * 100, producer=(b"p", Producer(1, 2, 3))),))
        commit(storage, (stream.write(b"y" * 150, producer=(b"q", Producer(4, 5, 6))),))
    commit(storage, (Draft(b"fork", 20, source=streams[0], offset=100).write(b"own"),))
    commit(storage, (Draft(b"fork2", 21, source=streams[0], offset=100).write(b"own"),))
    storage.close()
    return tmp_path


def damage_key(store: Path, key: bytes, value: bytes, position: int, bit: int) -> None:
    """Flip a bit of a key in its page."""
    for place in list(places(store, key + value)):
        flip(store / "base" / "data.mdb", place + position, bit)


@pytest.mark.parametrize("bit", range(7))
@pytest.mark.parametrize("number", [10, 12, 14])
def test_a_name_whose_key_is_damaged_is_not_free(store: Path, number: int, bit: int) -> None:
    name = NAMES[number - 10]
    damage_key(store, name, INCARNATION.pack(number), 0, bit)
    storage = HeldStorage(store)
    with pytest.raises(StreamDamaged):
        storage.load(name)
    for other in {*NAMES, b"fork"} - {name}:
        try:
            assert not loaded(storage, other).damage
        except StreamDamaged:
            assert other == bytes([name[0] ^ 1 << bit])
    storage.close()


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("number", range(10, 15))
def test_a_damaged_key_hides_no_other_name(store: Path, number: int, bit: int) -> None:
    """At a key that is out of order LMDB may take the wrong way, and not find rows that are there."""
    damaged = NAMES[number - 10]
    damage_key(store, damaged, INCARNATION.pack(number), 0, bit)
    storage = HeldStorage(store)
    for name in {*NAMES} - {damaged}:
        with suppress(StreamDamaged):
            assert storage.load(name)
        assert name in [found for found, _ in storage.scan(b"", b"", 9)]
        assert name in [found for found, _ in storage.scan(name, b"", 9)]
    storage.close()


def test_a_name_is_free_next_to_a_damaged_row_of_another(store: Path) -> None:
    with rows(store) as changed:
        changed.flip(b"names", b"c", 8)
    storage = HeldStorage(store)
    assert storage.load(b"bb") is None
    assert storage.load(b"cc") is None
    with pytest.raises(StreamDamaged):
        storage.load(b"c")
    storage.close()


@pytest.mark.parametrize("position", [3, 7, 8])
def test_a_lost_producer_is_noticed(store: Path, position: int) -> None:
    damage_key(store, INCARNATION.pack(12) + b"q", b"", position, 6)
    storage = HeldStorage(store)
    record = loaded(storage, b"c")
    assert record.damage
    assert record.damage.offset == record.head.tail
    assert not loaded(storage, b"a").damage
    storage.close()


def test_a_damaged_producer_is_no_damage_to_the_next_stream(store: Path) -> None:
    with rows(store) as changed:
        changed.flip(b"producers", INCARNATION.pack(12) + b"q")
        changed.flip(b"producers", INCARNATION.pack(12) + b"p")
    storage = HeldStorage(store)
    assert loaded(storage, b"c").damage
    assert not loaded(storage, b"b").damage
    assert not loaded(storage, b"d").damage
    storage.close()


def test_a_damaged_producer_of_a_damaged_stream_is_no_damage_to_the_next_one(store: Path) -> None:
    with rows(store) as changed:
        changed.flip(b"producers", INCARNATION.pack(12) + b"q")
        changed.flip(b"streams", INCARNATION.pack(12))
    storage = HeldStorage(store)
    assert loaded(storage, b"c").damage
    assert not loaded(storage, b"d").damage
    assert not loaded(storage, b"b").damage
    storage.close()


@pytest.mark.parametrize("position", [0, 7, 15])
def test_a_fork_that_is_not_entered_is_noticed(store: Path, position: int) -> None:
    damage_key(store, PLACE.pack(10, 20), b"", position, 6)
    storage = HeldStorage(store)
    assert storage.fork_count(10) > 0
    record = loaded(storage, b"a")
    assert record.damage
    assert record.damage.offset == record.head.tail
    assert storage.fork_count(11) == 0
    storage.close()


def test_streams_that_expire_are_found_without_their_rows(store: Path) -> None:
    with rows(store) as changed:
        changed.flip(b"mortal", INCARNATION.pack(12))
        changed.delete(b"mortal", INCARNATION.pack(13))
    storage = HeldStorage(store)
    assert [head.identity.incarnation for head in storage.mortal(10, 3)] == [11, 12, 13]
    storage.close()


def test_streams_that_expire_are_found_behind_damaged_ones(store: Path) -> None:
    """A slice of damaged streams alone is not the end of them."""
    with rows(store) as changed:
        for number in (10, 11, 12):
            changed.flip(b"streams", INCARNATION.pack(number), 3)
    storage = HeldStorage(store)
    assert [head.identity.incarnation for head in storage.mortal(0, 2)] == [13]
    assert [head.identity.incarnation for head in storage.mortal(13, 2)] == [14]
    storage.close()


def test_a_mark_of_an_unknown_stream_is_kept(store: Path) -> None:
    with rows(store) as changed:
        changed.put(b"damaged", b"short", b"what it says")
    for _ in range(2):
        storage = HeldStorage(store)
        assert storage.damaged_streams == 1
        storage.close()


def test_a_damaged_row_removes_no_segment(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE, chunk_bytes=200)
    commit(storage, (Draft(b"a", 1).write(b"x" * 500),))
    storage.close()
    with rows(tmp_path) as changed:
        changed.put(b"removals", PLACE.pack(1, 0), seal(PLACE.pack(5, 0), b""))
    assert any("the row can't be read" in damage for damage in inspect(tmp_path).damages)
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE)
    assert len(segments(tmp_path)) == 1
    assert storage.read(1, 0, 500) == b"x" * 500
    storage.close()


def test_a_read_behind_a_missing_chunk_of_a_segment_is_damage(tmp_path: Path) -> None:
    storage, stream = HeldStorage(tmp_path, mode=FILE_DURABLE, chunk_bytes=10_000), Draft(b"a", 1)
    commit(storage, *((stream.write(bytes([number]) * 1_000),) for number in range(40)))
    storage.close()
    with rows(tmp_path) as changed:
        changed.delete(b"chunks", PLACE.pack(1, 10_000))
    storage = HeldStorage(tmp_path, mode=FILE_DURABLE)
    with pytest.raises(StreamDamaged, match="a chunk is missing"):
        storage.read(1, 19_000, 19_500)
    assert storage.read(1, 20_000, 40_000) == stream.data[20_000:]
    storage.close()


# Forks and numbers


def test_seeking_back_misses_nothing_that_a_fork_needs(tmp_path: Path) -> None:
    storage, source = HeldStorage(tmp_path, chunk_bytes=100), Draft(b"a", 1)
    commit(storage, *((source.write(b"x" * 60),) for _ in range(10)))
    commit(storage, (Draft(b"fork", 2, source=source, offset=600).write(b"own"),))
    commit(storage, (source.cut(300),))
    storage.close()
    with rows(tmp_path) as changed:
        changed.delete(b"indexes", PLACE.pack(1, 120))
    storage = HeldStorage(tmp_path)
    assert storage.seek(1, 600, -5) == (300, 0)
    with pytest.raises(StreamDamaged):
        storage.seek(1, 600, -9)
    storage.close()


def test_a_dropped_fork_whose_row_is_damaged_leaves_no_entry(store: Path) -> None:
    with rows(store) as changed:
        changed.flip(b"streams", INCARNATION.pack(20))
    storage = HeldStorage(store)
    fork = Draft(b"fork", 20)
    commit(storage, (fork.drop(),))
    storage.close()
    storage = HeldStorage(store)
    assert storage.fork_count(10) == 1
    storage.close()


def test_the_number_of_a_lost_stream_is_not_given_again(tmp_path: Path) -> None:
    storage = HeldStorage(tmp_path / "store")
    commit(storage, (Draft(b"a", 7).write(b"x"),))
    commit(storage, (Draft(b"b", 99).write(b"lost"),))
    storage.seal()
    copy = killed(storage, tmp_path / "copy")
    storage.close()
    (journal,) = journal_files(copy)
    flip(journal, journal.read_bytes().index(b"lost"))
    storage = HeldStorage(copy)
    assert storage.damages[0].streams == (99,)
    assert storage.last_incarnation == 99
    storage.close()
