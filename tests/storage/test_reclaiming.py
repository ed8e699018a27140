"""The acid storage: what was cut is removed from LMDB, and its pages are used again, whatever is under way."""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from everbrook.protocol import Change
from everbrook.protocol.errors import StreamDamaged
from everbrook.storage.acid.rows import INCARNATION
from everbrook.storage.acid.shard import Shard
from everbrook.storage.acid.tuning import DEFAULT_TUNING
from tests.storage.checking import commit, inspect, rows
from tests.storage.drafts import Draft
from tests.storage.engines import scratch_folder
from tests.storage.folding import HeldAcid
from tests.storage.test_discarding import Life, assert_whole_from
from tests.storage.test_messages import found_messages, model_messages, model_seek

MEBIBYTE = 1 << 20


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield Path(folder)


def open_acid(folder: Path, fold_at_bytes: int = MEBIBYTE, shard_count: int = 1) -> HeldAcid:
    return HeldAcid(folder, shard_count=shard_count, fold_at_bytes=fold_at_bytes)


def write_much(storage: HeldAcid, stream: Draft, chance: random.Random, total_bytes: int) -> None:
    end = stream.head.tail + total_bytes
    while stream.head.tail < end:
        commit(storage, (stream.write(chance.randbytes(chance.randrange(500, 60_000))),))
    storage.settle()


def data_bytes(folder: Path) -> int:
    return (folder / "shard-000" / "data.mdb").stat().st_size


def test_the_room_of_what_was_cut_is_used_again(folder: Path) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), open_acid(folder)
    sizes = []
    for _ in range(6):
        write_much(storage, stream, chance, 3 * MEBIBYTE)
        commit(storage, (stream.cut(stream.head.tail),))
        storage.discard(1)
        storage.settle()
        sizes.append(data_bytes(folder))
        stream.data = b""
    assert sizes[0] >= 2 * MEBIBYTE
    assert sizes[-1] < 2 * sizes[0]
    storage.close()


def test_much_that_was_cut_goes_without_further_writes(folder: Path) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), open_acid(folder)
    write_much(storage, stream, chance, 3 * MEBIBYTE)
    commit(storage, (stream.cut(stream.boundaries[-2]),))
    before = storage.shelved_bytes(1)
    storage.discard(1)
    storage.settle()
    assert before > MEBIBYTE
    assert storage.shelved_bytes(1) < DEFAULT_TUNING.chunk_bytes
    assert_whole_from(storage, stream, stream.boundaries[-2], chance)
    storage.close()


def test_little_that_was_cut_goes_with_the_next_fold(folder: Path) -> None:
    stream, storage = Draft(b"a", 1), open_acid(folder)
    commit(storage, (stream.write(b"x" * 20_000),), (stream.write(b"y" * 20_000),))
    storage.close()
    storage = open_acid(folder)
    commit(storage, (stream.cut(40_000),))
    storage.discard(1)
    storage.settle()
    assert storage.shelved_bytes(1) == 40_000
    storage.close()
    storage = open_acid(folder)
    assert storage.shelved_bytes(1) == 0
    storage.close()


def test_what_was_cut_and_is_still_in_memory_goes_from_there(folder: Path) -> None:
    stream, storage = Draft(b"a", 1), open_acid(folder)
    for _ in range(10):
        commit(storage, (stream.write(b"x" * 70_000),))
    commit(storage, (stream.cut(stream.boundaries[-2]),))
    storage.discard(1)
    run = storage._recent.run(1)  # noqa: SLF001
    assert run
    assert run.used_bytes < 71_000
    storage.close()


def test_a_discard_that_failed_is_done_by_the_next_fold(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1), open_acid(folder)
    write_much(storage, stream, chance, 3 * MEBIBYTE)
    commit(storage, (stream.cut(stream.boundaries[-2]),))

    def fail(_shard: Shard, _floors: dict[int, int]) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Shard, "discard", fail)
        storage.discard(1)
        storage.settle()
    assert storage.shelved_bytes(1) > MEBIBYTE
    commit(storage, (stream.write(b"more"),))
    storage.close()
    assert inspect(folder).damages == []
    storage = open_acid(folder)
    assert storage.shelved_bytes(1) < DEFAULT_TUNING.chunk_bytes
    storage.close()


def three_layers(storage: HeldAcid, stream: Draft, chance: random.Random) -> Event:
    """Leave a stream partly on the shelf, partly in a fold that waits for an event, and partly in memory only."""
    write_much(storage, stream, chance, MEBIBYTE)
    go_on = storage.background.hold()
    before = storage.background.submitted
    while storage.background.submitted == before:
        commit(storage, (stream.write(*(chance.randbytes(9_000) for _ in range(3))),))
    for _ in range(20):
        commit(storage, (stream.write(*(chance.randbytes(900) for _ in range(3))),))
    return go_on


def test_messages_are_found_across_all_layers(folder: Path) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1, json=True), open_acid(folder)
    go_on = three_layers(storage, stream, chance)
    boundaries = stream.boundaries
    for waiting in (True, False):
        if not waiting:
            go_on.set()
            storage.background.finish()
        for _ in range(300):
            offset, count = chance.choice(boundaries), chance.randrange(-len(boundaries), len(boundaries))
            assert storage.seek(1, offset, count) == model_seek(stream, offset, count)
        for _ in range(30):
            start, end = sorted(chance.sample(boundaries, 2))
            assert found_messages(storage, 1, start, end) == model_messages(stream, start, end)
        assert_whole_from(storage, stream, 0, chance)
    storage.close()


@pytest.mark.parametrize("where", [0.2, 0.7, 0.99])
def test_what_is_cut_while_a_fold_is_under_way_goes_after_it(folder: Path, where: float) -> None:
    chance, stream, storage = random.Random(1), Draft(b"a", 1, json=True), open_acid(folder)
    go_on = three_layers(storage, stream, chance)
    floor = stream.boundaries[int(len(stream.boundaries) * where)]
    commit(storage, (stream.cut(floor),))
    storage.discard(1)
    assert_whole_from(storage, stream, floor, chance)
    go_on.set()
    storage.settle()
    assert_whole_from(storage, stream, floor, chance)
    commit(storage, (stream.write(b"after it,"),))
    storage.close()
    assert inspect(folder).damages == []
    storage = open_acid(folder)
    assert_whole_from(storage, stream, floor, chance)
    storage.close()


class Killed:
    """A store that is not closed before it is opened anew."""

    def __init__(self, storage: HeldAcid) -> None:
        self.storage = storage

    def commit(self, *group: Change) -> None:
        commit(self.storage, *group)

    def reopen_if_durable(self) -> None:
        self.storage.settle()


@pytest.mark.parametrize("seed", range(6))
def test_a_store_that_is_killed_at_any_point_has_what_somebody_retains(folder: Path, seed: int) -> None:
    chance, storage = random.Random(seed), open_acid(folder / "store", 2_000, shard_count=2)
    life = Life(Killed(storage), seed)
    for number in range(60):
        life.step()
        if number % 4:
            continue
        storage.settle()
        copy = folder / f"copy-{number}"
        shutil.copytree(folder / "store", copy)
        assert inspect(copy, 2).damages == []
        again = open_acid(copy, 2_000, shard_count=2)
        assert_whole_from(again, life.stream, life.floor, chance)
        again.close()
    storage.close()


# Damage


def test_a_damaged_head_is_listed_without_one(folder: Path) -> None:
    streams = [Draft(b"/%d" % number, number) for number in (1, 2, 3, 4)]
    storage = open_acid(folder)
    commit(storage, *((stream.write(b"x"),) for stream in streams))
    storage.close()
    with rows(folder) as changed:
        changed.damage("streams", INCARNATION.pack(2))
        changed.delete("streams", INCARNATION.pack(3))
        changed.damage("names", b"/4")
    storage = open_acid(folder)
    assert storage.scan(b"/", b"", 10) == [(b"/1", streams[0].head), *((name, None) for name in (b"/2", b"/3", b"/4"))]
    with pytest.raises(StreamDamaged):
        storage.load(b"/2")
    storage.discard(2)
    assert storage.keeps(2, 5)
    storage.close()


def test_a_stream_that_goes_on_from_a_damaged_row_does_not_keep_the_store_shut(folder: Path) -> None:
    stream, other, storage = Draft(b"/1", 1), Draft(b"/2", 2), open_acid(folder)
    commit(storage, (stream.write(b"x"),), (other.write(b"y"),))
    storage.close()
    storage = open_acid(folder)
    storage.persist([(stream.write(b"more"),)])
    storage.close()
    with rows(folder) as changed:
        changed.damage("streams", INCARNATION.pack(1))
    storage = open_acid(folder)
    assert storage.scan(b"/", b"", 10) == [(b"/1", None), (b"/2", other.head)]
    storage.close()
